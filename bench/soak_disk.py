"""A disk under a project that refuses when it is told to."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

FILE_SYSTEM_BYTES = 512 * 1024 * 1024
PIECES_BYTES = (1024 * 1024, 4096, 64)
FOLDERS = ("cases", "logs")


class RefusingDisk(Protocol):
    """A disk that refuses for a while."""

    how: str

    def refuse(self) -> None:
        """Refuse from now on; to be said again and again, since room may have come free."""

    def relent(self) -> None:
        """Take everything again."""


class FullDisk:
    """A file system that is full.

    Args:
        folder: On the file system.
    """

    how = "it is full"

    def __init__(self, folder: Path) -> None:
        self._filler = folder / "filler"

    def refuse(self) -> None:
        """Fill what is free."""
        with self._filler.open("ab", buffering=0) as file:
            for size in PIECES_BYTES:
                with contextlib.suppress(OSError):
                    while file.write(bytes(size)) == size:
                        pass

    def relent(self) -> None:
        """Give the room back."""
        self._filler.unlink()


class MissingFolders:
    """Folders in whose places files stand.

    Args:
        folder: That which holds them.
    """

    how = "files stand where its folders belong"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._refusing = False

    def refuse(self) -> None:
        """Put the folders away, and files in their places."""
        if self._refusing:
            return
        self._refusing = True
        for name in FOLDERS:
            place = self._folder / name
            if place.exists():
                place.rename(self._away(name))
            place.write_bytes(b"")

    def relent(self) -> None:
        """Put the folders back."""
        self._refusing = False
        for name in FOLDERS:
            (self._folder / name).unlink()
            if self._away(name).exists():
                self._away(name).rename(self._folder / name)

    def _away(self, name: str) -> Path:
        return self._folder / f"{name}-away"


@contextmanager
def disk_of(project: Path) -> Iterator[RefusingDisk]:
    """Put a small file system under a project where mounting is allowed; else only its folders."""
    runtime = project / "runtime"
    runtime.mkdir(parents=True)
    mount = shutil.which("mount")
    size = f"size={FILE_SYSTEM_BYTES}"
    mounting = [mount or "false", "-t", "tmpfs", "-o", size, "tmpfs", str(runtime)]
    if mount is None or subprocess.run(mounting, check=False, capture_output=True).returncode:
        yield MissingFolders(runtime)
        return
    try:
        yield FullDisk(runtime)
    finally:
        subprocess.run(["umount", "--lazy", str(runtime)], check=True)
