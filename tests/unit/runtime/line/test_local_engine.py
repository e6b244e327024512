"""The local engine beside other workers: claims last as long as their worker, and no longer."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import pytest

from casework.errors import LockBusy, StorageError
from casework.gateway.clock import SystemClock
from casework.runtime.line.claimant import Claimant, ClaimTimes
from casework.runtime.line.dispatcher import Ending, Perform
from casework.runtime.line.due_queue import DueQueue
from casework.runtime.line.governor import Hold, HoldReason, OpenLine
from casework.runtime.line.heartbeat import Heartbeat
from casework.runtime.line.local_engine import EngineParts, LocalEngine
from casework.runtime.line.work import Work
from tests.support.scripted_line import Line

SHORT = ClaimTimes(seconds=0.6, renew_seconds=0.1)


class HeldLine(OpenLine):
    """A governor that can be told to hold the line back."""

    def __init__(self) -> None:
        self.hold: Hold | None = None
        self.allowed = 1000

    def room(self, running: int) -> int | Hold:
        """Return the hold, or how much is allowed."""
        del running
        return self.hold or self.allowed


class Bench:
    """A store with cases, and workers on it."""

    def __init__(self, root: Path, *cases: str) -> None:
        self.line = Line(root, {"a": []})
        self.store = self.line.store
        for case_id in cases:
            self.line.add(case_id)
        self.governor = HeldLine()
        self.ending = Ending()

    async def perform(self, work: Work) -> Ending:
        """Do nothing; the operation stays due."""
        del work
        return self.ending

    def claimant(self, name: str, times: ClaimTimes = SHORT) -> Claimant:
        """Return another worker's view."""
        return Claimant(self.store, name, times)

    def parts(self, name: str, times: ClaimTimes = SHORT) -> EngineParts:
        """Return what an engine works with."""
        claimant = self.claimant(name, times)
        queue = DueQueue(
            self.store.index,
            SystemClock(),
            claimant=claimant,
            operations=["op"],
            replan=lambda: self.store.index.plan(["op"]),
        )
        return EngineParts(self.store, queue, claimant, SystemClock(), self.governor)

    def engine(self, name: str, perform: Perform | None = None) -> LocalEngine:
        """Return an engine."""
        return LocalEngine(self.parts(name), perform or self.perform, concurrency=2)


@contextmanager
def alive(bench: Bench, name: str) -> Iterator[None]:
    """Show a worker's sign of life while the context lasts."""
    with bench.store.lock(f"\0worker {name}"):
        yield


async def test_a_busy_event_loop_loses_no_claim(tmp_path: Path) -> None:
    """While the loop is busy for longer than a claim lasts, nobody takes the case."""
    bench = Bench(tmp_path, "a")
    seen: list[int] = []

    async def burn(work: Work) -> Ending:
        del work
        begun = time.monotonic()
        while time.monotonic() - begun < 3 * SHORT.seconds:
            seen.append(len(bench.claimant("two").of_others()))
        return Ending(leave=True)

    engine = bench.engine("one", burn)
    with engine.at_work():
        await engine.tick()
        await engine.drain()
    assert {1} == set(seen)


async def test_claims_end_with_their_engine(tmp_path: Path) -> None:
    """An engine that was closed leaves no claim, no sign of life and no signature."""
    bench = Bench(tmp_path, "a")
    engine = bench.engine("one")
    with engine.at_work():
        await engine.tick()
        await engine.drain()
        with pytest.raises(LockBusy), alive(bench, "one"):
            pass
    assert [] == bench.store.index.claims.of_others("")
    with alive(bench, "one"):
        pass


def test_a_dead_workers_claims_are_void_and_a_living_ones_are_not(tmp_path: Path) -> None:
    """What decides is the sign of life, not how long a claim still lasts."""
    bench = Bench(tmp_path, "a", "b")
    bench.store.index.plan(["op"])
    bench.parts("dead").queue.take(1)
    bench.parts("living").queue.take(1)
    with alive(bench, "living"):
        assert ["living"] == [claim.worker for claim in bench.claimant("me").of_others()]
    assert ["living"] == [claim.worker for claim in bench.store.index.claims.of_others("me")]


async def test_the_first_look_takes_what_a_dead_worker_held(tmp_path: Path) -> None:
    """A run that looks only once begins the cases of a worker that was killed a moment ago."""
    bench = Bench(tmp_path, "a")
    bench.store.index.plan(["op"])
    bench.parts("dead").queue.take(1)
    engine = bench.engine("one")
    with engine.at_work():
        assert ["a"] == [work.case_id for work in (await engine.tick()).begun]
        await engine.drain()


async def test_a_hold_begins_nothing_and_is_told_only_if_work_waits(tmp_path: Path) -> None:
    """While the governor holds the line nothing is claimed; with nothing to do there is no hold."""
    bench = Bench(tmp_path, "a")
    engine = bench.engine("one")
    bench.governor.hold = Hold(HoldReason.PAUSED, 7.0)
    bench.store.index.plan(["op"])
    with engine.at_work():
        tick = await engine.tick()
        assert ((), bench.governor.hold, 7.0) == (tick.begun, tick.hold, tick.next_seconds)
        assert [] == bench.store.index.claims.of_others("")
        bench.governor.hold = None
        bench.ending = Ending(leave=True)
        assert 1 == len((await engine.tick()).begun)
        await asyncio.sleep(0)
        bench.governor.hold = Hold(HoldReason.OUTAGE, 1.0)
        assert None is (await engine.tick()).hold


async def test_the_governor_bounds_what_is_begun(tmp_path: Path) -> None:
    """No more is begun than the governor has room for."""
    bench = Bench(tmp_path, "a", "b")
    bench.governor.allowed = 1
    engine = bench.engine("one")
    with engine.at_work():
        assert 1 == len((await engine.tick()).begun)
        await engine.drain()


async def test_a_locked_case_is_come_back_to_later_each_time(tmp_path: Path) -> None:
    """Work that somebody else has is put back, not held, so that another may try it."""
    bench = Bench(tmp_path, "a")
    bench.ending = Ending(locked=True)
    engine = bench.engine("one")
    with engine.at_work():
        await engine.tick()
        await asyncio.sleep(0)
        tick = await engine.tick()
        assert ((), 1, True) == (tick.begun, engine.locked, tick.postponed)
        assert tick.next_seconds is not None
        assert 0.2 >= tick.next_seconds > 0.1
        assert [] == bench.store.index.claims.of_others("")


async def test_a_lost_index_gets_its_claims_back(tmp_path: Path) -> None:
    """The heartbeat claims again what an index that was deleted has forgotten."""
    bench = Bench(tmp_path, "a")
    parts = bench.parts("one")
    gate = asyncio.Event()

    async def wait(work: Work) -> Ending:
        del work
        await gate.wait()
        return Ending(leave=True)

    engine = LocalEngine(parts, wait, concurrency=2)
    with engine.at_work():
        await engine.tick()
        await asyncio.sleep(0)
        bench.store.index.discard()
        parts.claimant.renew()
        assert ["a"] == [claim.case_id for claim in bench.store.index.claims.of_others("two")]
        gate.set()
        await engine.drain()


def test_a_heartbeat_goes_on_after_a_refusal_and_ends_when_told() -> None:
    """A beat that the index refuses is left out; the next one comes."""
    beaten = Event()
    beats: list[int] = []

    def beat() -> None:
        beats.append(1)
        if len(beats) == 1:
            raise StorageError("the index cannot be used")
        beaten.set()

    heartbeat = Heartbeat(beat, 0.01)
    heartbeat.start()
    assert beaten.wait(10)
    heartbeat.stop()
    assert len(beats) >= 2
    assert "casework-heartbeat" not in {thread.name for thread in threading.enumerate()}


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
async def test_a_fork_in_a_round_neither_hangs_nor_frees_anything(tmp_path: Path) -> None:
    """A child forked while a round is open can use the index, and is kept out of the case."""
    bench = Bench(tmp_path, "a")
    codes: list[int] = []

    async def fork(work: Work) -> Ending:
        with bench.store.lock(work.case_id):
            pid = os.fork()
            if pid == 0:
                _in_the_child(bench, work.case_id)
            _, status = os.waitpid(pid, 0)  # noqa: ASYNC222 - the child has to end
            codes.append(os.waitstatus_to_exitcode(status))
            with pytest.raises(LockBusy), Line(tmp_path, {"a": []}).store.lock(work.case_id):
                pass
        return Ending(leave=True)

    engine = LocalEngine(bench.parts("one", ClaimTimes()), fork, concurrency=2)
    with engine.at_work():
        await engine.tick()
        await engine.drain()
    assert [0] == codes


def _in_the_child(bench: Bench, case_id: str) -> None:
    """Try what a child may try, and end without the parent's clean-up."""
    code = 3
    signal.alarm(20)
    try:
        bench.store.index.counts()
        try:
            with bench.store.lock(case_id):
                code = 2
        except LockBusy:
            code = 0
    finally:
        os._exit(code)
