"""What a person should look at: blocked operations, and errors that only a person can settle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from casework.checkpoints.index import PackageIndex
from casework.checkpoints.index_rows import IndexedOperation
from casework.checkpoints.records import OperationStatus
from casework.gateway.errors import FailureKind

PERSON_CODES: Final = frozenset(
    {
        FailureKind.REFUSAL.value,
        FailureKind.EMPTY_INPUT.value,
        FailureKind.CONTEXT_TOO_LONG.value,
        FailureKind.REQUEST_TOO_LARGE.value,
        FailureKind.NO_EVIDENCE.value,
    }
)
"""Errors about the document itself; asking again would not help, a person might."""

PAGE: Final = 1000


STATES: Final = (
    OperationStatus.SUCCESS,
    OperationStatus.ERROR,
    OperationStatus.BLOCKED,
    OperationStatus.RETRY_PENDING,
    None,
)


def every_operation(index: PackageIndex) -> Iterator[IndexedOperation]:
    """Yield every current operation, state by state; planned ones last."""
    for status in STATES:
        yield from operations_in(index, status)


def operations_in(
    index: PackageIndex, status: OperationStatus | None
) -> Iterator[IndexedOperation]:
    """Yield every current operation in one state, in the order of the cases."""
    after = ("", "")
    while page := index.in_status(status, after=after, limit=PAGE):
        yield from page
        after = (page[-1].case_id, page[-1].ophash)


def inbox_items(index: PackageIndex, *, reason: str | None = None) -> Iterator[IndexedOperation]:
    """Yield what waits for a person: blocked operations first, then errors of the document.

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
    """Tell whether a person should look at an operation."""
    return operation.status is OperationStatus.BLOCKED or (
        operation.status is OperationStatus.ERROR and operation.error_code in PERSON_CODES
    )


def reason_of(operation: IndexedOperation) -> str:
    """Return the code under which an operation waits or failed."""
    return operation.error_code or operation.routing.reason or "unknown"


def same_reason(operation: IndexedOperation, reason: str) -> bool:
    """Tell whether an operation has a reason; upper and lower case are the same."""
    return reason_of(operation).casefold() == reason.casefold()


def reasons(index: PackageIndex) -> tuple[Counter[str], int]:
    """Count why operations ended in ERROR or BLOCKED, and how many wait for a person."""
    found: Counter[str] = Counter()
    waiting = 0
    for status in (OperationStatus.BLOCKED, OperationStatus.ERROR):
        for operation in operations_in(index, status):
            found[reason_of(operation)] += 1
            waiting += waits_for_person(operation)
    return found, waiting
