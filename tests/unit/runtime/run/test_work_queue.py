"""The queue hands out due work, one operation of a case at a time, and never spins."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from casework.checkpoints.index_rows import IndexedOperation, Planned
from casework.checkpoints.records import NO_ROUTING
from casework.gateway.clock import MANUAL_START, ManualClock
from casework.runtime.line.dispatcher import Work
from casework.runtime.run.work_queue import HOLD_SECONDS_MIN, Pause, WorkQueue

EPOCH = datetime(1970, 1, 1, tzinfo=MANUAL_START.tzinfo)


class ListedIndex:
    """An index that is a list."""

    def __init__(self, *rows: tuple[str, str, datetime]) -> None:
        self.rows = list(rows)
        self.asked = 0

    def due(self, now: datetime, limit: int = 1) -> Sequence[IndexedOperation]:
        self.asked += 1
        found = sorted((row for row in self.rows if row[2] <= now), key=lambda row: row[2])
        return [indexed(*row) for row in found[:limit]]

    def operations(self, case_id: str) -> Sequence[IndexedOperation]:
        return [indexed(*row) for row in self.rows if row[0] == case_id]


def indexed(case_id: str, operation_id: str, due_at: datetime) -> IndexedOperation:
    return IndexedOperation(
        case_id=case_id,
        package_id="p",
        ophash=f"{case_id}/{operation_id}",
        operation_id=operation_id,
        analysis_revision=1,
        status=None,
        planned=Planned.READY,
        due_at=due_at,
        routing=NO_ROUTING,
        error_code=None,
        rounds_completed=0,
        rounds_max=None,
        resumed_from=None,
    )


def queue_of(index: ListedIndex, clock: ManualClock, *cases: str) -> WorkQueue:
    return WorkQueue(index, clock, operations=["op", "next"], cases=cases)


def test_a_case_is_worked_on_once_at_a_time() -> None:
    """The second operation of a case waits until the first is let go."""
    index = ListedIndex(("a", "op", EPOCH), ("a", "next", EPOCH))
    queue = queue_of(index, ManualClock())
    first = queue.take()
    assert Work("a", "p", "op") == first
    assert queue.take() == Pause(None)
    index.rows.pop(0)
    queue.done(first)
    assert Work("a", "p", "next") == queue.take()


def test_an_operation_due_later_does_not_stop_another_of_its_case() -> None:
    """Work that waits for its next round leaves the case free for other work."""
    later = MANUAL_START + timedelta(hours=1)
    queue = queue_of(ListedIndex(("a", "op", later), ("a", "next", EPOCH)), ManualClock())
    assert Work("a", "p", "next") == queue.take()


def test_nothing_due_tells_how_long_to_wait() -> None:
    """The pause lasts until the next due time."""
    index = ListedIndex(("a", "op", MANUAL_START + timedelta(seconds=90)))
    assert Pause(90.0) == queue_of(index, ManualClock()).take()


def test_an_empty_index_has_nothing_to_wait_for() -> None:
    """Without work and without due times there is no pause to sit out."""
    assert Pause(None) == queue_of(ListedIndex(), ManualClock()).take()


def test_held_work_rests_at_least_a_moment_and_comes_back() -> None:
    """A hold of no time at all still rests, so that a loop cannot spin on it."""
    clock = ManualClock()
    queue = queue_of(ListedIndex(("a", "op", EPOCH)), clock)
    work = queue.take()
    assert isinstance(work, Work)
    queue.hold(work, 0.0)
    assert Pause(HOLD_SECONDS_MIN, held=True) == queue.take()
    clock.advance(HOLD_SECONDS_MIN)
    assert work == queue.take()


def test_work_given_up_is_not_handed_out_again() -> None:
    """What this session gave up is left alone, and other cases go on."""
    queue = queue_of(ListedIndex(("a", "op", EPOCH), ("b", "op", EPOCH)), ManualClock())
    work = queue.take()
    assert isinstance(work, Work)
    queue.give_up(work)
    assert Work("b", "p", "op") == queue.take()
    assert Pause(None) == queue.take()


def test_work_of_other_pipelines_is_left_and_does_not_starve_ours() -> None:
    """Ours is found behind any number of due operations that nobody here knows."""
    foreign = [(f"x{n:04}", "theirs", EPOCH) for n in range(1000)]
    index = ListedIndex(*foreign, ("a", "op", MANUAL_START))
    assert Work("a", "p", "op") == queue_of(index, ManualClock()).take()


def test_a_later_campaign_belongs_to_its_operation() -> None:
    """``op@2`` is work of ``op``."""
    queue = queue_of(ListedIndex(("a", "op@2", EPOCH)), ManualClock())
    assert Work("a", "p", "op@2") == queue.take()


def test_only_the_cases_chosen_are_worked_on() -> None:
    """Chosen cases are taken in their due order, others never."""
    index = ListedIndex(
        ("a", "op", EPOCH), ("b", "op", MANUAL_START), ("c", "op", EPOCH + timedelta(days=1))
    )
    queue = queue_of(index, ManualClock(), "b", "c")
    assert [Work("c", "p", "op"), Work("b", "p", "op")] == [queue.take(), queue.take()]
    assert Pause(None) == queue.take()


def test_a_thousand_cases_cost_few_questions() -> None:
    """The index is asked once for many cases, not once for each."""
    index = ListedIndex(*((f"c{n:04}", "op", EPOCH) for n in range(1000)))
    queue = queue_of(index, ManualClock())
    for _ in range(1000):
        work = queue.take()
        assert isinstance(work, Work)
        index.rows = [row for row in index.rows if row[0] != work.case_id]
        queue.done(work)
    assert 10 > index.asked


def test_an_empty_queue_is_planned_again_before_it_is_believed() -> None:
    """Work that another pipeline's run took back is found again, not forgotten."""
    index = ListedIndex()

    def replan() -> None:
        index.rows = [("a", "op", EPOCH)]

    queue = WorkQueue(index, ManualClock(), operations=["op"], replan=replan)
    assert Work("a", "p", "op") == queue.take()
