"""Choosing lines of the failure log and the request log, and showing them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeAlias

from casework.runner.failure_log_reader import LogLine
from casework.runtime.http.request_log import LINES_LOST
from casework.runtime.views import phrases
from casework.strict_json import JSON, integer_or_none


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


def _failure(line: LogLine) -> tuple[str, ...]:
    named = (line.fields.get(name) for name in ("case_id", "operation_id", "round", "code"))
    attempts = line.fields.get("attempts")
    calls = map(_attempt, attempts) if isinstance(attempts, list) else ()
    return (
        phrases.local_time(line.at),
        line.event,
        *("-" if value is None else str(value) for value in named),
        ", ".join(calls) or "-",
    )


def _request(line: LogLine) -> tuple[str, ...]:
    """Return a request's line; one about lost lines says how many in the place of the route."""
    if line.event == LINES_LOST:
        lost = f"{phrases.plural(integer_or_none(line.fields.get('lines')) or 0, 'line')} lost"
        return (phrases.local_time(line.at), "-", lost, *("-" for _ in REQUESTS[0][3:]))
    names = ("client", "route", "asked_model", "provider", "status", "code", "elapsed_ms")
    failures = line.fields.get("failures")
    calls = map(_attempt, failures) if isinstance(failures, list) else ()
    return (
        phrases.local_time(line.at),
        *("-" if value is None else str(value) for value in map(line.fields.get, names)),
        ", ".join(calls) or "-",
    )


def _attempt(call: JSON) -> str:
    if not isinstance(call, dict):
        return "-"
    provider = call.get("provider") or "nobody asked"
    status = call.get("http_status")
    return f"{provider}: {call.get('code')}" + ("" if status is None else f" ({status})")


Row: TypeAlias = Callable[[LogLine], tuple[str, ...]]

FAILURES: Final[tuple[tuple[str, ...], Row]] = (
    ("time", "event", "case", "operation", "round", "code", "attempts"),
    _failure,
)
"""Columns and row of a line of the failure log."""
REQUESTS: Final[tuple[tuple[str, ...], Row]] = (
    ("time", "client", "route", "model", "provider", "status", "code", "ms", "failed"),
    _request,
)
"""Columns and row of a line of the request log."""
