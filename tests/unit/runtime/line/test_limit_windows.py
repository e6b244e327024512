"""Days begin where the zone's clocks say, and no minute sees too many calls."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.config.limits import DayReset, ProviderLimits
from casework.runtime.line.limit_windows import LimitKind, closed_until, day_of

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ZONES = ("UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Pacific/Apia")


def utc(*parts: int) -> datetime:
    """Return a moment in UTC."""
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type,misc]


def test_a_day_in_utc_is_a_day() -> None:
    """Without a zone, days begin at midnight UTC, and the reset belongs to the new one."""
    day = day_of(utc(2026, 5, 4, 0, 0), DayReset())
    assert (utc(2026, 5, 4), utc(2026, 5, 5)) == (day.begins_at, day.ends_at)


@pytest.mark.parametrize(
    ("zone", "moment", "hours"),
    [
        ("Europe/Berlin", utc(2026, 3, 29, 12), 23.0),
        ("Europe/Berlin", utc(2026, 10, 25, 12), 25.0),
        ("Australia/Lord_Howe", utc(2026, 4, 4, 20), 24.5),
        ("Australia/Lord_Howe", utc(2026, 10, 3, 20), 23.5),
        ("Pacific/Apia", utc(2011, 12, 30, 8), 24.0),
    ],
)
def test_both_changes_of_the_clocks_are_followed(zone: str, moment: datetime, hours: float) -> None:
    """The day of a change is shorter or longer by as much as the clocks jump."""
    day = day_of(moment, DayReset(time_zone=zone))
    assert timedelta(hours=hours) == day.ends_at - day.begins_at


def test_a_reset_in_the_skipped_hour_comes_later_that_day() -> None:
    """02:30 does not exist on that day in Berlin; the day begins at 03:30."""
    reset = DayReset(day_resets_at=time(2, 30), time_zone="Europe/Berlin")
    assert utc(2026, 3, 29, 1, 30) == day_of(utc(2026, 3, 29, 2), reset).begins_at


def test_a_reset_in_the_repeated_hour_comes_once() -> None:
    """02:30 exists twice on that day in Berlin; the first one counts."""
    reset = DayReset(day_resets_at=time(2, 30), time_zone="Europe/Berlin")
    day = day_of(utc(2026, 10, 25, 1, 45), reset)
    assert (utc(2026, 10, 25, 0, 30), utc(2026, 10, 26, 1, 30)) == (day.begins_at, day.ends_at)


@given(
    moment=st.integers(600_000_000, 2_100_000_000).map(lambda s: datetime.fromtimestamp(s, UTC)),
    zone=st.sampled_from(ZONES),
    at=st.times(timezones=st.none()),
)
def test_days_follow_each_other_without_gap(moment: datetime, zone: str, at: time) -> None:
    """Every moment lies in one day, and the next day begins where it ends."""
    reset = DayReset(day_resets_at=at, time_zone=zone)
    day = day_of(moment, reset)
    assert day.begins_at <= moment < day.ends_at
    assert day == day_of(day.begins_at, reset)
    assert day.ends_at == day_of(day.ends_at, reset).begins_at
    assert timedelta(hours=22) <= day.ends_at - day.begins_at <= timedelta(hours=26)


def test_the_limit_of_a_minute_opens_call_by_call() -> None:
    """The oldest call that still counts says when the next may be made."""
    limits = ProviderLimits(requests_per_minute=2)
    calls = [NOON - timedelta(seconds=s) for s in (50, 61, 10)]
    closed = closed_until(limits, now=NOON, recent=calls, today=0)
    assert closed is not None
    assert (LimitKind.MINUTE, NOON + timedelta(seconds=11)) == (closed.kind, closed.opens_at)
    assert closed_until(limits, now=closed.opens_at, recent=calls, today=0) is None


def test_the_limit_of_a_day_opens_at_its_reset() -> None:
    """A used-up day lasts until the provider's own midnight."""
    limits = ProviderLimits(requests_per_day=3, time_zone="America/New_York")
    assert closed_until(limits, now=NOON, recent=[], today=2) is None
    closed = closed_until(limits, now=NOON, recent=[], today=3)
    assert closed is not None
    assert (LimitKind.DAY, utc(2026, 1, 2, 5)) == (closed.kind, closed.opens_at)


def test_of_two_limits_the_later_one_counts() -> None:
    """It does not help that the minute opens while the day is used up."""
    limits = ProviderLimits(requests_per_minute=1, requests_per_day=1)
    closed = closed_until(limits, now=NOON, recent=[NOON], today=1)
    assert closed is not None
    assert LimitKind.DAY is closed.kind


@given(
    calls=st.lists(st.tuples(st.integers(0, 40_000), st.integers(0, 999)), min_size=1, max_size=60),
    most=st.integers(1, 8),
)
def test_no_minute_of_the_server_sees_more_calls_than_allowed(
    calls: list[tuple[int, int]], most: int
) -> None:
    """Whoever waits until the limit opens never exceeds it, however long calls are on their way."""
    limits = ProviderLimits(requests_per_minute=most)
    now, made, arrived = NOON, list[datetime](), list[datetime]()
    for gap, way in calls:
        now += timedelta(milliseconds=gap)
        closed = closed_until(limits, now=now, recent=made, today=0)
        if closed is not None:
            now = closed.opens_at
            assert closed_until(limits, now=now, recent=made, today=0) is None
        made.append(now)
        arrived.append(now + timedelta(milliseconds=way))
    minute = timedelta(minutes=1)
    for last in arrived:
        assert sum(last - minute < at <= last for at in arrived) <= most
