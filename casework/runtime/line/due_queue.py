"""Which operation of which case is begun next: one at a time per case, the longest due first."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Final, Protocol

from casework.checkpoints.claims import Claim, Viewer, Wanted
from casework.checkpoints.index_rows import IndexCounts, IndexedOperation, to_ticks
from casework.gateway.clock import Clock
from casework.runner.operation_ids import pipeline_id
from casework.runtime.line.spread import Spread
from casework.runtime.line.work import Work, WorkKey

FETCH: Final = 256
"""How many due operations are taken from the index at a time."""

POSTPONE_SECONDS_MIN: Final = 0.05
"""The least time for which an operation is put back; a queue that spins burns a core."""

PAUSE_SECONDS_MIN: Final = 0.002
"""The least time between two looks at an index in which something is due that cannot be had."""

ELSEWHERE_SECONDS: Final = 0.5
"""How often work in other workers' hands is looked at, if nothing else is to be done."""

_FAR: Final = datetime(9999, 1, 1, tzinfo=UTC)


class DueIndex(Protocol):
    """What the queue asks of the package index."""

    def due_for(self, viewer: Viewer, now: datetime, *, limit: int) -> Sequence[IndexedOperation]:
        """Return what a worker may run now, the longest due first."""

    def ahead_for(self, viewer: Viewer, now: datetime, *, limit: int) -> Sequence[IndexedOperation]:
        """Return what waits after a round that by this clock has not been yet."""

    def due_between(self, first: datetime, last: datetime) -> int:
        """Return how many operations become due in a stretch of time."""

    def operations(self, case_id: str) -> Sequence[IndexedOperation]:
        """Return the current operations of a case."""

    def counts(self) -> IndexCounts:
        """Return how many are in which state."""


class CaseClaims(Protocol):
    """What the queue asks of the claims of its worker."""

    def viewer(self) -> Viewer:
        """Return who asks, and when."""

    def take(self, wanted: Iterable[Wanted], *, release: Sequence[str]) -> dict[str, str | None]:
        """Claim cases and let go of others; return what was claimed."""

    def release(self, case_ids: Sequence[str]) -> None:
        """Let go of cases."""

    def of_others(self) -> list[Claim]:
        """Return what other workers hold."""

    def drop_dead(self) -> bool:
        """Drop what dead workers hold, and tell whether there was any."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing can be begun now."""

    seconds: float | None
    """Until something may be due; None if only running work can bring more."""
    postponed: bool = False
    """Whether something that is due was put back for a moment."""
    elsewhere: int = 0
    """How many due operations are in other workers' hands."""


@dataclass(frozen=True, slots=True)
class Taken:
    """Work that was claimed, to be begun."""

    work: Work
    ousts: str | None = None
    """The worker whose claim on the case ran out."""


@dataclass(slots=True)
class _Notes:
    """What became of work since the last look; appended by the loop, read by the next look."""

    done: deque[Work] = field(default_factory=deque)
    postponed: deque[tuple[Work, float]] = field(default_factory=deque)
    left: deque[Work] = field(default_factory=deque)
    cancelled: deque[Work] = field(default_factory=deque)
    wanted_again: deque[Work] = field(default_factory=deque)


class DueQueue:
    """Hand out due work; the index knows what is due, this knows what this process is doing.

    Keeps at most one fetch of work in memory, however many cases there are, and the ids of what was
    postponed or given up. :meth:`take` is for one thread at a time, as is :meth:`plan_missing`;
    everything else may be called meanwhile.

    Args:
        index: Knows what is due.
        clock: The time.
        claimant: Claims cases for this process.
        operations: Ids of the pipeline's operations; others are somebody else's and stay.
        cases: Only these cases; none means all.
        replan: Plans what is missing; asked before an empty queue is believed, since there may be
            new cases, and a run of another pipeline takes back what this one had planned.
    """

    def __init__(
        self,
        index: DueIndex,
        clock: Clock,
        *,
        claimant: CaseClaims,
        operations: Iterable[str],
        cases: Sequence[str] = (),
        replan: Callable[[], None] = lambda: None,
    ) -> None:
        self._replan = replan
        self._planned: IndexCounts | None = None
        self._index = index
        self._clock = clock
        self._claimant = claimant
        self._operations = frozenset(operations)
        self._cases = tuple(dict.fromkeys(cases))
        self._ready: deque[IndexedOperation] = deque()
        self._busy: set[str] = set()
        self._postponed: dict[WorkKey, float] = {}
        self._given_up: set[WorkKey] = set()
        self._spread = Spread(index.due_between)
        self._notes = _Notes()

    def take(self, most: int) -> tuple[list[Taken], Pause]:
        """Claim work whose cases nobody works on, at most so much; say why there is no more.

        A pause is worked out only where less was found than asked for.
        """
        released = self._read_notes()
        taken: list[Taken] = []
        looked = False
        while len(taken) < most:
            picked = self._pick(most - len(taken))
            if not picked and not looked:
                looked = True
                self._ready = deque(self._fetch())
                continue
            if not picked:
                break
            taken += self._claim(picked, released)
        for found_more in (self._claimant.drop_dead, self.plan_missing):
            if not taken and most and not self._busy and found_more():
                self._ready = deque(self._fetch())
                taken += self._claim(self._pick(most), released)
        if released:
            self._claimant.release(released)
        if len(taken) >= most > 0:
            return taken, Pause(None)
        return taken, self._pause()

    def done(self, work: Work) -> None:
        """Let go of work that came to an end, whichever."""
        self._notes.done.append(work)

    def postpone(self, work: Work, seconds: float) -> None:
        """Put work back and leave it alone for a while."""
        until = self._clock.monotonic() + max(seconds, POSTPONE_SECONDS_MIN)
        self._notes.postponed.append((work, until))

    def give_up(self, work: Work) -> None:
        """Leave work alone until it is wanted again."""
        self._notes.left.append(work)

    def cancel(self, work: Work) -> None:
        """Leave work alone until it is wanted again, whether or not it is being done now."""
        self._notes.cancelled.append(work)

    def want_again(self, work: Work) -> None:
        """Take up what was given up."""
        self._notes.wanted_again.append(work)

    def _read_notes(self) -> list[str]:
        """Take over what became of work, and return the cases that are free."""
        notes, free = self._notes, []
        for queue in (notes.done, notes.left):
            for _ in range(len(queue)):
                work = queue.popleft()
                free.append(work.case_id)
                self._postponed.pop(work.key, None)
                if queue is notes.left:
                    self._given_up.add(work.key)
        for _ in range(len(notes.postponed)):
            work, until = notes.postponed.popleft()
            free.append(work.case_id)
            self._postponed[work.key] = until
        for _ in range(len(notes.cancelled)):
            self._given_up.add(notes.cancelled.popleft().key)
        for _ in range(len(notes.wanted_again)):
            self._given_up.discard(notes.wanted_again.popleft().key)
        self._busy.difference_update(free)
        return free

    def _pick(self, most: int) -> list[IndexedOperation]:
        picked: list[IndexedOperation] = []
        cases: set[str] = set()
        for _ in range(len(self._ready)):
            if len(picked) == most:
                break
            operation = self._ready.popleft()
            if operation.case_id in self._busy or operation.case_id in cases:
                self._ready.append(operation)
            elif self._free(operation):
                picked.append(operation)
                cases.add(operation.case_id)
        return picked

    def _claim(self, picked: Sequence[IndexedOperation], released: list[str]) -> list[Taken]:
        """Claim what was picked, and let go of what is done, in one transaction."""
        wanted = [
            Wanted(operation.case_id, operation.ophash, to_ticks(operation.due_at) or 0)
            for operation in picked
        ]
        claimed = self._claimant.take(wanted, release=released)
        released.clear()
        self._busy.update(claimed)
        return [
            Taken(_work(operation), claimed[operation.case_id])
            for operation in picked
            if operation.case_id in claimed
        ]

    def _free(self, operation: IndexedOperation) -> bool:
        key = (operation.case_id, operation.operation_id)
        if key in self._given_up:
            return False
        until = self._postponed.get(key)
        return until is None or until <= self._clock.monotonic()

    def plan_missing(self) -> bool:
        """Plan what is missing; False if the index stands as it stood after the last time."""
        if self._planned == self._index.counts():
            return False
        self._replan()
        self._planned = self._index.counts()
        return True

    def _fetch(self) -> list[IndexedOperation]:
        found = list(islice(self._listed(self._clock.now(), FETCH), FETCH))
        return [operation for operation in found if not self._is_spread(operation)]

    def _is_spread(self, operation: IndexedOperation) -> bool:
        """Put a retry back a little if very many are due in its second; tell whether it was."""
        late = self._spread.seconds_for(operation, self._clock.now())
        if late <= 0.0:
            return False
        key = (operation.case_id, operation.operation_id)
        self._postponed.setdefault(key, self._clock.monotonic() + late)
        return True

    def _listed(self, until: datetime, limit: int) -> Iterator[IndexedOperation]:
        """List what may be begun up to a moment, the longest due first."""
        if self._cases:
            chosen = (o for case_id in self._cases for o in self._index.operations(case_id))
            due = [(o.due_at, o) for o in chosen if o.due_at is not None and o.due_at <= until]
            foreign = {claim.case_id for claim in self._claimant.of_others()}
            for _, operation in sorted(due, key=lambda pair: pair[0]):
                if self._wanted(operation) and operation.case_id not in foreign:
                    yield operation
            return
        viewer = self._claimant.viewer()
        now = self._clock.now()
        yield from filter(self._wanted, self._index.ahead_for(viewer, now, limit=FETCH))
        while True:
            found = self._index.due_for(viewer, until, limit=limit)
            wanted = [operation for operation in found if self._wanted(operation)]
            if wanted or len(found) < limit:
                yield from wanted
                return
            limit *= 4

    def _wanted(self, operation: IndexedOperation) -> bool:
        return (
            pipeline_id(operation.operation_id, self._operations) in self._operations
            and operation.case_id not in self._busy
            and self._free(operation)
        )

    def _pause(self) -> Pause:
        """Return the time until something postponed or pending may run."""
        elapsed = self._clock.monotonic()
        self._postponed = {key: until for key, until in self._postponed.items() if until > elapsed}
        waits = [until - elapsed for until in self._postponed.values()]
        foreign = [o for claim in self._claimant.of_others() for o in self._unfinished(claim)]
        now = self._clock.now()
        elsewhere = sum(o.due_at is not None and o.due_at <= now for o in foreign)
        if foreign:  # due or not: what a clock that was set back calls early may be run right now
            waits.append(ELSEWHERE_SECONDS)
        later = next(self._listed(_FAR, 4), None)
        if later is not None and later.due_at is not None:
            waits.append((later.due_at - self._clock.now()).total_seconds())
        seconds = max(min(waits), PAUSE_SECONDS_MIN) if waits else None
        return Pause(seconds, bool(self._postponed), elsewhere)

    def _unfinished(self, claim: Claim) -> list[IndexedOperation]:
        """Return the work of ours that a case in another worker's hands has left to do."""
        if self._cases and claim.case_id not in self._cases:
            return []
        found = filter(self._wanted, self._index.operations(claim.case_id))
        return [operation for operation in found if operation.due_at is not None]


def _work(operation: IndexedOperation) -> Work:
    return Work(operation.case_id, operation.package_id, operation.operation_id)
