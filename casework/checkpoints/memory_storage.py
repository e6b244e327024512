"""Packages in memory, for tests and for trying things out; the same promises, no disk."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock

from casework.checkpoints.storage import AlreadyExists, NotFound, check_path
from casework.errors import StorageError


class MemoryStorage:
    """A storage that forgets everything when it is dropped; safe to share between threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._files: dict[str, bytes] = {}
        self._folders: dict[str, set[str]] = {"": set()}

    def create(self, files: Sequence[tuple[str, bytes]]) -> None:
        """Create files in order, and never over others; see :class:`Storage`."""
        assert files
        with self._lock:
            for number, (path, content) in enumerate(files, start=1):
                check_path(path)
                there = self._files.get(path)
                if there is not None and (number == len(files) or there != content):
                    raise AlreadyExists(path)
                self._enter(path)
                self._files[path] = content

    def read(self, path: str) -> bytes:
        """Return a file's bytes; see :class:`Storage`."""
        try:
            return self._files[check_path(path)]
        except KeyError:
            raise NotFound(path) from None

    def list(self, folder: str) -> list[str]:
        """Return the names directly in a folder; see :class:`Storage`."""
        with self._lock:
            return sorted(self._folders.get(folder, ()))

    def delete(self, path: str) -> None:
        """Remove a file; see :class:`Storage`."""
        with self._lock:
            if self._files.pop(check_path(path), None) is None:
                raise NotFound(path)
            folder, _, name = path.rpartition("/")
            self._folders[folder].discard(name)

    def _enter(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        if path in self._folders or any(above in self._files for above in _folders_above(path)):
            raise StorageError("a file stands where a folder should be", where=path)
        for above in _folders_above(path):
            self._folders.setdefault(above, set())
        self._folders[folder].add(name)
        while folder:
            folder, _, name = folder.rpartition("/")
            self._folders[folder].add(f"{name}/")


def _folders_above(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[:length]) for length in range(1, len(parts) + 1)]
