"""The failure log: one JSON object a line, safe codes only, rotated by size."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from casework.checkpoints.store import DEFAULT_PHASE
from casework.checkpoints.timestamps import write_time
from casework.runner.rotated_file import RotatedFile
from casework.strict_json import JSON, canonical

LOG_BYTES_MAX: Final = 1 << 20
BACKUPS: Final = 3

CASEBUILDING_LABEL: Final = "Casebuilding"


def context_of(phase: str) -> str:
    """Return the label under which a failure in this phase is shown."""
    return CASEBUILDING_LABEL if phase == DEFAULT_PHASE else phase


class FailureLog:
    """Append failure lines to one file that several processes may share.

    Logging never fails the work it tells about: where the disk refuses, the line is lost.

    Args:
        path: The file, usually ``runtime/logs/llm.jsonl``.
        exclusive: Gives the lock under which files are rotated; busy means rotated by another.
    """

    def __init__(
        self, path: Path, *, exclusive: Callable[[], AbstractContextManager[object]]
    ) -> None:
        self._file = RotatedFile(
            path=path, bytes_max=LOG_BYTES_MAX, backups=BACKUPS, exclusive=exclusive
        )

    def write(self, event: str, *, at: datetime, fields: dict[str, JSON]) -> None:
        """Append one line."""
        line = canonical({"ts": write_time(at), "event": event, **fields}) + b"\n"
        with suppress(OSError):
            self._file.append(line)
