"""Rows of the package index as records of ours, and back."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Final, TypeAlias

from casework.checkpoints.call_names import is_call
from casework.checkpoints.fold import PackageHead
from casework.checkpoints.records import (
    OperationState,
    OperationStatus,
    PackageStatus,
    Routing,
    standing_of,
)
from casework.checkpoints.reviews import ReviewVerdict


class Planned(StrEnum):
    """What planned work, which has no state in its package yet, waits for."""

    READY = "READY"
    """Nothing: it is due."""
    HELD = "HELD"
    """Other operations of its case."""
    SKIPPED = "SKIPPED"
    """Nothing any more: a condition of the pipeline ruled it out."""


Cell: TypeAlias = "str | int | None"

_PLANNED: Final = frozenset(planned.value for planned in Planned)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedPackage:
    """One package as the index knows it."""

    case_id: str
    package_id: str
    generation: int
    analysis_revision: int
    phase: str
    status: PackageStatus
    routing: Routing


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedOperation:
    """One current operation as the index knows it: planned, due, waiting or finished."""

    case_id: str
    package_id: str
    ophash: str
    operation_id: str
    analysis_revision: int
    status: OperationStatus | None
    """None while it is planned only."""
    planned: Planned | None
    """What planned work waits for; None once it has a state."""
    due_at: datetime | None
    """When it may run; for planned work the beginning of time."""
    routing: Routing
    error_code: str | None
    rounds_completed: int
    rounds_max: int | None
    resumed_from: str | None
    verdict: ReviewVerdict | None = None
    """What a person decided about it."""

    @property
    def standing(self) -> OperationStatus | None:
        """Return what it counts as: its status, unless a person decided otherwise."""
        return None if self.status is None else standing_of(self.status, self.verdict)


@dataclass(frozen=True, slots=True)
class IndexCounts:
    """How many packages and current operations are in which state; empty ones are absent.

    Operations that a person decided about count as decided. Forgotten cases are not counted, and
    neither are calls of clients and the cases that they began.
    """

    cases: int
    packages: Mapping[PackageStatus, int]
    operations: Mapping[OperationStatus, int]
    planned: Mapping[Planned, int]
    """Operations that were planned and have no state yet."""
    forgotten: int = 0
    """Cases whose content was removed."""


def boot_identity() -> str:
    """Return a text that changes when the machine restarts.

    Where that cannot be told exactly it may change more often, which costs a rescan.
    """
    with suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return str(round((time.time() - time.monotonic()) / 60))


def package_cells(head: PackageHead) -> dict[str, Cell]:
    """Return a package's row."""
    return {
        "case_id": head.case_id,
        "package_id": head.package_id,
        "generation": head.generation,
        "analysis_revision": head.analysis_revision,
        "phase": head.phase,
        "status": head.status.value,
        **_routing_cells(head.routing),
    }


def operation_cells(head: PackageHead, ophash: str, state: OperationState) -> dict[str, Cell]:
    """Return the row of one operation of a head."""
    current = (
        state.resumed_as is None
        and state.analysis_revision == head.analysis_revision
        and not is_call(state.operation_id)
    )
    runnable = current and state.status is OperationStatus.RETRY_PENDING
    routing = state.routing
    if state.status is OperationStatus.BLOCKED and routing.retry_at is None:
        routing = replace(routing, retry_at=state.due_at)
    return {
        "case_id": head.case_id,
        "ophash": ophash,
        "operation_id": state.operation_id,
        "analysis_revision": state.analysis_revision,
        "status": state.status.value,
        "current": int(current),
        "due_at": to_ticks(state.due_at) if runnable else None,
        **_routing_cells(routing),
        "error_code": None if state.error is None else state.error.code,
        "rounds_completed": state.rounds_completed,
        "rounds_max": state.rounds_max,
        "last_round_at": to_ticks(state.last_round_at),
        "resumed_as": state.resumed_as,
        "resumed_from": state.resumed_from,
        "verdict": None if state.review is None else state.review.verdict.value,
    }


def _routing_cells(routing: Routing) -> dict[str, Cell]:
    return {
        "reason": routing.reason,
        "destination": routing.destination,
        "retry_at": to_ticks(routing.retry_at),
        "automatic_retry": None
        if routing.automatic_retry is None
        else int(routing.automatic_retry),
    }


def to_package(row: tuple[Cell, ...]) -> IndexedPackage:
    """Read a package's row."""
    case_id, package_id, generation, revision, phase, status, *routing = row
    return IndexedPackage(
        case_id=str(case_id),
        package_id=str(package_id),
        generation=int(generation or 0),
        analysis_revision=int(revision or 0),
        phase=str(phase),
        status=PackageStatus(str(status)),
        routing=_routing(routing),
    )


def to_operation(row: tuple[Cell, ...]) -> IndexedOperation:
    """Read an operation's row."""
    case_id, package_id, ophash, operation_id, revision, status, due_at, *rest = row
    retry_at, reason, destination, automatic, error_code, done, budget, *rest = rest
    resumed_from, verdict = rest
    return IndexedOperation(
        case_id=str(case_id),
        package_id=str(package_id),
        ophash=str(ophash),
        operation_id=str(operation_id),
        analysis_revision=int(revision or 0),
        status=None if status in _PLANNED else OperationStatus(str(status)),
        planned=Planned(str(status)) if status in _PLANNED else None,
        due_at=to_moment(due_at),
        routing=_routing([reason, destination, retry_at, automatic]),
        error_code=_text(error_code),
        rounds_completed=int(done or 0),
        rounds_max=None if budget is None else int(budget),
        resumed_from=_text(resumed_from),
        verdict=None if verdict is None else ReviewVerdict(str(verdict)),
    )


def _routing(cells: Sequence[Cell]) -> Routing:
    reason, destination, retry_at, automatic = cells
    return Routing(
        _text(reason),
        _text(destination),
        to_moment(retry_at),
        None if automatic is None else bool(automatic),
    )


def to_tally(row: tuple[Cell, ...]) -> tuple[PackageStatus | OperationStatus | Planned, int]:
    """Read a row of the tally."""
    kind, status, n = row
    if kind == "package":
        return PackageStatus(str(status)), int(n or 0)
    text = str(status)
    return (Planned(text) if text in _PLANNED else OperationStatus(text)), int(n or 0)


def _text(cell: Cell) -> str | None:
    return None if cell is None else str(cell)


def to_ticks(moment: datetime | None) -> int | None:
    """Return a moment as microseconds since 1970."""
    return None if moment is None else (moment - _EPOCH) // _MICROSECOND


def to_moment(cell: Cell) -> datetime | None:
    """Return the moment that :func:`to_ticks` wrote."""
    return None if cell is None else _EPOCH + int(cell) * _MICROSECOND
