"""An event loop whose time jumps when everybody waits, and which does the work of threads itself.

So a run of the whole line depends on its seed alone, takes no time, and can be played again.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Protocol

from casework.gateway.clock import ManualClock


class Stoppable(Protocol):
    """Somebody who can stand still."""

    frozen: bool

    def when_thawed(self, call: Callable[[], None]) -> None:
        """Call something as soon as it moves again."""


CURRENT: ContextVar[Stoppable | None] = ContextVar("current", default=None)
"""Whose code runs, so that what a frozen process would do in a thread waits until it is thawed."""


class VirtualClock(ManualClock):
    """A manual clock that the loop moves; sleeping waits on the loop."""

    async def sleep(self, seconds: float) -> None:
        """Wait in virtual time."""
        loop = asyncio.get_running_loop()
        passed: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(max(seconds, 0.0), _pass, passed)
        try:
            await passed
        finally:
            timer.cancel()


def _pass(passed: asyncio.Future[None]) -> None:
    if not passed.done():
        passed.set_result(None)


class _JumpingSelector(selectors.SelectSelector):
    """Instead of waiting, lets the time pass."""

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__()
        self._clock = clock

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Look at the sockets without waiting, and move the clock by what was to be waited for."""
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise AssertionError("everybody waits for something that never comes")
            self._clock.advance(timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in virtual time.

    Args:
        clock: Shows the time of the loop.
    """

    def __init__(self, clock: VirtualClock) -> None:
        super().__init__(_JumpingSelector(clock))
        self._virtual = clock

    def time(self) -> float:
        """Return the virtual monotonic time."""
        return self._virtual.monotonic()

    def run_in_executor(
        self, executor: object, func: Callable[..., Any], *args: object
    ) -> asyncio.Future[Any]:
        """Do the work now, or as soon as whoever asks for it moves again."""
        future: asyncio.Future[Any] = self.create_future()

        def work() -> None:
            if future.cancelled():
                return
            try:
                future.set_result(func(*args))
            except BaseException as error:  # noqa: BLE001 - handed to whoever waits
                future.set_exception(error)

        whose = CURRENT.get()
        if whose is not None and whose.frozen:
            whose.when_thawed(work)
        else:
            work()
        return future
