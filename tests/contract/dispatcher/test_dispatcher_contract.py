"""What every engine promises behind the dispatcher port, in the words of the port."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import pytest

from casework.checkpoints.records import OperationStatus
from casework.runtime.line.work import Work
from tests.contract.dispatcher.engines import ENGINES, OPERATION, EngineFactory, Rig, at_work


@pytest.fixture(params=sorted(ENGINES), name="make")
def an_engine(request: pytest.FixtureRequest) -> EngineFactory:
    """Return a factory of each engine."""
    return ENGINES[request.param]


async def test_the_longest_due_is_begun_first(tmp_path: Path, make: EngineFactory) -> None:
    """Order: what has been due for longest goes first, whatever its name."""
    rig = Rig(tmp_path, make, concurrency=1)
    last, first, middle = rig.add("a", "c", "b")
    for work in (first, middle, last):
        await rig.fail_once(work)
        rig.clock.advance(1)
    rig.clock.advance(100)
    async with at_work(rig):
        await rig.settle()
    assert ["c", "b", "a"] == rig.asked


async def test_nothing_is_begun_early_and_nothing_twice(
    tmp_path: Path, make: EngineFactory
) -> None:
    """Due: one millisecond before its time nothing happens, at its time the round runs, once."""
    rig = Rig(tmp_path, make)
    (work,) = rig.add("a")
    await rig.fail_once(work)
    async with at_work(rig):
        rig.clock.advance(59.999)
        early = await rig.tick()
        assert () == early.begun
        assert 0.001 == pytest.approx(early.next_seconds, abs=0.002)
        rig.clock.advance(0.001)
        assert (work,) == (await rig.tick()).begun
        await rig.idle()
        rig.clock.advance(3600)
        assert () == (await rig.tick()).begun
    assert ["a"] == rig.asked


async def test_a_wait_is_told_to_the_moment(tmp_path: Path, make: EngineFactory) -> None:
    """Due: the time until the next tick is the time until the next due operation, not a poll."""
    rig = Rig(tmp_path, make)
    await rig.fail_once(*rig.add("a"))
    rig.clock.advance(12.345)
    await rig.fail_once(*rig.add("b"))
    async with at_work(rig):
        assert 47.655 == pytest.approx((await rig.tick()).next_seconds, abs=0.001)


async def test_enqueued_again_changes_nothing(tmp_path: Path, make: EngineFactory) -> None:
    """Duplicate: before, during and after its round an operation may be enqueued again."""
    rig = Rig(tmp_path, make)
    (work,) = rig.add("a")
    rig.gate = asyncio.Event()
    async with at_work(rig):
        await rig.engine.enqueue(work)
        await rig.engine.enqueue(work)
        assert (work,) == (await rig.tick()).begun
        await rig.engine.enqueue(work)
        assert () == (await rig.tick()).begun
        rig.gate.set()
        await rig.settle()
        await rig.engine.enqueue(work)
        await rig.settle()
    assert ["a"] == rig.asked
    (operation,) = rig.line.store.index.operations("a")
    assert OperationStatus.SUCCESS is operation.status


async def test_a_duplicate_does_not_bring_a_wait_forward(
    tmp_path: Path, make: EngineFactory
) -> None:
    """Duplicate: an operation that waits for its round goes on waiting."""
    rig = Rig(tmp_path, make)
    (work,) = rig.add("a")
    await rig.fail_once(work)
    async with at_work(rig):
        await rig.engine.enqueue(work)
        tick = await rig.tick()
        assert () == tick.begun
        assert 60.0 == pytest.approx(tick.next_seconds)


async def test_a_cancelled_operation_waits_for_being_enqueued(
    tmp_path: Path, make: EngineFactory
) -> None:
    """Cancel: the operation is left, others go on, and enqueued again it is begun."""
    rig = Rig(tmp_path, make)
    left, other = rig.add("a", "b")
    async with at_work(rig):
        await rig.engine.cancel(left)
        await rig.settle()
        assert ["b"] == rig.asked
        await rig.engine.enqueue(left)
        await rig.settle()
    assert ["b", "a"] == rig.asked
    assert [other.case_id, left.case_id] == rig.begun


async def test_a_running_round_is_let_end_when_it_is_cancelled(
    tmp_path: Path, make: EngineFactory
) -> None:
    """Cancel: what was begun ends and is committed."""
    rig = Rig(tmp_path, make)
    (work,) = rig.add("a")
    rig.gate = asyncio.Event()
    async with at_work(rig):
        assert (work,) == (await rig.tick()).begun
        await rig.engine.cancel(work)
        rig.gate.set()
        await rig.settle()
    (operation,) = rig.line.store.index.operations("a")
    assert OperationStatus.SUCCESS is operation.status


async def test_draining_lets_end_and_begins_nothing(tmp_path: Path, make: EngineFactory) -> None:
    """Drain: what runs is committed, what is due stays due."""
    rig = Rig(tmp_path, make, concurrency=1)
    rig.add("a", "b")
    rig.gate = asyncio.Event()
    async with at_work(rig):
        await rig.tick()
        drained = asyncio.create_task(rig.engine.drain())
        await asyncio.sleep(0)
        assert not drained.done()
        rig.gate.set()
        await drained
        assert () == (await rig.tick()).begun
    assert (["a"], 0) == (rig.asked, rig.in_flight)


async def test_one_operation_of_a_case_runs_at_a_time(tmp_path: Path, make: EngineFactory) -> None:
    """One case: two operations of it are never in flight together, and none is lost."""
    rig = Rig(tmp_path, make, operations=(OPERATION, "check"))
    (work,) = rig.add("a")
    second = Work(work.case_id, work.package_id, "check")
    rig.gate = asyncio.Event()
    async with at_work(rig):
        await rig.engine.enqueue(work)
        await rig.engine.enqueue(second)
        assert 1 == len((await rig.tick()).begun)
        assert () == (await rig.tick()).begun
        rig.gate.set()
        await rig.settle()
    states = {o.operation_id: o.status for o in rig.line.store.index.operations("a")}
    assert {OPERATION: OperationStatus.SUCCESS, "check": OperationStatus.SUCCESS} == states
    assert 1 == rig.in_flight_max


async def test_an_operation_due_later_does_not_stop_another_of_its_case(
    tmp_path: Path, make: EngineFactory
) -> None:
    """One case: while one operation waits for its next round, the other is begun."""
    rig = Rig(tmp_path, make, operations=(OPERATION, "check"))
    (work,) = rig.add("a")
    await rig.fail_once(work)
    async with at_work(rig):
        assert [Work("a", work.package_id, "check")] == list((await rig.tick()).begun)
        await rig.idle()
        assert () == (await rig.tick()).begun


async def test_a_storm_is_bounded_and_loses_nothing(tmp_path: Path, make: EngineFactory) -> None:
    """Storm: hundreds due in the same instant run so many at a time, each exactly once."""
    rig = Rig(tmp_path, make, concurrency=8)
    names = [f"case-{n:03}" for n in range(300)]
    rig.add(*names)
    async with at_work(rig):
        await rig.settle()
    assert names == sorted(rig.asked)
    assert {1} == set(Counter(rig.begun).values())
    assert 8 == rig.in_flight_max


async def test_a_storm_of_retries_comes_late_rather_than_early(
    tmp_path: Path, make: EngineFactory
) -> None:
    """Storm: retries that are due in one second are begun once each, none before its time."""
    rig = Rig(tmp_path, make, concurrency=16)
    names = [f"case-{n:03}" for n in range(150)]
    await rig.fail_once(*rig.add(*names))
    async with at_work(rig):
        rig.clock.advance(59.9)
        assert () == (await rig.tick()).begun
        await rig.settle()
    assert names == sorted(rig.asked)
    assert 60.0 <= rig.clock.monotonic() < 65.0


async def test_a_lost_queue_is_found_in_the_packages(tmp_path: Path, make: EngineFactory) -> None:
    """Lost: with the index deleted in the middle, what waits and what is new is still run, once."""
    rig = Rig(tmp_path, make, concurrency=1)
    waiting, *_ = rig.add("waits", "one", "two", "three")
    await rig.fail_once(waiting)
    async with at_work(rig):
        await rig.tick()
        await rig.idle()
        (tmp_path / "runtime" / "index.sqlite3").unlink()
        await rig.settle()
    assert ["one", "three", "two", "waits"] == sorted(rig.asked)
    for case_id in rig.asked:
        rig.line.assert_verifies(case_id)


async def test_a_new_engine_goes_on_where_the_old_one_ended(
    tmp_path: Path, make: EngineFactory
) -> None:
    """Lost: nothing that an engine knew is needed by the next one."""
    rig = Rig(tmp_path, make)
    await rig.fail_once(*rig.add("a"))
    async with at_work(rig):
        pass
    later = Rig(tmp_path, make)
    later.clock.advance(60)
    async with at_work(later):
        await later.settle()
    assert ["a"] == later.asked


@pytest.mark.parametrize("seconds", [86_400.0, -31_536_000.0], ids=["a day back", "a year on"])
async def test_a_wall_clock_that_is_set_loses_and_repeats_nothing(
    tmp_path: Path, make: EngineFactory, seconds: float
) -> None:
    """Due: after the wall clock was set, a waiting operation runs once, and not in a day only."""
    rig = Rig(tmp_path, make)
    (work,) = rig.add("a")
    await rig.fail_once(work)
    async with at_work(rig):
        rig.clock.set_back(seconds)
        await rig.tick()
        await rig.idle()
        assert [] == rig.asked
        await rig.settle()
    assert ["a"] == rig.asked
    assert rig.clock.monotonic() <= 130.0
    rig.line.assert_verifies("a")


@pytest.mark.parametrize(
    "start",
    [datetime(2026, 4, 4, 14, 30, tzinfo=UTC), datetime(2026, 10, 3, 15, 0, tzinfo=UTC)],
    ids=["half an hour twice", "half an hour missing"],
)
async def test_summer_time_moves_no_due_time(
    tmp_path: Path, make: EngineFactory, monkeypatch: pytest.MonkeyPatch, start: datetime
) -> None:
    """Due: where clocks are moved by half an hour, each operation runs once, at its time."""
    monkeypatch.setenv("TZ", "Australia/Lord_Howe")
    time.tzset()
    rig = Rig(tmp_path, make, start=start, settings="[retry]\nretry_delay_seconds = 4050.0\n")
    works = rig.add(*(f"case-{n}" for n in range(8)))
    for work in works:
        await rig.fail_once(work)
        rig.clock.advance(450)
    async with at_work(rig):
        for work in works:
            rig.clock.advance(449.9)
            assert () == (await rig.tick()).begun
            rig.clock.advance(0.1)
            assert (work,) == (await rig.tick()).begun
            await rig.idle()
    monkeypatch.undo()
    time.tzset()
    assert [work.case_id for work in works] == rig.asked


async def test_a_clock_set_back_before_the_start_hides_nothing(
    tmp_path: Path, make: EngineFactory
) -> None:
    """Due: an engine that starts under a clock a day behind runs what waits within two delays."""
    rig = Rig(tmp_path, make)
    await rig.fail_once(*rig.add("a"))
    later = Rig(tmp_path, make)
    later.clock.set_back(86_400)
    async with at_work(later):
        await later.settle()
    assert ["a"] == later.asked
    assert later.clock.monotonic() <= 130.0


async def test_an_hour_of_standstill_is_made_up_for_once(
    tmp_path: Path, make: EngineFactory
) -> None:
    """Due: what became due while nobody worked is run when somebody does, once each."""
    rig = Rig(tmp_path, make, concurrency=8)
    names = [f"case-{n:03}" for n in range(500)]
    await rig.fail_once(*rig.add(*names))
    rig.clock.advance(3600)
    async with at_work(rig):
        await rig.settle()
    assert names == sorted(rig.asked)
