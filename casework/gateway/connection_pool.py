"""Connections to servers: opened, kept for a few seconds, and chosen with care."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Final

from casework.gateway.clock import Deadline
from casework.gateway.host_addresses import HostAddresses, first_opened
from casework.gateway.http_connection import Answer, Connection, ConnectionBrokenError, Origin

CONNECTIONS_MAX: Final = 500
"""Most requests under way at once; further ones wait within their deadlines."""
IDLE_MAX: Final = 100
"""Most connections that are kept for later."""
IDLE_SECONDS: Final = 4.0
"""Longest time a connection is kept; the shortest that common servers keep theirs is five."""


class ConnectionPool:
    """The connections of one event loop.

    Args:
        tls: Gives what verifies servers, once one is to be verified.
    """

    def __init__(self, tls: Callable[[], ssl.SSLContext]) -> None:
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._slots = asyncio.Semaphore(CONNECTIONS_MAX)
        self._open: set[Connection] = set()
        self._idle: dict[Origin, list[Connection]] = {}
        self._idle_count = 0
        self._tidying: asyncio.TimerHandle | None = None
        self._hosts = HostAddresses()
        self._emptied: asyncio.Future[None] | None = None

    async def ask(
        self, origin: Origin, request: tuple[bytes, bytes], *, alone: bool, deadline: Deadline
    ) -> Answer:
        """Send one request and return its answer, of which nothing has come yet.

        Args:
            origin: Where to.
            request: Head and body as they go out.
            alone: The request gets a connection that serves no other one.
            deadline: By when a connection must be there.

        Raises:
            TimeoutError: There was none by then.
            OSError: None could be opened.
            UnicodeError: The name is none.
        """
        if deadline.passed:
            raise TimeoutError
        if alone or self._slots.locked() or (connection := self._kept(origin)) is None:
            async with asyncio.timeout(deadline.remaining()):
                await self._slots.acquire()
                try:
                    connection = None if alone else self._kept(origin)
                    connection = connection or await self._opened(origin)
                except BaseException:
                    self._slots.release()
                    raise
        else:
            await self._slots.acquire()
        return connection.ask(request, last=alone)

    async def aclose(self) -> None:
        """Close all connections, and with them what is still under way."""
        if self._tidying is not None:
            self._tidying.cancel()
        self._emptied = self._loop.create_future()
        for connection in tuple(self._open):
            connection.abort()
        if self._open:
            await self._emptied

    def ended(self, connection: Connection, *, kept: bool) -> None:
        """Keep a connection that has served, where there is room."""
        self._slots.release()
        if not kept:
            return
        if self._idle_count >= IDLE_MAX:
            connection.abort()
            return
        connection.idle_since = self._loop.time()
        self._idle.setdefault(connection.origin, []).append(connection)
        self._idle_count += 1
        if self._tidying is None:
            self._tidying = self._loop.call_later(IDLE_SECONDS, self._tidy)

    def lost(self, connection: Connection) -> None:
        """Forget a connection that is closed."""
        self._open.discard(connection)
        if not self._open and self._emptied is not None and not self._emptied.done():
            self._emptied.set_result(None)

    def _kept(self, origin: Origin) -> Connection | None:
        """Return a kept connection that may be used, the latest first; close what may not."""
        idle = self._idle.get(origin)
        while idle:
            connection = idle.pop()
            self._idle_count -= 1
            if connection.usable and self._loop.time() - connection.idle_since < IDLE_SECONDS:
                return connection
            connection.abort()
        return None

    def _tidy(self) -> None:
        """Close what has been kept long enough, or is closed already."""
        self._tidying = None
        earliest = self._loop.time() - IDLE_SECONDS
        kept: dict[Origin, list[Connection]] = {}
        self._idle_count = 0
        for origin, idle in self._idle.items():
            for connection in idle:
                if connection.usable and connection.idle_since > earliest:
                    kept.setdefault(origin, []).append(connection)
                    self._idle_count += 1
                else:
                    connection.abort()
        self._idle = kept
        if kept:
            self._tidying = self._loop.call_later(IDLE_SECONDS, self._tidy)

    async def _opened(self, origin: Origin) -> Connection:
        secured: dict[str, Any] = (
            {"ssl": self._tls(), "server_hostname": origin.host} if origin.tls else {}
        )

        async def connect(address: str) -> Connection:
            _, connection = await self._loop.create_connection(
                lambda: Connection(self, origin), address, origin.port, **secured
            )
            return connection

        addresses = await self._hosts.of(origin.host)
        connection = await first_opened(addresses, connect, drop=Connection.abort)
        if not connection.open or self._emptied is not None:
            connection.abort()
            raise ConnectionBrokenError
        self._open.add(connection)
        return connection
