"""Find the addresses of a host, and take the first that answers."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Callable, Coroutine
from functools import partial
from itertools import chain, zip_longest
from typing import Any, Final, TypeVar

LOCALHOST: Final = ("127.0.0.1", "::1")
HOSTS_MAX: Final = 100
"""Most hosts whose addresses are remembered."""
BELIEVED_SECONDS: Final = 10.0
"""So long an address that was looked up is believed."""
HEAD_START_SECONDS: Final = 0.25
"""So long an address is tried before the next one is tried beside it."""

_Opened = TypeVar("_Opened")


class HostAddresses:
    """Looks hosts up, and remembers for a few seconds what it found."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, tuple[str, ...]]] = {}

    async def of(self, host: str) -> tuple[str, ...]:
        """Return the addresses of a host, asking nobody what ``localhost`` or a number is.

        Where there are addresses of both families, these take turns.

        Raises:
            OSError: It has none.
            UnicodeError: It is no name.
        """
        if host.lower() == "localhost":
            return LOCALHOST
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return await self._looked_up(host)
        return (host,)

    async def _looked_up(self, host: str) -> tuple[str, ...]:
        loop = asyncio.get_running_loop()
        until, known = self._known.get(host, (0.0, ()))
        if loop.time() < until:
            return known
        found = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        first = [str(info[4][0]) for info in found if info[0] is found[0][0]]
        second = [str(info[4][0]) for info in found if info[0] is not found[0][0]]
        turns = chain.from_iterable(zip_longest(first, second))
        addresses = tuple(address for address in turns if address is not None)
        if len(self._known) >= HOSTS_MAX:
            self._known.clear()
        self._known[host] = (loop.time() + BELIEVED_SECONDS, addresses)
        return addresses


async def first_opened(
    addresses: tuple[str, ...],
    connect: Callable[[str], Coroutine[Any, Any, _Opened]],
    *,
    drop: Callable[[_Opened], None],
) -> _Opened:
    """Connect to the first address that answers.

    Each is tried a moment after the one before it, or when that has failed.

    Args:
        addresses: In the order in which they are tried.
        connect: How.
        drop: What is done to a connection that came too late.

    Raises:
        OSError: None could be connected to. One that could not prove who it is counts for more
            than one that is not there.
    """
    if len(addresses) == 1:
        return await connect(addresses[0])
    waiting = list(reversed(addresses))
    running: set[asyncio.Task[_Opened]] = set()
    opened: list[_Opened] = []
    failures: list[BaseException] = []
    try:
        while not opened and (waiting or running):
            if waiting:
                running.add(asyncio.ensure_future(connect(waiting.pop())))
            done, running = await asyncio.wait(
                running,
                timeout=HEAD_START_SECONDS if waiting else None,
                return_when=asyncio.FIRST_COMPLETED,
            )
            for task in done:
                failure = task.exception()
                if failure is None:
                    opened.append(task.result())
                else:
                    failures.append(failure)
    finally:
        for task in running:
            task.add_done_callback(partial(_drop_opened, drop))
            task.cancel()
        for late in opened[1:]:
            drop(late)
    if opened:
        return opened[0]
    unproven = (one for one in failures if isinstance(one, ssl.SSLCertVerificationError))
    raise next(unproven, failures[0])


def _drop_opened(drop: Callable[[_Opened], None], task: asyncio.Task[_Opened]) -> None:
    """Drop what an attempt opened although nobody waited for it any more."""
    if not task.cancelled() and task.exception() is None:
        drop(task.result())
