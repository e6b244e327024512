"""The failure log: one JSON object a line, safe codes only, rotated by size."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Final

from casework.checkpoints.store import DEFAULT_PHASE
from casework.checkpoints.timestamps import write_time
from casework.errors import CaseworkError
from casework.strict_json import JSON, canonical

LOG_BYTES_MAX: Final = 1 << 20
BACKUPS: Final = 3

CASEBUILDING_LABEL: Final = "Casebuilding"


def context_of(phase: str) -> str:
    """Return the label under which a failure in this phase is shown."""
    return CASEBUILDING_LABEL if phase == DEFAULT_PHASE else phase


class FailureLog:
    """Append failure lines to one file that several processes may share.

    A line is one ``write`` to a file opened for appending. A torn last line, left by a power loss,
    is closed before the next one, so a reader loses at most that line. When the file would grow
    over 1 MiB it becomes ``.1``, older ones move up, and the fourth oldest is dropped.

    Logging never fails the work it tells about: where the disk refuses, the line is lost.

    Args:
        path: The file, usually ``runtime/logs/llm.jsonl``.
        exclusive: Gives the lock under which files are rotated; busy means rotated by another.
    """

    def __init__(
        self, path: Path, *, exclusive: Callable[[], AbstractContextManager[object]]
    ) -> None:
        self._path = path
        self._exclusive = exclusive

    def write(self, event: str, *, at: datetime, fields: dict[str, JSON]) -> None:
        """Append one line."""
        line = canonical({"ts": write_time(at), "event": event, **fields}) + b"\n"
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._rotate_before(len(line))
            self._append(line)
        except OSError:
            return

    def _append(self, line: bytes) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
        descriptor = os.open(self._path, flags, 0o600)
        try:
            size = os.fstat(descriptor).st_size
            torn = size > 0 and _last_byte(descriptor, size) != b"\n"
            os.write(descriptor, b"\n" + line if torn else line)
        finally:
            os.close(descriptor)

    def _rotate_before(self, incoming: int) -> None:
        if not self._would_overflow(incoming):
            return
        try:
            with self._exclusive():
                if self._would_overflow(incoming):
                    self._rotate()
        except CaseworkError:
            return

    def _would_overflow(self, incoming: int) -> bool:
        try:
            return self._path.stat().st_size + incoming > LOG_BYTES_MAX
        except FileNotFoundError:
            return False

    def _rotate(self) -> None:
        for number in range(BACKUPS, 0, -1):
            older = self._backup(number)
            newer = self._backup(number - 1) if number > 1 else self._path
            if newer.exists():
                newer.replace(older)

    def _backup(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")


def _last_byte(descriptor: int, size: int) -> bytes:
    os.lseek(descriptor, size - 1, os.SEEK_SET)
    return os.read(descriptor, 1)
