"""The seam between packages and where their bytes lie: four methods, a folder or a bucket."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Protocol

from casework.errors import CheckpointError, PackageNotFound, StorageError

NAME_LENGTH_MAX: Final = 140
"""Longest single name in a path; file systems allow 255 bytes, ZIP tools and Windows less."""

PATH_LENGTH_MAX: Final = 480

_PATH: Final = re.compile(
    r"[A-Za-z0-9_~][A-Za-z0-9._~-]*(?<!\.)(/[A-Za-z0-9_~][A-Za-z0-9._~-]*(?<!\.))*", re.ASCII
)


class AlreadyExists(CheckpointError):
    """A file with this name is there and holds other bytes, or had to be new.

    It stays inside this package: the store turns it into ``StaleGeneration`` or repairs a leftover.
    """

    default_code = "already_exists"

    def __init__(self, path: str) -> None:
        super().__init__("the file exists already", where=path)
        self.path = path


class NotFound(PackageNotFound):
    """There is no file of this name."""

    default_code = "file_not_found"

    def __init__(self, path: str) -> None:
        super().__init__("there is no such file", where=path)
        self.path = path


class Storage(Protocol):
    """Where bytes lie, addressed by relative paths with ``/``.

    Files are never changed once created. Every failure of the ground is a ``StorageError``; no
    method retries a failed sync, because after one nobody knows what the disk holds.
    """

    def create(self, files: Sequence[tuple[str, bytes]]) -> None:
        """Create files durably, in order, and never over others.

        Each file appears whole or not at all, and all but the last are durable before the last
        appears. One of those that is there already with the same bytes counts as created (it is
        made durable); the last must be new.

        Raises:
            AlreadyExists: The last file is there, or another one holds other bytes.
            StorageError: The ground refused. Files before the last may have been created.
        """

    def read(self, path: str) -> bytes:
        """Return a file's bytes.

        Raises:
            NotFound: There is no such file.
        """

    def list(self, folder: str) -> list[str]:
        """Return the names directly in a folder, sorted; those of folders end with ``/``.

        The empty string names the root. A folder that is not there has no names.
        """

    def delete(self, path: str) -> None:
        """Remove a file.

        Raises:
            NotFound: There is no such file.
        """


def is_safe_path(path: str) -> bool:
    """Tell whether a path may be handed to a storage: plain relative names, nothing hidden."""
    return (
        len(path) <= PATH_LENGTH_MAX
        and _PATH.fullmatch(path) is not None
        and (
            len(path) <= NAME_LENGTH_MAX
            or all(len(name) <= NAME_LENGTH_MAX for name in path.split("/"))
        )
    )


def check_path(path: str) -> str:
    """Return a path that is safe on every system.

    Raises:
        StorageError: It is absolute, hidden, too long, or holds ``..`` or foreign characters.
    """
    if not is_safe_path(path):
        raise StorageError("the path is not a plain relative path", code="unsafe_path")
    return path


def join(folder: str, name: str) -> str:
    """Put a name below a folder; the empty folder is the root."""
    return f"{folder}/{name}" if folder else name
