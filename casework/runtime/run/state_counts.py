"""How many operations are in which state; every one of them is in exactly one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from casework.checkpoints.index_rows import IndexCounts, IndexedOperation, Planned
from casework.checkpoints.records import OperationStatus
from casework.strict_json import JSONObject


@dataclass(frozen=True, slots=True, kw_only=True)
class StateCounts:
    """Operations by state; ``total`` is their sum and what the imported cases ask for."""

    cases: int
    total: int
    success: int
    error: int
    blocked: int
    """Waiting in the inbox, because every round found every provider unavailable."""
    retry: int
    """Waiting for their next round."""
    waiting: int
    """Not begun yet."""
    held: int = 0
    """Waiting for other operations of their case."""
    skipped: int = 0
    """Ruled out by a condition of the pipeline; nobody is asked."""
    running: int = 0
    """Being worked on at this moment, by whichever process."""

    @property
    def reconciles(self) -> bool:
        """Tell whether the states add up to what was imported."""
        return self.total == self.settled + self.unsettled + self.held

    @property
    def settled(self) -> int:
        """Return how many came to an end."""
        return self.success + self.error + self.blocked + self.skipped

    @property
    def unsettled(self) -> int:
        """Return how many did not, and wait for no other operation."""
        return self.retry + self.waiting + self.running

    def to_json(self) -> JSONObject:
        """Return the counts as JSON output carries them."""
        return {
            "cases": self.cases,
            "operations": self.total,
            "success": self.success,
            "error": self.error,
            "blocked": self.blocked,
            "retry_pending": self.retry,
            "waiting": self.waiting,
            "held": self.held,
            "skipped": self.skipped,
            "running": self.running,
            "reconciles": self.reconciles,
        }


def of_index(
    counts: IndexCounts, operations_per_case: int, running: Iterable[OperationStatus | None] = ()
) -> StateCounts:
    """Count all the cases of a project.

    Args:
        counts: What the index says.
        operations_per_case: How many operations the pipeline has; 0 if nobody knows.
        running: The states that the index gives to the operations being worked on.
    """
    begun = sum(counts.operations.values())
    held, skipped = counts.planned.get(Planned.HELD, 0), counts.planned.get(Planned.SKIPPED, 0)
    total = max(begun + sum(counts.planned.values()), counts.cases * operations_per_case)
    at_work = list(running)
    waiting_at_work = sum(status is None for status in at_work)
    retrying_at_work = sum(status is OperationStatus.RETRY_PENDING for status in at_work)
    return StateCounts(
        cases=counts.cases,
        total=total,
        success=counts.operations.get(OperationStatus.SUCCESS, 0),
        error=counts.operations.get(OperationStatus.ERROR, 0),
        blocked=counts.operations.get(OperationStatus.BLOCKED, 0),
        retry=counts.operations.get(OperationStatus.RETRY_PENDING, 0) - retrying_at_work,
        waiting=total - begun - held - skipped - waiting_at_work,
        held=held,
        skipped=skipped,
        running=waiting_at_work + retrying_at_work,
    )


def of_operations(cases: int, operations: Iterable[IndexedOperation]) -> StateCounts:
    """Count some chosen operations."""
    statuses = [operation.standing or operation.planned for operation in operations]
    return StateCounts(
        cases=cases,
        total=len(statuses),
        success=statuses.count(OperationStatus.SUCCESS),
        error=statuses.count(OperationStatus.ERROR),
        blocked=statuses.count(OperationStatus.BLOCKED),
        retry=statuses.count(OperationStatus.RETRY_PENDING),
        waiting=statuses.count(Planned.READY),
        held=statuses.count(Planned.HELD),
        skipped=statuses.count(Planned.SKIPPED),
    )
