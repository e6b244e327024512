"""Spreading retries that are due in the same second, so that they do not all come back at once.

One server that tells five hundred callers the same ``Retry-After`` would get five hundred calls in
the same instant, and answer as it did before.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

from casework.checkpoints.index_rows import IndexedOperation

SAME_SECOND_MAX: Final = 100
"""So many retries of one second are begun as they are due."""

STARTS_PER_SECOND: Final = 100
SPREAD_SECONDS_MAX: Final = 10.0
SECONDS_KEPT: Final = 256


class Spread:
    """Says how long after its due time a retry is begun; never before.

    The delay of an operation follows from its ids and its round, so that every worker works out the
    same one.

    Args:
        due_between: Counts what becomes due in a stretch of time.
    """

    def __init__(self, due_between: Callable[[datetime, datetime], int]) -> None:
        self._due_between = due_between
        self._counted: OrderedDict[datetime, int] = OrderedDict()

    def seconds_for(self, operation: IndexedOperation, now: datetime) -> float:
        """Return how many seconds an operation is to wait from now on; none if zero or less."""
        due_at = operation.due_at
        if due_at is None or operation.rounds_completed == 0:
            return 0.0
        waited = (now - due_at).total_seconds()
        if waited >= SPREAD_SECONDS_MAX or waited < 0:
            return 0.0
        together = self._together(due_at.replace(microsecond=0))
        if together <= SAME_SECOND_MAX:
            return 0.0
        width = min(together / STARTS_PER_SECOND, SPREAD_SECONDS_MAX)
        return _share(operation) * width - waited

    def _together(self, second: datetime) -> int:
        """Return how many were due in a second when it was first looked at."""
        known = self._counted.get(second)
        if known is None:
            known = self._due_between(second, second + timedelta(seconds=1))
            self._counted[second] = known
            if len(self._counted) > SECONDS_KEPT:
                self._counted.popitem(last=False)
        return known


def _share(operation: IndexedOperation) -> float:
    """Return a number from 0 to 1 that differs from case to case and from round to round."""
    text = f"{operation.case_id}\0{operation.operation_id}\0{operation.rounds_completed}"
    return int.from_bytes(sha256(text.encode("utf-8", "surrogatepass")).digest()[:4], "big") / 2**32
