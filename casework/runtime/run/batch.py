"""The run loop: take due operations, run at most N at once, wait, and count what came of it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol, assert_never

from casework.checkpoints.store import CheckpointStore
from casework.errors import (
    CaseworkError,
    CheckpointError,
    ConfigurationError,
    LockBusy,
    StaleGeneration,
    StorageError,
)
from casework.gateway.clock import Clock
from casework.runner.case_runner import OperationResult
from casework.runner.operation import ResultStatus
from casework.runtime.line.dispatcher import Work
from casework.runtime.line.governor import Hold, HoldReason
from casework.runtime.run.calls import calls_of, cut_off_starts
from casework.runtime.run.interruption import Interruption
from casework.runtime.run.session_tally import SessionTally
from casework.runtime.run.work_queue import Pause, WorkQueue

CONCURRENCY: Final = 8
BUSY_SECONDS: Final = 0.2
BUSY_SECONDS_MAX: Final = 5.0
STALE_SECONDS: Final = 0.05
WAIT_SECONDS_MAX: Final = 60.0
"""How long the loop waits before it looks at the wall clock again, which may have been set."""
PROBLEMS_KEPT: Final = 100
STORAGE_FAILURES_MAX: Final = 3
"""Storage failures in a row after which the ground counts as gone, whatever a probe says."""


class BatchEnd(StrEnum):
    """Why the loop ended."""

    SETTLED = "settled"
    """Nothing that was selected is due or will become due."""
    ONCE = "once"
    """What was due has been run; some of it waits for its next round."""
    LIMIT = "limit"
    """As many rounds were run as were allowed."""
    INTERRUPTED = "interrupted"
    """A signal asked to stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """How far and how fast to go."""

    concurrency: int = CONCURRENCY
    limit: int | None = None
    """The most rounds to begin; None is no limit."""
    once: bool = False
    """Do not wait for what becomes due later."""


@dataclass(frozen=True, slots=True)
class CaseProblem:
    """A case that could not be worked on in this session; nothing about it was committed."""

    case_id: str
    operation_id: str
    error: CaseworkError


@dataclass(slots=True)
class BatchReport:
    """What a session did."""

    tally: SessionTally
    end: BatchEnd = BatchEnd.SETTLED
    adopted: int = 0
    """Rounds whose outcome a crash had left complete, committed now without a call."""
    problems: list[CaseProblem] = field(default_factory=list)
    problem_codes: Counter[str] = field(default_factory=Counter)


class Dispatch(Protocol):
    """Run one piece of work: build its request and give it to the runner."""

    async def __call__(self, work: Work) -> OperationResult | Hold:
        """Return what the operation came to, or what holds it back; raises as the runner does."""


class Batch:
    """Drive operations until nothing selected is left to do.

    Args:
        store: Where the packages lie.
        queue: What is to be run.
        dispatch: Runs one piece of work.
        clock: The time.
        options: How far and how fast.
    """

    def __init__(
        self,
        store: CheckpointStore,
        queue: WorkQueue,
        *,
        dispatch: Dispatch,
        clock: Clock,
        options: BatchOptions,
    ) -> None:
        self._store = store
        self._queue = queue
        self._dispatch = dispatch
        self._clock = clock
        self._options = options
        self._tasks: set[asyncio.Task[None]] = set()
        self._begun = 0
        self._busy: dict[tuple[str, str], int] = {}
        self._left = False
        self._storage_failures = 0
        self._fatal: Exception | None = None
        self.report = BatchReport(SessionTally(clock.monotonic()))

    @property
    def running(self) -> int:
        """Return how many operations are being worked on at this moment."""
        return len(self._tasks)

    async def run(self, interruption: Interruption) -> BatchReport:
        """Work until settled, limited, or interrupted.

        The first signal lets running rounds end; the second cancels them, and what they were
        doing is left as after a crash.

        Raises:
            CaseworkError: Something that no other case would survive either: the configuration
                or the disk. Running rounds were let end.
        """
        events = (interruption.stopping, interruption.leaving)
        signals = [asyncio.create_task(_until(event)) for event in events]
        try:
            while True:
                pause = self._begin(interruption)
                if not self._tasks and self._ended(pause, interruption):
                    break
                await self._wait(pause, [signal for signal in signals if not signal.done()])
                if interruption.leaving.is_set():
                    break
        finally:
            await _cancel([*signals, *self._tasks])
        if interruption.stopping.is_set():
            self.report.end = BatchEnd.INTERRUPTED
        if self._fatal is not None:
            raise self._fatal
        return self.report

    def _begin(self, interruption: Interruption) -> Pause:
        """Begin as much due work as there is room for; return why no more was begun."""
        while len(self._tasks) < self._options.concurrency:
            if self._fatal or interruption.stopping.is_set() or self._limit_reached():
                return Pause(None)
            try:
                work = self._queue.take()
            except CheckpointError as error:
                self._fatal = error
                continue
            match work:
                case Pause():
                    return work
                case Work():
                    self._begun += 1
                    task = asyncio.create_task(self._one(work))
                    self._tasks.add(task)
                    task.add_done_callback(self._tasks.discard)
                case _:
                    assert_never(work)
        return Pause(None)

    def _ended(self, pause: Pause, interruption: Interruption) -> bool:
        """Tell whether the loop is over, now that nothing runs."""
        if self._fatal or interruption.stopping.is_set():
            return True
        if self._limit_reached():
            self.report.end = BatchEnd.LIMIT
            return True
        waiting = pause.seconds is not None
        if self._options.once and not pause.held:
            if waiting or self._left:
                self.report.end = BatchEnd.ONCE
            return True
        return not waiting

    def _limit_reached(self) -> bool:
        limit = self._options.limit
        return limit is not None and self._begun >= limit

    async def _wait(self, pause: Pause, signals: list[asyncio.Task[None]]) -> None:
        """Wait until a task ends, something may be due, or a signal comes."""
        timers: list[asyncio.Task[None]] = []
        if pause.seconds is not None and (pause.held or not self._options.once):
            timers = [asyncio.create_task(_nap(self._clock, pause.seconds))]
        try:
            waits = (*self._tasks, *signals, *timers)
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancel(timers)

    async def _one(self, work: Work) -> None:
        """Run one piece of work and decide what becomes of it."""
        try:
            result = await self._dispatch(work)
            if isinstance(result, Hold):
                self._held_back(work, result)
                return
            self._storage_failures = 0
            self._busy.pop(work.key, None)
            await self._count(work, result)
        except LockBusy:
            self._locked(work)
        except StaleGeneration:
            self._queue.hold(work, STALE_SECONDS)
        except ConfigurationError as error:
            self._fatal = error
            self._queue.done(work)
        except StorageError as error:
            await self._refused_by_disk(work, error)
        except CaseworkError as error:
            self._problem(work, error)
        except Exception as error:  # noqa: BLE001 - a task's edge: raised again by run()
            self._fatal = error
            self._queue.done(work)

    async def _count(self, work: Work, result: OperationResult) -> None:
        if result.reused or result.status is ResultStatus.DEFERRED:
            # The index did not know; another worker, or a crash, was faster than it.
            await asyncio.to_thread(self._refresh, work.case_id)
        if result.status is ResultStatus.DEFERRED:
            self._begun -= 1
            due_at = result.due_at or self._clock.now()
            self._later(work, (due_at - self._clock.now()).total_seconds())
            return
        if result.outcome is not None and not result.reused:
            self._tell(result)
        if result.status is ResultStatus.RETRY_PENDING and self._options.once:
            self._later(work, 0.0)
        else:
            self._queue.done(work)

    def _tell(self, result: OperationResult) -> None:
        tally = self.report.tally
        self.report.adopted += result.adopted
        body = result.outcome.body if result.outcome else {}
        tally.round(calls_of(body), adopted=result.adopted, cut_off=cut_off_starts(body))
        if result.status is not ResultStatus.RETRY_PENDING:
            reason = result.error.code if result.error else None
            tally.completed(self._clock.monotonic(), reason)

    def _later(self, work: Work, seconds: float) -> None:
        """Come back to work after a while; a run that goes over everything once leaves it."""
        if self._options.once:
            self._left = True
            self._queue.give_up(work)
        else:
            self._queue.hold(work, seconds)

    def _held_back(self, work: Work, hold: Hold) -> None:
        """Leave work that a person cancelled; come back to what is held for another reason."""
        self._begun -= 1
        if hold.reason is HoldReason.CANCELLED:
            self._queue.give_up(work)
        else:
            self._later(work, WAIT_SECONDS_MAX if hold.seconds is None else hold.seconds)

    def _locked(self, work: Work) -> None:
        """Come back to a case that another worker holds, each time a little later."""
        tries = self._busy.get(work.key, 0)
        self._busy[work.key] = tries + 1
        self._begun -= 1
        self._later(work, min(BUSY_SECONDS * 2**tries, BUSY_SECONDS_MAX))

    async def _refused_by_disk(self, work: Work, error: StorageError) -> None:
        """Go on without this case if the ground still bears, stop everything if it does not."""
        self._storage_failures += 1
        self._problem(work, error)
        try:
            if self._storage_failures < STORAGE_FAILURES_MAX:
                await asyncio.to_thread(self._store.prove)
            else:
                self._fatal = error
        except CheckpointError as ground:
            self._fatal = ground

    def _problem(self, work: Work, error: CaseworkError) -> None:
        self._queue.give_up(work)
        self.report.problem_codes[error.code] += 1
        if len(self.report.problems) < PROBLEMS_KEPT:
            self.report.problems.append(CaseProblem(work.case_id, work.operation_id, error))

    def _refresh(self, case_id: str) -> None:
        self._store.index.put(self._store.open(case_id))

    @property
    def left_locked(self) -> int:
        """Return how many operations were last seen in another worker's hands."""
        return len(self._busy)


async def _until(event: asyncio.Event) -> None:
    await event.wait()


async def _nap(clock: Clock, seconds: float) -> None:
    await clock.sleep(min(seconds, WAIT_SECONDS_MAX))


async def _cancel(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
