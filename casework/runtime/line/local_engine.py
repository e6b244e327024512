"""The engine of one machine: due work from the package index, claimed, run, and let go."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from casework.checkpoints.store import CheckpointStore
from casework.errors import StorageError
from casework.gateway.clock import Clock
from casework.runtime.line.claimant import Claimant
from casework.runtime.line.dispatcher import Ending, Perform, Tick
from casework.runtime.line.due_queue import POSTPONE_SECONDS_MIN, DueQueue, Pause, Taken
from casework.runtime.line.governor import Governor, Hold
from casework.runtime.line.heartbeat import Heartbeat
from casework.runtime.line.work import Work, WorkKey

_LOG = logging.getLogger(__name__)

_T = TypeVar("_T")

BUSY_SECONDS: Final = 0.2
BUSY_SECONDS_MAX: Final = 5.0

AHEAD_SECONDS: Final = 0.05
"""Work is claimed ahead for as long as this at the present speed, so that claims cost less than
the shortest rounds; long rounds claim nothing ahead that an idle worker could begin."""

SPEED_ENDS: Final = 32
"""So many rounds have to end before their speed is known."""


@dataclass(frozen=True, slots=True)
class EngineParts:
    """What an engine works with."""

    store: CheckpointStore
    queue: DueQueue
    claimant: Claimant
    clock: Clock
    governor: Governor


class LocalEngine:
    """Begins due rounds of one process, at most so many at once, beside other processes.

    Everything that waits for a disk is done in threads. To be used inside :meth:`at_work`.

    Args:
        parts: What it works with.
        perform: Runs work.
        concurrency: The most rounds at once.
    """

    def __init__(self, parts: EngineParts, perform: Perform, *, concurrency: int) -> None:
        self._parts = parts
        self._queue = parts.queue
        self._perform = perform
        self._concurrency = concurrency
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="casework-queue")
        self._tasks: dict[asyncio.Task[None], Work] = {}
        self._ahead: deque[Taken] = deque()
        self._busy_tries: dict[WorkKey, int] = {}
        self._draining = False
        self._ends: deque[float] = deque(maxlen=SPEED_ENDS)
        self.ended = asyncio.Event()
        """Set whenever something happened after which a tick may find more."""

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Show a sign of life, and renew the claims, while the context lasts."""
        store, claimant = self._parts.store, self._parts.claimant
        name = claimant.sign_of_life()
        with store.lock(name):
            store.locks.sign(claimant.worker)
            heartbeat = Heartbeat(claimant.renew, claimant.times.renew_seconds)
            heartbeat.start()
            try:
                yield
            finally:
                heartbeat.stop()
                self._thread.shutdown(wait=True, cancel_futures=True)
                claimant.leave()
                store.locks.sign("")
                store.locks.discard(name)

    @property
    def running(self) -> int:
        """Return how many rounds run at this moment."""
        return len(self._tasks)

    @property
    def locked(self) -> int:
        """Return how many operations were last seen in somebody else's hands."""
        return len(self._busy_tries)

    async def enqueue(self, work: Work) -> None:
        """See :meth:`Dispatcher.enqueue`."""
        index = self._parts.store.index
        await self._in_thread(lambda: index.plan([work.operation_id], case_id=work.case_id))
        self._queue.want_again(work)
        self.ended.set()

    async def cancel(self, work: Work) -> None:
        """See :meth:`Dispatcher.cancel`."""
        self._queue.cancel(work)
        for taken in [t for t in self._ahead if t.work == work]:
            self._ahead.remove(taken)
            self._queue.done(work)

    async def drain(self) -> None:
        """See :meth:`Dispatcher.drain`."""
        self._draining = True
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))
        self._give_back_ahead()

    async def abandon(self) -> None:
        """Cancel what runs and leave it as after a crash; begin nothing any more."""
        self._draining = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def look_around(self) -> None:
        """Plan work for cases that other processes have brought, then ask for a tick."""
        await self._in_thread(self._queue.plan_missing)
        self.ended.set()

    def wake(self) -> None:
        """Ask for a tick soon; may be called from the loop's thread only."""
        self.ended.set()

    async def tick(self, most: int | None = None) -> Tick:
        """See :meth:`Dispatcher.tick`."""
        self.ended.clear()
        room = self._concurrency - len(self._tasks)
        if most is not None:
            room = min(room, most)
        if self._draining or room <= 0:
            return Tick()
        allowed = self._parts.governor.room(len(self._tasks))
        if isinstance(allowed, Hold):
            return await self._held_back(allowed)
        room = min(room, allowed)
        pause = Pause(None)
        if len(self._ahead) < room:
            ahead = 0 if most is not None else self._claim_ahead()
            missing = room - len(self._ahead)
            taken, pause = await self._in_thread(lambda: self._queue.take(missing + ahead))
            self._ahead.extend(taken)
        begun: list[Work] = []
        while self._ahead and len(begun) < room and not self._draining:
            begun.append(self._begin(self._ahead.popleft()))
        return Tick(
            begun=tuple(begun),
            next_seconds=pause.seconds if len(begun) < room else None,
            postponed=pause.postponed,
            elsewhere=pause.elsewhere,
        )

    async def _held_back(self, hold: Hold) -> Tick:
        """Tell what holds work back, if there is any that waits."""
        self._give_back_ahead()
        _, pause = await self._in_thread(lambda: self._queue.take(0))
        if pause.seconds is None:
            return Tick()
        return Tick(
            next_seconds=None if hold.seconds is None else max(hold.seconds, POSTPONE_SECONDS_MIN),
            postponed=pause.postponed,
            elsewhere=pause.elsewhere,
            hold=hold,
        )

    def _claim_ahead(self) -> int:
        """Return how much work to claim beyond what can be begun now."""
        if len(self._ends) < SPEED_ENDS or self._ends[-1] <= self._ends[0]:
            return 0
        speed = (SPEED_ENDS - 1) / (self._ends[-1] - self._ends[0])
        return min(int(speed * AHEAD_SECONDS), self._concurrency)

    def _give_back_ahead(self) -> None:
        while self._ahead:
            self._queue.done(self._ahead.popleft().work)

    def _begin(self, taken: Taken) -> Work:
        task = asyncio.create_task(self._one(taken))
        self._tasks[task] = taken.work
        task.add_done_callback(self._end)
        return taken.work

    def _end(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        self._ends.append(self._parts.clock.monotonic())
        self.ended.set()

    async def _one(self, taken: Taken) -> None:
        """Run one piece of work and put it where it belongs then."""
        work = taken.work
        try:
            ending = await self._perform(work)
            if ending.locked and taken.ousts is not None and await self._oust(work, taken.ousts):
                ending = await self._perform(work)
        except BaseException:
            self._queue.done(work)
            raise
        if ending.locked:
            tries = self._busy_tries.get(work.key, 0)
            self._busy_tries[work.key] = tries + 1
            ending = _later(ending, min(BUSY_SECONDS * 2**tries, BUSY_SECONDS_MAX))
        else:
            self._busy_tries.pop(work.key, None)
        if ending.leave:
            self._queue.give_up(work)
        elif ending.again_seconds is not None:
            self._queue.postpone(work, ending.again_seconds)
        else:
            self._queue.done(work)

    async def _oust(self, work: Work, worker: str) -> bool:
        """Take the case's lock from a worker that stands still."""
        done = False
        with suppress(StorageError):
            done = await self._in_thread(lambda: self._parts.claimant.oust(work.case_id, worker))
        if done:
            _LOG.warning(
                "took a case over from a worker that stands still",
                extra={"action": "taken_over", "case_id": work.case_id, "worker": worker},
            )
        return done

    async def _in_thread(self, call: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)


def _later(ending: Ending, seconds: float) -> Ending:
    return ending if ending.leave else Ending(again_seconds=seconds, locked=True)
