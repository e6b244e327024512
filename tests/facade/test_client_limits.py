"""No client asks more often than it may, and none is refused without need."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.facade.client_keys import ANONYMOUS, Client, RequestLimits
from casework.facade.client_limits import BUSY_SECONDS, ClientLimits, Entered, LimitName, OverLimit
from casework.gateway.clock import ManualClock


def client(
    label: str = "web",
    *,
    minute: int | None = None,
    day: int | None = None,
    at_once: int | None = None,
) -> Client:
    """Return a client with limits."""
    limits = RequestLimits(
        requests_per_minute=minute, requests_per_day=day, concurrency_max=at_once
    )
    return Client(label=label, limits=limits)


def entered(limits: ClientLimits, who: Client, number: int = 1) -> list[Entered]:
    """Let a client ask so many times, each of which is allowed."""
    found = [limits.enter(who) for _ in range(number)]
    assert all(isinstance(one, Entered) for one in found)
    return [one for one in found if isinstance(one, Entered)]


def test_no_sixty_seconds_see_more_than_the_limit_of_a_minute() -> None:
    """The next one may ask when the first one is sixty seconds ago."""
    clock = ManualClock()
    limits, who = ClientLimits(clock), client(minute=2)
    entered(limits, who)
    clock.advance(20)
    entered(limits, who)
    clock.advance(15)
    assert OverLimit(LimitName.MINUTE, 25.0) == limits.enter(who)
    clock.advance(25)
    entered(limits, who)
    assert OverLimit(LimitName.MINUTE, 20.0) == limits.enter(who)


@pytest.mark.parametrize("jump", [-3600.0, 3600.0])
def test_a_clock_that_is_set_gives_no_second_minute(jump: float) -> None:
    """Time that passes counts, not what the clock says."""
    clock = ManualClock()
    limits, who = ClientLimits(clock), client(minute=1)
    entered(limits, who)
    clock.set_back(jump)
    assert OverLimit(LimitName.MINUTE, 60.0) == limits.enter(who)


def test_a_day_is_one_of_the_calendar() -> None:
    """It ends at midnight UTC, and the next one begins with nothing."""
    clock = ManualClock(datetime(2026, 5, 4, 22, 59, 30, tzinfo=UTC))
    limits, who = ClientLimits(clock), client(day=3)
    entered(limits, who, 3)
    assert OverLimit(LimitName.DAY, 3630.0) == limits.enter(who)
    clock.advance(3630)
    entered(limits, who, 3)
    assert OverLimit(LimitName.DAY, 86_400.0) == limits.enter(who)


def test_a_clock_that_is_set_back_over_midnight_takes_the_count_along() -> None:
    """And once it passes midnight again, the day is a new one."""
    clock = ManualClock(datetime(2026, 5, 4, 0, 10, tzinfo=UTC))
    limits, who = ClientLimits(clock), client(day=1)
    entered(limits, who)
    clock.set_back(1200)
    assert OverLimit(LimitName.DAY, 600.0) == limits.enter(who)
    clock.advance(600)
    entered(limits, who)


def test_leaving_frees_the_place_once() -> None:
    """However often it is said."""
    limits, who = ClientLimits(ManualClock()), client(at_once=2)
    first, _ = entered(limits, who, 2)
    assert OverLimit(LimitName.CONCURRENCY, BUSY_SECONDS) == limits.enter(who)
    first.leave()
    first.leave()
    entered(limits, who)
    assert OverLimit(LimitName.CONCURRENCY, BUSY_SECONDS) == limits.enter(who)


def test_what_is_refused_does_not_count() -> None:
    """A client that hammers gets its turn as soon as one that waits."""
    clock = ManualClock()
    limits, who = ClientLimits(clock), client(minute=1, day=2, at_once=1)
    entered(limits, who)[0].leave()
    refused = [limits.enter(who) for _ in range(100)]
    assert {OverLimit(LimitName.MINUTE, 60.0)} == set(refused)
    clock.advance(60)
    entered(limits, who)


def test_of_several_limits_the_one_that_opens_last_is_told() -> None:
    """Coming back before would be in vain."""
    clock = ManualClock(datetime(2026, 5, 4, 23, 59, 30, tzinfo=UTC))
    limits, who = ClientLimits(clock), client(minute=1, day=1, at_once=1)
    entered(limits, who)
    assert OverLimit(LimitName.MINUTE, 60.0) == limits.enter(who)
    early = ClientLimits(clock)
    clock.set_back(3600)
    entered(early, who)
    assert OverLimit(LimitName.DAY, 3630.0) == early.enter(who)


def test_each_client_has_its_own_count() -> None:
    """By its label; and who has no limits is never counted."""
    limits = ClientLimits(ManualClock())
    entered(limits, client("a", at_once=1))
    entered(limits, client("b", at_once=1))
    assert isinstance(limits.enter(client("a", at_once=1)), OverLimit)
    free = entered(limits, ANONYMOUS, 1000)
    assert 1 == len(set(map(id, free)))
    free[0].leave()


def test_memory_is_bounded_by_the_limit() -> None:
    """A client that asks for weeks leaves as many times behind as its minute allows."""
    clock = ManualClock()
    limits, who = ClientLimits(clock), client(minute=5)
    for _ in range(1000):
        entered(limits, who)[0].leave()
        clock.advance(12)
    assert [5] == [len(asked.recent) for asked in limits._asked.values()]


STEPS = st.lists(
    st.one_of(st.just("ask"), st.just("leave"), st.integers(0, 70).map(float)), max_size=60
)


@given(STEPS, st.integers(1, 4), st.integers(1, 3), st.integers(1, 12))
def test_a_request_is_refused_if_and_only_if_a_limit_is_reached(
    steps: list[str | float], minute: int, at_once: int, day: int
) -> None:
    """Whatever the course of asking, leaving and waiting."""
    clock = ManualClock(datetime(2026, 5, 4, 23, 50, tzinfo=UTC))
    limits, who = ClientLimits(clock), client(minute=minute, day=day, at_once=at_once)
    asked: list[tuple[float, datetime]] = []
    inside: list[Entered] = []
    for step in steps:
        if isinstance(step, float):
            clock.advance(step)
        elif step == "leave":
            if inside:
                inside.pop(0).leave()
        else:
            recent = sum(at > clock.monotonic() - 60 for at, _ in asked)
            today = sum(at.date() == clock.now().date() for _, at in asked)
            allowed = recent < minute and today < day and len(inside) < at_once
            found = limits.enter(who)
            assert allowed is isinstance(found, Entered)
            if isinstance(found, Entered):
                asked.append((clock.monotonic(), clock.now()))
                inside.append(found)
            else:
                assert 0 < found.seconds <= 86_400
