"""What a person should look at: blocked operations, and errors that only a person can settle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from casework.checkpoints.index import PackageIndex
from casework.checkpoints.index_pages import operations_in
from casework.checkpoints.index_rows import IndexedOperation
from casework.checkpoints.records import OperationStatus
from casework.gateway.errors import FailureKind

PERSON_CODES: Final = frozenset(
    {
        FailureKind.REFUSAL.value,
        FailureKind.EMPTY_INPUT.value,
        FailureKind.DATA_MISSING.value,
        FailureKind.CONTEXT_TOO_LONG.value,
        FailureKind.REQUEST_TOO_LARGE.value,
        FailureKind.NO_EVIDENCE.value,
    }
)
"""Errors about the document or its case; asking again would not help, a person might."""


class Waits(StrEnum):
    """What an operation of the inbox waits for."""

    EXPLICIT_RESUME = "explicit_resume"
    """A person who lets it go on, or decides about it."""
    AUTOMATIC_RETRY = "automatic_retry"
    """Its time; it goes on by itself."""
    DECISION = "decision"
    """A person who decides about it."""
    NOTHING = "nothing"
    """A person decided."""


def waits_for(operation: IndexedOperation) -> Waits:
    """Return what an operation of the inbox waits for."""
    if operation.verdict is not None:
        return Waits.NOTHING
    if operation.status is not OperationStatus.BLOCKED:
        return Waits.DECISION
    if operation.routing.automatic_retry is False:
        return Waits.EXPLICIT_RESUME
    return Waits.AUTOMATIC_RETRY


def decided_items(index: PackageIndex, *, reason: str | None = None) -> Iterator[IndexedOperation]:
    """Yield what a person decided about, in the order of the cases."""
    after = ("", "")
    while page := index.decided(after=after):
        yield from (o for o in page if reason is None or same_reason(o, reason))
        after = (page[-1].case_id, page[-1].ophash)


def unreviewed_answers(index: PackageIndex) -> Iterator[IndexedOperation]:
    """Yield the answers that nobody decided about."""
    for operation in operations_in(index, OperationStatus.SUCCESS):
        if operation.verdict is None:
            yield operation


def inbox_items(index: PackageIndex, *, reason: str | None = None) -> Iterator[IndexedOperation]:
    """Yield what waits for a person: blocked operations first, then errors of the document.

    What a person decided about has left.

    Args:
        index: Knows the states.
        reason: Only items with this code, in either case.
    """
    for status in (OperationStatus.BLOCKED, OperationStatus.ERROR):
        for operation in operations_in(index, status):
            fits = reason is None or same_reason(operation, reason)
            if fits and waits_for_person(operation):
                yield operation


def waits_for_person(operation: IndexedOperation) -> bool:
    """Tell whether a person should look at an operation, and nobody did."""
    return operation.verdict is None and (
        operation.status is OperationStatus.BLOCKED
        or (operation.status is OperationStatus.ERROR and operation.error_code in PERSON_CODES)
    )


def reason_of(operation: IndexedOperation) -> str:
    """Return the code under which an operation waits or failed."""
    decided = operation.verdict.value if operation.verdict else "unknown"
    return operation.error_code or operation.routing.reason or decided


def same_reason(operation: IndexedOperation, reason: str) -> bool:
    """Tell whether an operation has a reason; upper and lower case are the same."""
    return reason_of(operation).casefold() == reason.casefold()


def reasons(index: PackageIndex) -> tuple[Counter[str], int]:
    """Count why operations ended in ERROR or BLOCKED, and how many wait for a person.

    What a person decided about is settled, and its code no reason any more.
    """
    found: Counter[str] = Counter()
    waiting = 0
    for status in (OperationStatus.BLOCKED, OperationStatus.ERROR):
        for operation in operations_in(index, status):
            if operation.verdict is not None:
                continue
            found[reason_of(operation)] += 1
            waiting += waits_for_person(operation)
    return found, waiting
