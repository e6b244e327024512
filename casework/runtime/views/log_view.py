"""Choosing lines of the failure log, and showing them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from casework.runner.failure_log_reader import LogLine
from casework.runtime.views import phrases
from casework.strict_json import JSON

COLUMNS: Final = ("time", "event", "case", "operation", "round", "code", "attempts")


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFilter:
    """Which lines a person wants; None wants all."""

    case_id: str | None = None
    event: str | None = None
    since: datetime | None = None
    last: int | None = None
    """Only so many of them, the newest."""

    def chosen(self, lines: Iterable[LogLine]) -> Iterator[LogLine]:
        """Yield the lines that are wanted, in the order of the log."""
        wanted = (line for line in lines if self._wants(line))
        yield from wanted if self.last is None else deque(wanted, maxlen=self.last)

    def _wants(self, line: LogLine) -> bool:
        return (
            self.case_id in (None, line.fields.get("case_id"))
            and self.event in (None, line.event)
            and (self.since is None or line.at >= self.since)
        )


def row(line: LogLine) -> tuple[str, ...]:
    """Return a line under ``COLUMNS``."""
    named = (line.fields.get(name) for name in ("case_id", "operation_id", "round", "code"))
    attempts = line.fields.get("attempts")
    calls = map(_attempt, attempts) if isinstance(attempts, list) else ()
    return (
        phrases.local_time(line.at),
        line.event,
        *("-" if value is None else str(value) for value in named),
        ", ".join(calls) or "-",
    )


def _attempt(call: JSON) -> str:
    if not isinstance(call, dict):
        return "-"
    provider = call.get("provider") or "nobody asked"
    status = call.get("http_status")
    return f"{provider}: {call.get('code')}" + ("" if status is None else f" ({status})")
