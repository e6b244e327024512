"""Asking again: what did not succeed lives on under a new id, and the old outcomes stay."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from itertools import groupby

from casework.checkpoints.index_pages import operations_in
from casework.checkpoints.index_rows import IndexedOperation
from casework.checkpoints.records import OperationStatus
from casework.checkpoints.store import CheckpointStore
from casework.errors import LockBusy, NotDue
from casework.runner.inbox import resume_under_next_id
from casework.runner.inbox_items import decided_items, reason_of, same_reason
from casework.runtime.run.stale_results import Stale
from casework.runtime.workspace import require_cases


class Became(StrEnum):
    """What became of an operation that was to be asked again."""

    ASKED_AGAIN = "asked_again"
    NOT_DUE = "not_due"
    """It is blocked, and its retry time has not come."""
    LOCKED = "locked"
    """Another worker holds the case."""
    RESUMED_BEFORE = "resumed_before"


@dataclass(frozen=True, slots=True, kw_only=True)
class Again:
    """One operation that was to be asked again."""

    case_id: str
    operation_id: str
    became: Became
    reason: str
    new_operation_id: str | None = None
    due_at: datetime | None = None
    """From when it may be asked again."""


def stopped_operations(
    store: CheckpointStore,
    statuses: Iterable[OperationStatus],
    *,
    reason: str | None = None,
    cases: Iterable[str] = (),
    decided: bool = False,
) -> Iterator[IndexedOperation]:
    """Yield the operations without an answer that a person chose.

    Args:
        store: Where.
        statuses: Which of ERROR, BLOCKED and RETRY_PENDING.
        reason: Only those with this code.
        cases: Only these cases; none means all.
        decided: Also those that a person rejected; what stands by decision is never taken.

    Raises:
        PackageNotFound: A case that was named does not exist.
    """
    chosen = tuple(cases)
    wanted = tuple(statuses)

    def fits(operation: IndexedOperation) -> bool:
        if operation.verdict is not None and not decided:
            return False
        return _stopped(operation, wanted) and (reason is None or same_reason(operation, reason))

    if chosen:
        require_cases(store, chosen)
        for case_id in chosen:
            yield from (o for o in store.index.operations(case_id) if fits(o))
        return
    for status in wanted:
        yield from filter(fits, operations_in(store.index, status))
    if decided:
        answered = (o for o in decided_items(store.index) if o.status not in wanted)
        yield from filter(fits, answered)


def _stopped(operation: IndexedOperation, wanted: Collection[OperationStatus]) -> bool:
    """Tell whether an operation is in one of the states; one just begun anew is not stopped.

    What a person decided about is in the state that it counts as.
    """
    return operation.standing in wanted and operation.rounds_completed > 0


def ask_again(
    store: CheckpointStore, operations: Iterable[IndexedOperation], *, answered: bool = False
) -> Iterator[Again]:
    """Let each operation live on under the next free id; the next run asks it.

    Args:
        store: Where.
        operations: Which.
        answered: Also where there is an answer, which then is history.
    """
    for operation in operations:
        yield _ask(store, operation, answered=answered)


def ask_stale(store: CheckpointStore, stale: Iterable[Stale]) -> Iterator[Again]:
    """Ask stale results again, answers too; the reason says what differs.

    All results of a case are compared before the first of them is given up, since others may rest
    on it. They come case by case.
    """
    for _, of_case in groupby(stale, key=lambda one: one.operation.case_id):
        for one in list(of_case):
            again = _ask(store, one.operation, answered=True)
            yield replace(again, reason=", ".join(one.parts))


def _ask(store: CheckpointStore, operation: IndexedOperation, *, answered: bool) -> Again:
    try:
        new_id = resume_under_next_id(store, operation, answered=answered)
    except NotDue:
        return _again(operation, Became.NOT_DUE)
    except LockBusy:
        return _again(operation, Became.LOCKED)
    return _again(operation, Became.ASKED_AGAIN if new_id else Became.RESUMED_BEFORE, new_id)


def _again(operation: IndexedOperation, became: Became, new_id: str | None = None) -> Again:
    return Again(
        case_id=operation.case_id,
        operation_id=operation.operation_id,
        became=became,
        reason=reason_of(operation),
        new_operation_id=new_id,
        due_at=operation.routing.retry_at if became is Became.NOT_DUE else None,
    )
