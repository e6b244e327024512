"""A log file that several processes append to, rotated by size."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from casework.errors import CaseworkError


@dataclass(frozen=True, slots=True, kw_only=True)
class RotatedFile:
    """One file of lines, and its older ones.

    What is appended is one ``write`` to a file opened for appending. A torn last line, left by a
    power loss or a full disk, is closed before the next one, so a reader loses at most that line.
    When the file would outgrow its size it becomes ``.1``, older ones move up, and the oldest is
    dropped.
    """

    path: Path
    bytes_max: int
    backups: int
    """How many older files are kept."""
    exclusive: Callable[[], AbstractContextManager[object]]
    """Gives the lock under which files are rotated; busy means rotated by another."""

    def append(self, lines: bytes) -> int:
        """Append whole lines, and return how many of their bytes were written.

        Raises:
            OSError: The disk refused; nothing was written.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._rotate_before(len(lines))
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
        descriptor = os.open(self.path, flags, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            torn = size > 0 and _last_byte(descriptor, size) != b"\n"
            written = os.write(descriptor, b"\n" + lines if torn else lines)
            return max(written - torn, 0)
        finally:
            os.close(descriptor)

    def _rotate_before(self, incoming: int) -> None:
        if not self._would_overflow(incoming):
            return
        try:
            with self.exclusive():
                if self._would_overflow(incoming):
                    self._rotate()
        except CaseworkError:
            return

    def _would_overflow(self, incoming: int) -> bool:
        try:
            return self.path.stat().st_size + incoming > self.bytes_max
        except FileNotFoundError:
            return False

    def _rotate(self) -> None:
        for number in range(self.backups, 0, -1):
            older = self._backup(number)
            newer = self._backup(number - 1) if number > 1 else self.path
            if newer.exists():
                newer.replace(older)

    def _backup(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")


def _last_byte(descriptor: int, size: int) -> bytes:
    os.lseek(descriptor, size - 1, os.SEEK_SET)
    return os.read(descriptor, 1)
