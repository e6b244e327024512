"""Time as an argument: a clock, its double, and the one deadline a call is given."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol


class Clock(Protocol):
    """Tell the time and wait."""

    def now(self) -> datetime:
        """Return the wall-clock time, aware, in UTC; it may jump either way."""

    def monotonic(self) -> float:
        """Return seconds that only ever grow; their zero means nothing."""

    async def sleep(self, seconds: float) -> None:
        """Wait for so many seconds."""


_BOOT_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", None)
"""Counts the time a laptop sleeps too; not every system has it."""


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """Return the wall-clock time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the machine's monotonic seconds, sleep included where the system counts it."""
        return time.monotonic() if _BOOT_CLOCK is None else time.clock_gettime(_BOOT_CLOCK)

    async def sleep(self, seconds: float) -> None:
        """Wait on the running event loop."""
        await asyncio.sleep(max(seconds, 0.0))


MANUAL_START: Final = datetime(2026, 1, 1, 10, 0, tzinfo=UTC)


class ManualClock:
    """A clock that moves only when told, for tests and simulations.

    ``sleep`` moves both clocks at once and yields to the loop. ``set_back`` moves the wall clock
    alone, as an administrator or a bad time server would.
    """

    def __init__(self, start: datetime = MANUAL_START) -> None:
        self._now = start
        self._monotonic = 0.0

    def now(self) -> datetime:
        """Return the wall-clock time as set."""
        return self._now

    def monotonic(self) -> float:
        """Return the seconds advanced so far."""
        return self._monotonic

    async def sleep(self, seconds: float) -> None:
        """Advance at once by so many seconds."""
        self.advance(max(seconds, 0.0))
        await asyncio.sleep(0)

    def advance(self, seconds: float) -> None:
        """Let so many seconds pass on both clocks.

        Raises:
            ValueError: The number is negative; see :meth:`set_back`.
        """
        if seconds < 0:
            raise ValueError("time passes forward only")
        self._now += timedelta(seconds=seconds)
        self._monotonic += seconds

    def set_back(self, seconds: float) -> None:
        """Set the wall clock back (or, with a negative number, forward); no time passes."""
        self._now -= timedelta(seconds=seconds)


_STEADY_ZERO: Final = datetime(1970, 1, 1, tzinfo=UTC)


def steady_time(clock: Clock) -> datetime:
    """Return the monotonic time as a moment, which all processes share and nobody can set.

    As a date it means nothing; only what lies between two of them does.
    """
    return _STEADY_ZERO + timedelta(seconds=clock.monotonic())


@dataclass(frozen=True, slots=True)
class Deadline:
    """The moment by which a call must have ended, passed down to everything that waits."""

    clock: Clock
    at_monotonic: float

    @classmethod
    def after(cls, seconds: float, clock: Clock) -> Deadline:
        """Make the deadline that lies so many seconds ahead."""
        return cls(clock, clock.monotonic() + seconds)

    def remaining(self) -> float:
        """Return the seconds left, never negative."""
        return max(self.at_monotonic - self.clock.monotonic(), 0.0)

    @property
    def passed(self) -> bool:
        """Tell whether no time is left."""
        return self.remaining() <= 0.0
