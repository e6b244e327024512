"""The one run loop: tick the engine, wait, and count what came of it."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

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
from casework.runner.calls import calls_of, cut_off_starts
from casework.runner.operation import ResultStatus
from casework.runner.operation_result import OperationResult
from casework.runtime.line.claimant import ClaimTimes
from casework.runtime.line.dispatcher import Ending, Tick
from casework.runtime.line.governor import Hold, HoldReason
from casework.runtime.line.local_engine import EngineParts, LocalEngine
from casework.runtime.line.work import Work
from casework.runtime.run.interruption import Interruption
from casework.runtime.run.session_tally import SessionTally

_LOG = logging.getLogger(__name__)

CONCURRENCY: Final = 8
STALE_SECONDS: Final = 0.05
WAIT_SECONDS_MAX: Final = 60.0
"""How long the loop waits before it looks at the wall clock again, which may have been set."""
INDEX_SECONDS: Final = 5.0
INDEX_FAILURES_MAX: Final = 10
"""So many times in a row a process that stays bears with an index that cannot be used."""
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
    BUDGET = "budget"
    """The next round could have crossed the budget."""
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
    stay: bool = False
    """Wait for new work for ever, until a signal comes."""
    worker: str = ""
    """What other workers know this one by; no two are ever called the same. Empty makes one up."""
    claims: ClaimTimes = ClaimTimes()  # noqa: RUF009 - frozen


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
    held_by: str = ""
    """Why the budget ended it, in one sentence."""
    discarded: int = 0
    """Rounds whose result was void, because somebody else had committed or taken over."""
    problems: list[CaseProblem] = field(default_factory=list)
    problem_codes: Counter[str] = field(default_factory=Counter)


class Dispatch(Protocol):
    """Run one piece of work: build its request and give it to the runner."""

    async def __call__(self, work: Work) -> OperationResult | Hold:
        """Return what the operation came to, or what holds it back; raises as the runner does."""


class Batch:
    """Drive operations until nothing selected is left to do, or for ever.

    Args:
        store: Where the packages lie.
        parts: What the engine works with.
        dispatch: Runs one piece of work.
        clock: The time.
        options: How far and how fast.
    """

    def __init__(
        self,
        store: CheckpointStore,
        parts: EngineParts,
        *,
        dispatch: Dispatch,
        clock: Clock,
        options: BatchOptions,
    ) -> None:
        self._store = store
        self._dispatch = dispatch
        self._clock = clock
        self._options = options
        self.engine = LocalEngine(parts, self._one, concurrency=options.concurrency)
        self.worker = parts.claimant.worker
        """What other workers know this one by."""
        self._begun = 0
        self._elsewhere = 0
        self._left = False
        self._storage_failures = 0
        self._index_failures = 0
        self._fatal: Exception | None = None
        self._budget_reached = False
        self.hold: Hold | None = None
        """What holds the line back at this moment."""
        self.next_seconds: float | None = None
        """When the next work is due, as known at the last look."""
        self.report = BatchReport(SessionTally(clock.monotonic()))

    @property
    def running(self) -> int:
        """Return how many operations are being worked on at this moment."""
        return self.engine.running

    @property
    def left_locked(self) -> int:
        """Return how many operations were last seen in another worker's hands."""
        return self.engine.locked + self._elsewhere

    async def run(self, interruption: Interruption) -> BatchReport:
        """Work until settled, limited, held back for good, or interrupted.

        The first signal lets running rounds end; the second cancels them, and what they were
        doing is left as after a crash.

        Raises:
            CaseworkError: Something that no other case would survive either: the configuration
                or the disk. Running rounds were let end.
        """
        events = (interruption.stopping, interruption.leaving)
        signals = [asyncio.create_task(self._wake_on(event)) for event in events]
        try:
            with self.engine.at_work():
                try:
                    await self._work(interruption)
                finally:
                    await self.engine.abandon()
        finally:
            await _cancel(signals)
        if interruption.stopping.is_set():
            self.report.end = BatchEnd.INTERRUPTED
        if self._fatal is not None:
            raise self._fatal
        return self.report

    async def _work(self, interruption: Interruption) -> None:
        while not interruption.leaving.is_set():
            tick = await self._tick(interruption)
            self._begun += len(tick.begun)
            self.hold, self.next_seconds = tick.hold, tick.next_seconds
            self._elsewhere = tick.elsewhere
            if not self.engine.running and self._ended(tick, interruption):
                return
            await self._wait(tick)

    async def _tick(self, interruption: Interruption) -> Tick:
        """Begin as much due work as there is room for, unless the loop is to end."""
        limit = self._options.limit
        most = None if limit is None else limit - self._begun
        over = self._fatal or interruption.stopping.is_set() or self._budget_reached
        if over or most == 0:
            self.engine.ended.clear()
            return Tick()
        try:
            tick = await self.engine.tick(most)
        except CheckpointError as error:
            self._index_failures += 1
            if self._options.stay and self._index_failures < INDEX_FAILURES_MAX:
                return Tick(next_seconds=INDEX_SECONDS, postponed=True)
            self._fatal = error
            return Tick()
        self._index_failures = 0
        return tick

    def _ended(self, tick: Tick, interruption: Interruption) -> bool:
        """Tell whether the loop is over, now that nothing runs."""
        if self._fatal or interruption.stopping.is_set():
            return True
        if self._options.limit is not None and self._begun >= self._options.limit:
            self.report.end = BatchEnd.LIMIT
            return True
        if self._options.stay or self.engine.ended.is_set():
            return False
        if self._budget_reached or (tick.hold and self._is_over_budget(tick.hold)):
            self.report.end = BatchEnd.BUDGET
            return True
        waiting = tick.next_seconds is not None or tick.hold is not None
        if self._options.once and (tick.hold or not tick.postponed):
            if waiting or self._left:
                self.report.end = BatchEnd.ONCE
            return True
        return not waiting

    async def _wait(self, tick: Tick) -> None:
        """Wait until a round ends, something may be due, or a signal comes."""
        if self.engine.ended.is_set():
            return
        seconds = tick.next_seconds
        if seconds is None and tick.hold is not None:
            seconds = WAIT_SECONDS_MAX
        if seconds is None or (self._options.once and not tick.postponed):
            await self.engine.ended.wait()
            return
        waits = (
            asyncio.create_task(self.engine.ended.wait()),
            asyncio.create_task(_nap(self._clock, seconds)),
        )
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancel(waits)

    async def _one(self, work: Work) -> Ending:
        """Run one piece of work and decide what becomes of it."""
        try:
            result = await self._dispatch(work)
            if isinstance(result, Hold):
                return self._held_back(result)
            self._storage_failures = 0
            return await self._count(work, result)
        except CaseworkError as error:
            return await self._failed(work, error)
        except Exception as error:  # noqa: BLE001 - a task's edge: raised again by run()
            self._fatal = error
        return Ending()

    async def _failed(self, work: Work, error: CaseworkError) -> Ending:
        """Decide whether to come back to work, to leave it, or to stop everything."""
        match error:
            case LockBusy():
                self._begun -= 1
                self._left = self._left or self._options.once
                return Ending(locked=True, leave=self._options.once)
            case StaleGeneration():
                return self._stale(work, error)
            case ConfigurationError():
                self._fatal = error
                return Ending()
            case StorageError():
                return await self._refused_by_disk(work, error)
            case _:
                return self._problem(work, error)

    async def _count(self, work: Work, result: OperationResult) -> Ending:
        if result.reused or result.status is ResultStatus.DEFERRED:
            # The index did not know; another worker, or a crash, was faster than it.
            await asyncio.to_thread(self._refresh, work.case_id)
        if result.status is ResultStatus.DEFERRED:
            self._begun -= 1
            due_at = result.due_at or self._clock.now()
            return self._later((due_at - self._clock.now()).total_seconds())
        if result.outcome is not None and not result.reused:
            self._tell(result)
        if result.status is ResultStatus.RETRY_PENDING and self._options.once:
            return self._later(0.0)
        return Ending()

    def _tell(self, result: OperationResult) -> None:
        tally = self.report.tally
        self.report.adopted += result.adopted
        body = result.outcome.body if result.outcome else {}
        tally.round(calls_of(body), adopted=result.adopted, cut_off=cut_off_starts(body))
        if result.status is not ResultStatus.RETRY_PENDING:
            reason = result.error.code if result.error else None
            tally.completed(self._clock.monotonic(), reason)

    def _later(self, seconds: float) -> Ending:
        """Come back to work after a while; a run that goes over everything once leaves it."""
        if self._options.once:
            self._left = True
            return Ending(leave=True)
        return Ending(again_seconds=max(seconds, 0.0))

    def _held_back(self, hold: Hold) -> Ending:
        """Leave what somebody else takes up again; come back to what is held otherwise."""
        self._begun -= 1
        if hold.reason in (HoldReason.CANCELLED, HoldReason.NEEDS):
            return Ending(leave=True)
        if self._is_over_budget(hold) and not self._options.stay:
            self._budget_reached = True
            return Ending()
        return self._later(WAIT_SECONDS_MAX if hold.seconds is None else hold.seconds)

    def _is_over_budget(self, hold: Hold) -> bool:
        """Tell whether the budget holds back for good, and note what it says."""
        if hold.reason is not HoldReason.BUDGET or hold.seconds is not None:
            return False
        self.report.held_by = hold.detail
        return True

    def _stale(self, work: Work, error: StaleGeneration) -> Ending:
        """Tell that a result was void, and look again at what the operation has become."""
        self.report.discarded += 1
        _LOG.warning(
            "a result was discarded: case %s, %s [%s]",
            work.case_id,
            work.operation_id,
            error.code,
            extra={"action": "result_discarded", "case_id": work.case_id, "code": error.code},
        )
        return Ending(again_seconds=STALE_SECONDS)

    async def _refused_by_disk(self, work: Work, error: StorageError) -> Ending:
        """Go on without this case if the ground still bears, stop everything if it does not."""
        self._storage_failures += 1
        ending = self._problem(work, error)
        try:
            if self._storage_failures < STORAGE_FAILURES_MAX:
                await asyncio.to_thread(self._store.prove)
            else:
                self._fatal = error
        except CheckpointError as ground:
            self._fatal = ground
        return ending

    def _problem(self, work: Work, error: CaseworkError) -> Ending:
        self.report.problem_codes[error.code] += 1
        if len(self.report.problems) < PROBLEMS_KEPT:
            self.report.problems.append(CaseProblem(work.case_id, work.operation_id, error))
        return Ending(leave=True)

    def _refresh(self, case_id: str) -> None:
        self._store.index.put(self._store.open(case_id))

    async def _wake_on(self, event: asyncio.Event) -> None:
        await event.wait()
        self.engine.wake()


async def _nap(clock: Clock, seconds: float) -> None:
    await clock.sleep(min(seconds, WAIT_SECONDS_MAX))


async def _cancel(tasks: Sequence[asyncio.Task[object]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
