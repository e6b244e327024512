"""The clock of processes that stay: APScheduler, and only as a clock.

It keeps no work. What is due stands in the index; a tick only says "look again".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC
from typing import Any, Final

_NEVER_SKIP: Final[dict[str, Any]] = {
    # By default a tick that comes a second late is dropped in silence.
    "misfire_grace_time": None,
    "coalesce": True,
    "max_instances": 1,
}


@contextmanager
def ticking(call: Callable[[], None], seconds: float) -> Iterator[None]:
    """Call something every so many seconds on the running event loop while the context lasts.

    Args:
        call: Takes note of the tick and returns at once; long work is done elsewhere, since the end
            of the context cancels what a tick has begun.
        seconds: How often. Ticks that a busy loop has missed are made up for by one.
    """
    from apscheduler.schedulers.asyncio import AsyncIOScheduler  # noqa: PLC0415 - needed by few

    async def tick() -> None:  # a coroutine is run on the loop, a function would get a thread
        call()

    scheduler = AsyncIOScheduler(timezone=UTC, job_defaults=_NEVER_SKIP)
    scheduler.add_job(tick, "interval", seconds=seconds)
    scheduler.start()
    try:
        yield
    finally:
        scheduler.shutdown(wait=False)
