"""What a person should look at: blocked operations, and errors that only a person can settle."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from casework.checkpoints.index import PackageIndex
from casework.checkpoints.index_rows import IndexedOperation
from casework.checkpoints.records import OperationStatus
from casework.gateway.errors import FailureKind
from casework.runtime.views.index_pages import operations_in

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
