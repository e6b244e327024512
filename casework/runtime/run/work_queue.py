"""Which operation of which case is run next: one at a time per case, the longest due first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Final, Protocol

from casework.checkpoints.index_rows import IndexedOperation
from casework.gateway.clock import Clock
from casework.runtime.line.dispatcher import Work
from casework.runtime.run.operation_ids import pipeline_id

FETCH: Final = 256
"""How many due operations are taken from the index at a time."""

HOLD_SECONDS_MIN: Final = 0.05
"""The least time for which an operation is put back; a queue that spins burns a core."""


class DueIndex(Protocol):
    """What the queue asks of the package index."""

    def due(self, now: datetime, limit: int = 1) -> Sequence[IndexedOperation]:
        """Return what may run now, the longest due first."""

    def operations(self, case_id: str) -> Sequence[IndexedOperation]:
        """Return the current operations of a case."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing can be begun now."""

    seconds: float | None
    """Until something may be due; None if only running work can bring more."""
    held: bool = False
    """Whether something that is due was put back for a moment."""


class WorkQueue:
    """Hand out due work; the index knows what is due, this knows what this process is doing.

    Holds at most one fetch of work in memory, however many cases there are. Not for several
    threads at once.

    Args:
        index: Knows what is due.
        clock: The time.
        operations: Ids of the pipeline's operations; others are somebody else's and stay.
        cases: Only these cases; none means all.
        replan: Plans what is missing; asked before an empty queue is believed, since a run of
            another pipeline takes back what this one had planned.
    """

    def __init__(
        self,
        index: DueIndex,
        clock: Clock,
        *,
        operations: Iterable[str],
        cases: Sequence[str] = (),
        replan: Callable[[], None] = lambda: None,
    ) -> None:
        self._replan = replan
        self._index = index
        self._clock = clock
        self._operations = frozenset(operations)
        self._cases = tuple(dict.fromkeys(cases))
        self._ready: deque[Work] = deque()
        self._busy: set[str] = set()
        self._held: dict[tuple[str, str], float] = {}
        self._given_up: set[tuple[str, str]] = set()

    def take(self) -> Work | Pause:
        """Return work whose case nobody in this process is working on, and count it as begun."""
        work = self._pick()
        if work is None:
            self._ready = deque(self._fetch())
            work = self._pick()
        if work is None and not self._busy:
            self._replan()
            self._ready = deque(self._fetch())
            work = self._pick()
        if work is None:
            return self._pause()
        self._busy.add(work.case_id)
        return work

    def done(self, work: Work) -> None:
        """Let go of work that came to an end, whichever."""
        self._busy.discard(work.case_id)
        self._held.pop(work.key, None)

    def hold(self, work: Work, seconds: float) -> None:
        """Put work back and leave it alone for a while."""
        self._busy.discard(work.case_id)
        self._held[work.key] = self._clock.monotonic() + max(seconds, HOLD_SECONDS_MIN)

    def give_up(self, work: Work) -> None:
        """Leave work alone for the rest of this session."""
        self.done(work)
        self._given_up.add(work.key)

    def _pick(self) -> Work | None:
        for _ in range(len(self._ready)):
            work = self._ready.popleft()
            if work.case_id in self._busy:
                self._ready.append(work)
            elif self._free(work):
                return work
        return None

    def _free(self, work: Work) -> bool:
        if work.key in self._given_up:
            return False
        until = self._held.get(work.key)
        return until is None or until <= self._clock.monotonic()

    def _fetch(self) -> list[Work]:
        now = self._clock.now()
        return [_work(operation) for operation in islice(self._listed(now), FETCH)]

    def _listed(self, until: datetime) -> Iterator[IndexedOperation]:
        """List what may be begun up to a moment, the longest due first."""
        if self._cases:
            chosen = (o for case_id in self._cases for o in self._index.operations(case_id))
            due = [(o.due_at, o) for o in chosen if o.due_at is not None and o.due_at <= until]
            yield from (o for _, o in sorted(due, key=lambda pair: pair[0]) if self._wanted(o))
            return
        limit = FETCH
        while True:
            found = self._index.due(until, limit)
            wanted = [operation for operation in found if self._wanted(operation)]
            if wanted or len(found) < limit:
                yield from wanted
                return
            limit *= 4

    def _wanted(self, operation: IndexedOperation) -> bool:
        return (
            pipeline_id(operation.operation_id, self._operations) in self._operations
            and operation.case_id not in self._busy
            and self._free(_work(operation))
        )

    def _pause(self) -> Pause:
        """Return the time until something held or pending may run."""
        elapsed = self._clock.monotonic()
        self._held = {key: until for key, until in self._held.items() if until > elapsed}
        waits = [until - elapsed for until in self._held.values()]
        later = next(self._listed(_FAR), None)
        if later is not None and later.due_at is not None:
            waits.append((later.due_at - self._clock.now()).total_seconds())
        seconds = max(min(waits), HOLD_SECONDS_MIN) if waits else None
        return Pause(seconds, held=bool(self._held))


_FAR: Final = datetime(9999, 1, 1, tzinfo=UTC)


def _work(operation: IndexedOperation) -> Work:
    return Work(operation.case_id, operation.package_id, operation.operation_id)
