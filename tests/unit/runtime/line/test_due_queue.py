"""The queue hands out due work, one operation of a case at a time, and never spins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from casework.checkpoints.claims import Claim, Viewer, Wanted
from casework.checkpoints.index_rows import IndexCounts, IndexedOperation, Planned
from casework.checkpoints.records import NO_ROUTING, OperationStatus
from casework.gateway.clock import MANUAL_START, ManualClock
from casework.runtime.line.due_queue import (
    ELSEWHERE_SECONDS,
    POSTPONE_SECONDS_MIN,
    DueQueue,
    Pause,
    Taken,
)
from casework.runtime.line.work import Work

EPOCH = datetime(1970, 1, 1, tzinfo=MANUAL_START.tzinfo)


class ListedIndex:
    """An index that is a list."""

    def __init__(self, *rows: tuple[str, str, datetime], rounds: int = 0) -> None:
        self.rows = list(rows)
        self.rounds = rounds
        self.asked = 0
        self.ahead: list[IndexedOperation] = []
        self.hidden = False
        """Whether everything is in other workers' hands."""

    def due_for(self, viewer: Viewer, now: datetime, *, limit: int) -> Sequence[IndexedOperation]:
        self.asked += 1
        if self.hidden:
            return []
        assert "me" == viewer.worker
        found = sorted((row for row in self.rows if row[2] <= now), key=lambda row: row[2])
        return [indexed(*row, self.rounds) for row in found[:limit]]

    def ahead_for(self, viewer: Viewer, now: datetime, *, limit: int) -> Sequence[IndexedOperation]:
        del viewer, now, limit
        return self.ahead

    def due_between(self, first: datetime, last: datetime) -> int:
        return sum(first <= row[2] < last for row in self.rows)

    def counts(self) -> IndexCounts:
        return IndexCounts(len(self.rows), {}, {}, {})

    def operations(self, case_id: str) -> Sequence[IndexedOperation]:
        return [indexed(*row) for row in self.rows if row[0] == case_id]


def indexed(case_id: str, operation_id: str, due_at: datetime, rounds: int = 0) -> IndexedOperation:
    return IndexedOperation(
        case_id=case_id,
        package_id="p",
        ophash=f"{case_id}/{operation_id}",
        operation_id=operation_id,
        analysis_revision=1,
        status=OperationStatus.RETRY_PENDING if rounds else None,
        planned=None if rounds else Planned.READY,
        due_at=due_at,
        routing=NO_ROUTING,
        error_code=None,
        rounds_completed=rounds,
        rounds_max=None,
        resumed_from=None,
    )


class ListedClaims:
    """Claims that are granted, unless somebody else has the case."""

    def __init__(self, **others: str) -> None:
        self.others = others
        self.ran_out: dict[str, str] = {}
        self.mine: set[str] = set()

    def viewer(self) -> Viewer:
        return Viewer("me", 0.0)

    def take(self, wanted: Iterable[Wanted], *, release: Sequence[str]) -> dict[str, str | None]:
        self.release(release)
        taken = {
            w.case_id: self.ran_out.get(w.case_id) for w in wanted if w.case_id not in self.others
        }
        self.mine |= set(taken)
        return taken

    def release(self, case_ids: Sequence[str]) -> None:
        self.mine -= set(case_ids)

    def of_others(self) -> list[Claim]:
        return [Claim(case_id, worker, 99.0) for case_id, worker in self.others.items()]

    def drop_dead(self) -> bool:
        return False


class Queue(DueQueue):
    """A queue that is asked for one piece of work at a time."""

    def one(self) -> Work | Pause:
        taken, pause = self.take(1)
        return taken[0].work if taken else pause


def queue_of(
    index: ListedIndex, clock: ManualClock, *cases: str, claims: ListedClaims | None = None
) -> Queue:
    return Queue(
        index,
        clock,
        claimant=claims or ListedClaims(),
        operations=["op", "next"],
        cases=cases,
    )


def test_a_case_is_worked_on_once_at_a_time() -> None:
    """The second operation of a case waits until the first is let go."""
    index = ListedIndex(("a", "op", EPOCH), ("a", "next", EPOCH))
    queue = queue_of(index, ManualClock())
    first = queue.one()
    assert Work("a", "p", "op") == first
    assert queue.one() == Pause(None)
    index.rows.pop(0)
    queue.done(first)
    assert Work("a", "p", "next") == queue.one()


def test_an_operation_due_later_does_not_stop_another_of_its_case() -> None:
    """Work that waits for its next round leaves the case free for other work."""
    later = MANUAL_START + timedelta(hours=1)
    queue = queue_of(ListedIndex(("a", "op", later), ("a", "next", EPOCH)), ManualClock())
    assert Work("a", "p", "next") == queue.one()


def test_nothing_due_tells_how_long_to_wait() -> None:
    """The pause lasts until the next due time."""
    index = ListedIndex(("a", "op", MANUAL_START + timedelta(seconds=90)))
    assert Pause(90.0) == queue_of(index, ManualClock()).one()


def test_an_empty_index_has_nothing_to_wait_for() -> None:
    """Without work and without due times there is no pause to sit out."""
    assert Pause(None) == queue_of(ListedIndex(), ManualClock()).one()


def test_postponed_work_rests_at_least_a_moment_and_comes_back() -> None:
    """Work postponed by no time at all still rests, so that a loop cannot spin on it."""
    clock = ManualClock()
    queue = queue_of(ListedIndex(("a", "op", EPOCH)), clock)
    work = queue.one()
    assert isinstance(work, Work)
    queue.postpone(work, 0.0)
    assert Pause(POSTPONE_SECONDS_MIN, postponed=True) == queue.one()
    clock.advance(POSTPONE_SECONDS_MIN)
    assert work == queue.one()


def test_work_given_up_is_not_handed_out_again() -> None:
    """What this queue gave up is left alone, and other cases go on."""
    queue = queue_of(ListedIndex(("a", "op", EPOCH), ("b", "op", EPOCH)), ManualClock())
    work = queue.one()
    assert isinstance(work, Work)
    queue.give_up(work)
    assert Work("b", "p", "op") == queue.one()
    assert Pause(None) == queue.one()


def test_work_of_other_pipelines_is_left_and_does_not_starve_ours() -> None:
    """Ours is found behind any number of due operations that nobody here knows."""
    foreign = [(f"x{n:04}", "theirs", EPOCH) for n in range(1000)]
    index = ListedIndex(*foreign, ("a", "op", MANUAL_START))
    assert Work("a", "p", "op") == queue_of(index, ManualClock()).one()


def test_a_later_campaign_belongs_to_its_operation() -> None:
    """``op@2`` is work of ``op``."""
    queue = queue_of(ListedIndex(("a", "op@2", EPOCH)), ManualClock())
    assert Work("a", "p", "op@2") == queue.one()


def test_only_the_cases_chosen_are_worked_on() -> None:
    """Chosen cases are taken in their due order, others never."""
    index = ListedIndex(
        ("a", "op", EPOCH), ("b", "op", MANUAL_START), ("c", "op", EPOCH + timedelta(days=1))
    )
    queue = queue_of(index, ManualClock(), "b", "c")
    assert [Work("c", "p", "op"), Work("b", "p", "op")] == [queue.one(), queue.one()]
    assert Pause(None) == queue.one()


def test_a_thousand_cases_cost_few_questions() -> None:
    """The index is asked once for many cases, not once for each."""
    index = ListedIndex(*((f"c{n:04}", "op", EPOCH) for n in range(1000)))
    queue = queue_of(index, ManualClock())
    for _ in range(1000):
        work = queue.one()
        assert isinstance(work, Work)
        index.rows = [row for row in index.rows if row[0] != work.case_id]
        queue.done(work)
    assert 10 > index.asked


def test_an_empty_queue_is_planned_again_before_it_is_believed() -> None:
    """Work that another pipeline's run took back is found again, not forgotten."""
    index = ListedIndex()

    def replan() -> None:
        index.rows = [("a", "op", EPOCH)]

    queue = Queue(index, ManualClock(), claimant=ListedClaims(), operations=["op"], replan=replan)
    assert Work("a", "p", "op") == queue.one()


def test_several_cases_are_claimed_at_once_and_only_as_many_as_asked_for() -> None:
    """The queue hands out as much as there is room for, one operation of a case."""
    rows = [(f"c{n}", op, EPOCH) for n in range(3) for op in ("op", "next")]
    claims = ListedClaims()
    queue = queue_of(ListedIndex(*rows), ManualClock(), claims=claims)
    taken, pause = queue.take(2)
    assert (["c0", "c1"], Pause(None)) == ([t.work.case_id for t in taken], pause)
    assert {"c0", "c1"} == claims.mine
    rest, _ = queue.take(5)
    assert ["c2"] == [t.work.case_id for t in rest]


def test_what_others_hold_is_looked_at_again_soon() -> None:
    """Due work in another worker's hands is no reason to end, and none to spin."""
    index = ListedIndex(("a", "op", EPOCH))
    claims = ListedClaims(a="other")
    queue = queue_of(index, ManualClock(), claims=claims)
    assert Pause(ELSEWHERE_SECONDS, postponed=False, elsewhere=1) == _nothing(queue, index)
    claims.others.clear()
    index.hidden = False
    assert Work("a", "p", "op") == queue.one()


def _nothing(queue: Queue, index: ListedIndex) -> Work | Pause:
    """Ask for work while the index, as the real one does, hides what others hold."""
    index.hidden = True
    return queue.one()


def test_taken_over_work_tells_from_whom() -> None:
    """Whose claim has run out is told, since that worker may still hold the lock."""
    claims = ListedClaims()
    claims.ran_out["a"] = "frozen"
    queue = queue_of(ListedIndex(("a", "op", EPOCH)), ManualClock(), claims=claims)
    assert [Taken(Work("a", "p", "op"), "frozen")] == queue.take(1)[0]


def test_a_cancelled_operation_is_not_handed_out_until_it_is_wanted_again() -> None:
    """Cancelling while it runs lets it run, and keeps it from being begun again."""
    queue = queue_of(ListedIndex(("a", "op", EPOCH)), ManualClock())
    work = queue.one()
    assert isinstance(work, Work)
    queue.cancel(work)
    assert Pause(None) == queue.one()
    queue.done(work)
    assert Pause(None) == queue.one()
    queue.want_again(work)
    assert work == queue.one()


def test_a_clock_that_was_set_back_does_not_hide_work() -> None:
    """What ran in the future is offered although its due time lies far ahead."""
    index = ListedIndex(("a", "op", MANUAL_START + timedelta(days=1)))
    index.ahead = [indexed("a", "op", MANUAL_START + timedelta(days=1), rounds=1)]
    assert Work("a", "p", "op") == queue_of(index, ManualClock()).one()


def test_retries_of_one_second_are_spread_and_none_comes_early() -> None:
    """Five hundred retries that are due together begin over seconds, each after its due time."""
    clock = ManualClock()
    index = ListedIndex(*((f"c{n:03}", "op", MANUAL_START) for n in range(500)), rounds=1)
    queue = queue_of(index, clock)
    starts: list[float] = []
    while index.rows:
        taken, pause = queue.take(64)
        for one in taken:
            starts.append(clock.monotonic())
            queue.done(one.work)
        done = {one.work.case_id for one in taken}
        index.rows = [row for row in index.rows if row[0] not in done]
        if not taken:
            clock.advance(pause.seconds or 0.1)
    assert 500 == len(starts)
    per_second = Counter(int(start) for start in starts)
    assert 5.1 > max(starts)
    assert 150 > max(per_second.values())


def test_few_retries_of_one_second_are_not_put_off() -> None:
    """A hundred retries in a second are begun at their due time."""
    index = ListedIndex(*((f"c{n:03}", "op", MANUAL_START) for n in range(100)), rounds=1)
    taken, _ = queue_of(index, ManualClock()).take(100)
    assert 100 == len(taken)
