"""The gate of a project: slots in this process, counts with all others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime

from casework.config.limits import ProviderLimits
from casework.config.providers import ProviderConfig
from casework.gateway.call_gate import AtLimit
from casework.gateway.clock import Clock, steady_time
from casework.runtime.line.line_state import LineState

SECONDS_MIN = 0.05
"""The least time after which a provider at its limit is looked at again."""


class LineGate:
    """Counts calls and keeps providers within their limits.

    A call waits for a slot where ``max_concurrency`` are in flight; each of those ends at its own
    deadline. Where a limit by the minute or the day is reached, it is refused at once.

    Args:
        state: Where calls are counted, together with other processes.
        clock: The time.
    """

    def __init__(self, state: LineState, clock: Clock) -> None:
        self._state = state
        self._clock = clock
        self._slots: dict[str, asyncio.Semaphore] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def bounds(self, provider: ProviderConfig) -> bool:
        """Tell whether the provider's entry names limits."""
        return provider.limits is not None

    @asynccontextmanager
    async def call(self, provider: ProviderConfig) -> AsyncIterator[AtLimit | None]:
        """Surround one call, which waits for a slot and is counted, or is refused."""
        limits = provider.limits
        if limits is None:
            yield None
            return
        async with AsyncExitStack() as held:
            if limits.max_concurrency is not None:
                await held.enter_async_context(self._slot(provider.id, limits.max_concurrency))
            yield await self._counted(provider.id, limits)

    async def _counted(self, provider: str, limits: ProviderLimits) -> AtLimit | None:
        if not counts_calls(limits):
            return None
        now, steady = self._clock.now(), steady_time(self._clock)
        closed = await asyncio.to_thread(
            self._state.count_call, provider, limits, now=now, steady=steady
        )
        return None if closed is None else AtLimit(seconds_until(closed.opens_at, now))

    def _slot(self, provider: str, most: int) -> asyncio.Semaphore:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._slots = loop, {}
        return self._slots.setdefault(provider, asyncio.Semaphore(most))


def counts_calls(limits: ProviderLimits | None) -> bool:
    """Tell whether calls under these limits have to be counted."""
    return limits is not None and (
        limits.requests_per_minute is not None or limits.requests_per_day is not None
    )


def seconds_until(moment: datetime, now: datetime) -> float:
    """Return the wait until a limit opens."""
    return max((moment - now).total_seconds(), SECONDS_MIN)


def earliest_opening(
    state: LineState, providers: Iterable[ProviderConfig], *, clock: Clock
) -> float | None:
    """Return when the first of some providers may be called, in seconds; None if one may now."""
    now, steady = clock.now(), steady_time(clock)
    waits: list[float] = []
    for provider in providers:
        limits = provider.limits
        if limits is None or not counts_calls(limits):
            return None
        closed = state.closed(provider.id, limits, now=now, steady=steady)
        if closed is None:
            return None
        waits.append(seconds_until(closed.opens_at, now))
    return min(waits, default=None)
