"""Reading the failure log back while others may write and rotate it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from casework.checkpoints.timestamps import read_time
from casework.errors import StorageError
from casework.runner.failure_log import BACKUPS
from casework.strict_json import InvalidJSON, JSONObject, parse

FILE_BYTES_MAX: Final = 16 * 1024 * 1024
"""Of a longer file, which the log itself never writes, only the end is read."""


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line of the log."""

    at: datetime
    event: str
    fields: JSONObject
    """The whole line as it was written."""


@dataclass(slots=True)
class FailureLogReader:
    """Reads a log with its rotated backups.

    Args:
        path: The file that is written to, usually ``runtime/logs/llm.jsonl``.
    """

    path: Path
    skipped: int = 0
    """Lines so far that are torn or damaged."""

    def lines(self) -> Iterator[LogLine]:
        """Yield the lines that can be read, in the order of their writing; others are counted.

        Raises:
            StorageError: A file is there and cannot be read.
        """
        for content in reversed(self._contents()):
            for line in content.split(b"\n"):
                if not line:
                    continue
                read = _read(line)
                if read is None:
                    self.skipped += 1
                else:
                    yield read

    def _contents(self) -> list[bytes]:
        """Return what the files hold, the newest first.

        A rotation meanwhile moves files to older names. Read in this order none is missed, and one
        that is met again is known by its identity.
        """
        contents, met = [], set()
        for number in range(BACKUPS + 1):
            path = self.path.with_name(f"{self.path.name}.{number}") if number else self.path
            try:
                with path.open("rb") as stream:
                    status = os.fstat(stream.fileno())
                    if (status.st_dev, status.st_ino) in met:
                        continue
                    met.add((status.st_dev, status.st_ino))
                    stream.seek(max(0, status.st_size - FILE_BYTES_MAX))
                    contents.append(stream.read(FILE_BYTES_MAX))
            except FileNotFoundError:
                continue
            except OSError as error:
                raise StorageError(
                    f"cannot be read ({error.strerror or type(error).__name__})",
                    where=str(path),
                    remedy="check that it is a file and that you may read it",
                ) from None
        return contents


def _read(line: bytes) -> LogLine | None:
    try:
        fields = parse(line)
    except InvalidJSON:
        return None
    if not isinstance(fields, dict):
        return None
    at, event = fields.get("ts"), fields.get("event")
    if not isinstance(at, str) or not isinstance(event, str):
        return None
    try:
        return LogLine(read_time(at), event, fields)
    except ValueError:
        return None
