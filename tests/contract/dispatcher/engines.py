"""The engines under the dispatcher contract, each over the same packages, runner and clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol

from casework.errors import LockBusy, StaleGeneration
from casework.gateway.clock import MANUAL_START, ManualClock
from casework.gateway.messages import ProviderCall
from casework.gateway.providers.scripted import Computed, Step
from casework.runner.operation import ResultStatus
from casework.runner.operation_result import OperationResult
from casework.runtime.line.claimant import Claimant, ClaimTimes, new_worker
from casework.runtime.line.dispatcher import Dispatcher, Ending, Perform, Tick
from casework.runtime.line.due_queue import DueQueue
from casework.runtime.line.governor import OpenLine
from casework.runtime.line.local_engine import EngineParts, LocalEngine
from casework.runtime.line.work import Work
from tests.support.scripted_line import DOWN, Line, request

OPERATION: Final = "extract"


class Engine(Dispatcher, Protocol):
    """A dispatcher that can be opened and closed."""

    def at_work(self) -> AbstractContextManager[None]:
        """Be alive while the context lasts."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What every engine works over."""

    line: Line
    perform: Perform
    concurrency: int
    operations: tuple[str, ...]


EngineFactory = Callable[[Bench], Engine]


def local(bench: Bench) -> Engine:
    """Return the engine on the package index."""
    line, operations = bench.line, bench.operations
    index = line.store.index
    claimant = Claimant(line.store, new_worker(), ClaimTimes())
    queue = DueQueue(
        index,
        line.clock,
        claimant=claimant,
        operations=operations,
        replan=lambda: index.plan(operations),
    )
    parts = EngineParts(line.store, queue, claimant, line.clock, OpenLine())
    return LocalEngine(parts, bench.perform, concurrency=bench.concurrency)


ENGINES: Final[dict[str, EngineFactory]] = {"local": local}


class Rig:
    """One engine over some cases, and what it did.

    Args:
        root: Folder of the project.
        make: Makes the engine.
        steps: What the provider does; the last one is repeated.
        concurrency: The most rounds at once.
        operations: What is planned for every case.
        start: What the clock shows at first.
        settings: TOML put before the provider.
    """

    def __init__(
        self,
        root: Path,
        make: EngineFactory,
        *,
        steps: Sequence[Step] = (),
        concurrency: int = 4,
        operations: tuple[str, ...] = (OPERATION,),
        start: datetime = MANUAL_START,
        settings: str = "",
    ) -> None:
        self.asked: list[str] = []
        """Cases in the order of their calls."""
        self.begun: list[str] = []
        self.in_flight = 0
        self.in_flight_max = 0
        self._quiet = asyncio.Event()
        self._quiet.set()
        self.gate: asyncio.Event | None = None
        """What every round waits for before its call, if there is one."""
        scripted = list(steps) or [Computed(self._answer)]
        self.line = Line(root, {"a": scripted}, settings=settings, clock=ManualClock(start))
        self.clock = self.line.clock
        self.engine = make(Bench(self.line, self.perform, concurrency, operations))

    def add(self, *case_ids: str) -> list[Work]:
        """Create cases and return their work, which nobody has enqueued yet."""
        heads = [self.line.add(case_id, case_id) for case_id in case_ids]
        return [Work(head.case_id, head.package_id, OPERATION) for head in heads]

    async def fail_once(self, *work: Work) -> None:
        """Let the first round of operations find the provider down, so that they wait."""
        healthy = self.line.providers["a"]._steps
        self.line.providers["a"]._steps = (DOWN,)
        results = await asyncio.gather(*map(self._run, work))
        assert {ResultStatus.RETRY_PENDING} == {result.status for result in results}
        self.line.providers["a"]._steps = healthy

    async def perform(self, work: Work) -> Ending:
        """Run a round as the run loop does."""
        self.begun.append(work.case_id)
        self.in_flight += 1
        self._quiet.clear()
        self.in_flight_max = max(self.in_flight_max, self.in_flight)
        try:
            if self.gate is not None:
                await self.gate.wait()
            result = await self._run(work)
        except LockBusy:
            return Ending(locked=True)
        except StaleGeneration:
            return Ending(again_seconds=0.05)
        finally:
            self.in_flight -= 1
            if not self.in_flight:
                self._quiet.set()
        if result.status is ResultStatus.DEFERRED and result.due_at is not None:
            return Ending(again_seconds=(result.due_at - self.clock.now()).total_seconds())
        return Ending()

    async def idle(self) -> None:
        """Wait until nothing runs."""
        await self._quiet.wait()
        await asyncio.sleep(0)

    async def tick(self) -> Tick:
        """Take one step and wait until what it began has reached its call or its end."""
        tick = await self.engine.tick()
        await asyncio.sleep(0)
        return tick

    async def settle(self) -> None:
        """Tick until nothing is left to do, letting time pass where the engine waits for it."""
        while True:
            await self.idle()
            tick = await self.tick()
            await self.idle()
            if not tick.begun:
                if tick.next_seconds is None:
                    return
                self.clock.advance(tick.next_seconds)

    async def _run(self, work: Work) -> OperationResult:
        return await self.line.runner.run(
            work.case_id,
            work.package_id,
            operation_id=work.operation_id,
            request=request(work.case_id),
        )

    def _answer(self, call: ProviderCall) -> str:
        self.asked.append(call.messages[-1].content)
        return '{"answer": "yes"}'


@asynccontextmanager
async def at_work(rig: Rig) -> AsyncIterator[Rig]:
    """Open a rig's engine, and let what runs end before it is closed."""
    with rig.engine.at_work():
        try:
            yield rig
        finally:
            if rig.gate is not None:
                rig.gate.set()
            await rig.engine.drain()
