"""The rule that tells an outage from poisoned cases, and how the line comes back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from casework.runtime.line.outage import LinePhase, OutageRule, OutageWatch
from casework.runtime.line.work import WorkKey

EVEN = 0.5


def op(number: int) -> WorkKey:
    """Return the only operation of a case."""
    return (f"case-{number}", "extract")


def watch(*, concurrency: int = 8, **numbers: float) -> OutageWatch:
    """Return a watch under the usual rule, some numbers changed."""
    return OutageWatch(OutageRule(**numbers), concurrency=concurrency)  # type: ignore[arg-type]


def fail(line: OutageWatch, *numbers: int, now: float = 0.0) -> None:
    """Let rounds of these cases end unavailable."""
    for number in numbers:
        line.unavailable(op(number), now=now, chance=EVEN)


def answer(line: OutageWatch, *numbers: int, now: float = 0.0) -> None:
    """Let rounds of these cases be answered."""
    for number in numbers:
        line.answered(op(number), now=now, chance=EVEN)


def is_paused(line: OutageWatch) -> bool:
    """Tell whether only canaries are let through."""
    return line.phase is LinePhase.PAUSED


def test_three_cases_in_a_row_pause_the_line() -> None:
    """The third case that finds nobody closes the line, the second does not."""
    line = watch()
    fail(line, 1, 2)
    assert not is_paused(line)
    fail(line, 3, now=7.0)
    assert is_paused(line)
    assert 0 == line.room(0, 7.0)


def test_the_numbers_of_the_rule_take_effect() -> None:
    """Rounds and cases that are asked for are both waited for."""
    line = watch(failed_rounds=5, cases=2)
    fail(line, 1, 2, 1, 2)
    assert not is_paused(line)
    fail(line, 1)
    assert is_paused(line)
    patient = watch(failed_rounds=1, cases=4)
    fail(patient, 1, 2, 3, 3)
    assert patient.phase is LinePhase.OPEN


def test_one_case_alone_pauses_nothing() -> None:
    """However often one or two cases fail, the line stays open."""
    line = watch()
    fail(line, *([1, 2] * 50))
    assert line.phase is LinePhase.OPEN


def test_an_answer_in_between_is_no_outage() -> None:
    """Failures count in a row only."""
    line = watch()
    fail(line, 1, 2)
    answer(line, 3)
    fail(line, 4, 5)
    assert line.phase is LinePhase.OPEN


def test_poisoned_cases_are_no_outage() -> None:
    """Cases that failed while others were answered do not close the line by failing again."""
    line = watch()
    for number in range(10):
        fail(line, number)
        answer(line, 100 + number)
    for _ in range(9):
        fail(line, *range(10))
    assert line.phase is LinePhase.OPEN


def test_suspicion_ends_with_an_answer() -> None:
    """An operation that is answered counts again when it fails later."""
    line = watch()
    for number in (1, 2, 3):
        fail(line, number)
        answer(line, 100)
    answer(line, 1, 2, 3)
    fail(line, 1, 2, 3)
    assert line.phase is LinePhase.PAUSED


def test_the_run_up_is_forgiven() -> None:
    """What failed in an outage counts as evidence of the next one."""
    line = watch()
    fail(line, 1, 2, 3)
    fail(line, 4)
    answer(line, 5)
    fail(line, 1, 2, 4)
    assert line.phase is LinePhase.PAUSED


def test_canaries_go_one_by_one_and_less_and_less_often() -> None:
    """Each canary that fails doubles the wait, up to the cap."""
    line = watch(jitter=0.0)
    fail(line, 1, 2, 3)
    now, waits = 0.0, []
    for number in range(10, 18):
        waits.append(line.next_canary_at - now)
        assert not line.begin(op(number), line.next_canary_at - 0.1)
        now = line.next_canary_at
        assert 1 == line.room(0, now)
        assert line.begin(op(number), now)
        assert 0 == line.room(0, now)
        assert not line.begin(op(99), now)
        fail(line, number, now=now)
    assert [15.0, 30.0, 60.0, 120.0, 240.0, 480.0, 600.0, 600.0] == waits


def test_waits_are_jittered_and_never_shorter() -> None:
    """Chance lengthens a wait by its share and never shortens it."""
    ends = []
    for chance in (0.0, 1.0):
        line = watch()
        for number in (1, 2, 3):
            line.unavailable(op(number), now=0.0, chance=chance)
        ends.append(line.next_canary_at)
    assert [15.0, 18.0] == ends


def test_a_canary_that_tells_nothing_leaves_its_place() -> None:
    """A canary that asked nobody lets another one go at once."""
    line = watch()
    fail(line, 1, 2, 3)
    now = line.next_canary_at
    assert line.begin(op(4), now)
    line.let_go(op(4))
    assert line.begin(op(5), now)


def test_the_backlog_is_released_step_by_step() -> None:
    """After the first answer the room is one, two, four, until the line is open."""
    line = watch(concurrency=8)
    fail(line, 1, 2, 3)
    now = line.next_canary_at
    line.begin(op(4), now)
    answer(line, 4, now=now)
    rooms = []
    for step in range(3):
        rooms.append(line.room(0, now))
        if step:
            answer(line, *range(200, 200 + rooms[-1]), now=now)
            assert line.room(0, now) == rooms[-1]
        assert 1.0 == line.seconds_until_room(now)
        now += 1.0
    assert [1, 2, 4] == rooms
    assert 8 == line.room(0, now)
    assert line.phase is LinePhase.OPEN


def test_a_failure_halves_the_room_of_a_recovery() -> None:
    """Who comes back only half is asked by half as many."""
    line = watch(concurrency=64)
    line.pause(now=0.0, chance=EVEN)
    line.resume(now=0.0, chance=EVEN)
    assert 2 == line.room(0, 1.0)
    answer(line, 1, 2, now=1.0)
    assert 4 == line.room(0, 2.0)
    fail(line, 3, now=2.0)
    assert 2 == line.room(0, 2.0)


def test_an_outage_can_be_learnt_from_elsewhere() -> None:
    """Another process's pause and canary time are taken over."""
    line = watch()
    line.pause(now=5.0, chance=EVEN, next_canary_at=42.0)
    assert 37.0 == line.seconds_until_room(5.0)
    assert line.begin(op(1), 42.0)


EVENTS = st.lists(st.tuples(st.integers(0, 6), st.booleans(), st.floats(0, 700)), max_size=60)


@given(events=EVENTS, concurrency=st.integers(1, 16))
def test_the_line_never_gets_stuck(events: list[tuple[int, bool, float]], concurrency: int) -> None:
    """Whatever happened, waiting long enough gives room, and answers open the line again."""
    line = watch(concurrency=concurrency)
    now = 0.0
    for number, answered, seconds in events:
        now += seconds
        if line.begin(op(number), now):
            (answer if answered else fail)(line, number, now=now)
        assert line.canary is None
    for _ in range(100):
        now += 1000.0
        assert line.room(0, now) >= 1
        if line.phase is LinePhase.OPEN:
            break
        line.begin(op(0), now)
        answer(line, 0, now=now)
    assert line.phase is LinePhase.OPEN


@given(
    poisoned=st.sets(st.integers(0, 30), min_size=1, max_size=10),
    order=st.permutations(range(31)),
)
def test_what_failed_beside_answers_never_pauses(poisoned: set[int], order: list[int]) -> None:
    """Once every poisoned case has failed beside an answer, the tail never closes the line."""
    line = watch()
    for number in order:
        if number in poisoned:
            fail(line, number)
            answer(line, 1000)
        else:
            answer(line, number)
    for _ in range(5):
        fail(line, *sorted(poisoned))
    assert line.phase is LinePhase.OPEN
