"""Reading long bodies beside the event loop, so that nobody's stream waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

ASIDE_BYTES: Final = 16 * 1024
"""Bodies up to here are read at once: a thread would cost more than it saves."""


async def read_aside(read: Callable[[bytes], T], body: bytes) -> T:
    """Read a body, a long one in a thread.

    Args:
        read: Makes of the body what is wanted; shares nothing with others.
        body: As it came.
    """
    return await asyncio.to_thread(read, body) if len(body) > ASIDE_BYTES else read(body)
