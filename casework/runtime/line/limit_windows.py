"""Limits of calls by the minute and by the day, as arithmetic: no clock, no file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Final

from casework.config.limits import DayReset, ProviderLimits, zone_named

WINDOW: Final = timedelta(seconds=61)
"""How long a call counts for the limit of a minute. It reaches the server a little after it was
counted, and one of the next minute may be quicker on its way."""

_DAYS: Final = range(-2, 3)
"""Days around a moment among whose resets the last and the next one are."""


class LimitKind(StrEnum):
    """Which limit is reached."""

    MINUTE = "requests_per_minute"
    DAY = "requests_per_day"
    CONCURRENCY = "max_concurrency"


@dataclass(frozen=True, slots=True)
class Day:
    """One day of a provider or a budget: from one reset, which belongs to it, to the next."""

    begins_at: datetime
    ends_at: datetime


@dataclass(frozen=True, slots=True)
class Closed:
    """A limit is reached."""

    kind: LimitKind
    opens_at: datetime


def day_of(moment: datetime, reset: DayReset) -> Day:
    """Return the day that a moment belongs to.

    A reset that falls into an hour which the clocks skip comes as much later as they skip; one that
    falls into an hour which they repeat comes the first time.
    """
    zone = zone_named(reset.time_zone)
    date = moment.astimezone(zone).date()
    resets = {
        datetime.combine(date + timedelta(days=days), reset.day_resets_at, zone).astimezone(UTC)
        for days in _DAYS
    }
    return Day(
        max(reset_at for reset_at in resets if reset_at <= moment),
        min(reset_at for reset_at in resets if reset_at > moment),
    )


def closed_until(
    limits: ProviderLimits,
    *,
    now: datetime,
    recent: Sequence[datetime],
    today: int,
    steady: datetime | None = None,
) -> Closed | None:
    """Return which limit forbids another call now, the one that opens last; None if none does.

    Args:
        limits: The limits.
        now: The time.
        recent: When calls were counted, in steady time and any order; those before the window do
            no harm.
        today: How many calls the day that ``now`` belongs to has seen.
        steady: The time that nobody can set; that of ``now`` where no clock was ever set.
    """
    found = []
    if limits.requests_per_minute is not None:
        moment = steady or now
        calls = sorted(at for at in recent if moment - WINDOW < at <= moment)
        if len(calls) >= limits.requests_per_minute:
            opens_at = now + (calls[-limits.requests_per_minute] + WINDOW - moment)
            found.append(Closed(LimitKind.MINUTE, opens_at))
    if limits.requests_per_day is not None and today >= limits.requests_per_day:
        found.append(Closed(LimitKind.DAY, day_of(now, limits).ends_at))
    return max(found, key=lambda closed: closed.opens_at, default=None)
