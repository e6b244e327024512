"""How often each client may ask: by the minute, by the day and at once, in this process."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from typing import Final

from casework.facade.client_keys import NO_LIMITS, Client, RequestLimits
from casework.gateway.clock import Clock

MINUTE_SECONDS: Final = 60.0

BUSY_SECONDS: Final = 1.0
"""What a client is told to wait for another of its requests to end; nobody knows how long."""


class LimitName(StrEnum):
    """Which limit of a client is reached."""

    MINUTE = "requests_per_minute"
    DAY = "requests_per_day"
    CONCURRENCY = "max_concurrency"


@dataclass(frozen=True, slots=True)
class OverLimit:
    """The client may not ask now."""

    limit: LimitName
    seconds: float
    """When it may be worth asking again, more than 0."""


class Entered:
    """A request of a client that is under way; leaving frees its place, once."""

    __slots__ = ("_asked",)

    def __init__(self, asked: _Asked | None) -> None:
        self._asked = asked

    def leave(self) -> None:
        """Free the place; a second time does nothing."""
        if self._asked is not None:
            self._asked.at_once -= 1
            self._asked = None


@dataclass(slots=True)
class _Asked:
    """What one client has asked so far."""

    recent: deque[float] = field(default_factory=deque)
    """When, in monotonic seconds: the newest, as many as the limit of a minute allows."""
    day: date = date.min
    today: int = 0
    at_once: int = 0

    def turn_to(self, day: date) -> None:
        """Begin a new day; one that comes back because a clock was set takes over the count."""
        if day > self.day:
            self.today = 0
        self.day = day


class ClientLimits:
    """Counts the requests of each client of this process.

    What is refused does not count. A minute is any sixty seconds of time that passes, whatever is
    done to the clock; a day is one of the calendar in UTC.

    Args:
        clock: The time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._asked: dict[str, _Asked] = {}

    def enter(self, client: Client) -> Entered | OverLimit:
        """Count a request and hold its place until it leaves, or tell that it is over a limit."""
        limits = client.limits
        if limits == NO_LIMITS:
            return _FREE
        asked = self._asked.get(client.label)
        if asked is None:
            asked = self._asked[client.label] = _Asked()
        over = self._over(limits, asked)
        if over is not None:
            return over
        if limits.requests_per_minute is not None:
            asked.recent.append(self._clock.monotonic())
            while len(asked.recent) > limits.requests_per_minute:
                asked.recent.popleft()
        asked.today += 1
        asked.at_once += 1
        return Entered(asked)

    def _over(self, limits: RequestLimits, asked: _Asked) -> OverLimit | None:
        """Return the limit that is reached, of several the one that opens last."""
        over: list[OverLimit] = []
        minute, day, at_once = (
            limits.requests_per_minute,
            limits.requests_per_day,
            limits.concurrency_max,
        )
        if minute is not None and len(asked.recent) >= minute:
            wait = asked.recent[-minute] + MINUTE_SECONDS - self._clock.monotonic()
            if wait > 0:
                over.append(OverLimit(LimitName.MINUTE, wait))
        if day is not None:
            now = self._clock.now()
            asked.turn_to(now.date())
            if asked.today >= day:
                over.append(OverLimit(LimitName.DAY, _left_of_day(now)))
        if at_once is not None and asked.at_once >= at_once:
            over.append(OverLimit(LimitName.CONCURRENCY, BUSY_SECONDS))
        return max(over, key=lambda one: one.seconds, default=None)


def _left_of_day(now: datetime) -> float:
    tomorrow = datetime.combine(now.date() + timedelta(days=1), time(), UTC)
    return (tomorrow - now).total_seconds()


_FREE: Final = Entered(None)
