"""Connections to servers: opened, kept for a few seconds, and chosen with care."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Final

import aiohappyeyeballs
from aiohappyeyeballs import AddrInfoType

from casework.gateway.clock import Deadline
from casework.gateway.http_connection import Answer, Connection, ConnectionBrokenError, Origin

CONNECTIONS_MAX: Final = 500
"""Most requests under way at once; further ones wait within their deadlines."""
IDLE_MAX: Final = 100
"""Most connections that are kept for later."""
IDLE_SECONDS: Final = 4.0
"""Longest time a connection is kept; the shortest that common servers keep theirs is five."""
LOCALHOST: Final = ("127.0.0.1", "::1")
NAMES_MAX: Final = 100
NAME_SECONDS: Final = 10.0
"""So long an address that was looked up is believed."""
SECOND_FAMILY_SECONDS: Final = 0.25
"""So long the first address alone is tried, where a name has several."""


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
        self._names: dict[tuple[str, int], tuple[float, Sequence[AddrInfoType]]] = {}
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
        if self._idle_count >= IDLE_MAX or self._emptied is not None:
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
        addresses = await self._addresses(origin)
        connection = Connection(self, origin)
        secured: dict[str, Any] = (
            {"ssl": self._tls(), "server_hostname": origin.host} if origin.tls else {}
        )
        if len(addresses) == 1:
            host, port = addresses[0][4][:2]
            await self._loop.create_connection(lambda: connection, host, port, **secured)
        else:
            raw = await aiohappyeyeballs.start_connection(
                addresses, happy_eyeballs_delay=SECOND_FAMILY_SECONDS, interleave=1
            )
            try:
                await self._loop.create_connection(lambda: connection, sock=raw, **secured)
            except BaseException:
                raw.close()
                raise
        if not connection.open or self._emptied is not None:
            connection.abort()
            raise ConnectionBrokenError
        self._open.add(connection)
        return connection

    async def _addresses(self, origin: Origin) -> Sequence[AddrInfoType]:
        """Return the addresses of a host, asking nobody what ``localhost`` or a number is."""
        if origin.host.lower() == "localhost":
            return [_numeric(address, origin.port) for address in LOCALHOST]
        try:
            ipaddress.ip_address(origin.host)
        except ValueError:
            pass
        else:
            return [_numeric(origin.host, origin.port)]
        until, known = self._names.get((origin.host, origin.port), (0.0, ()))
        if self._loop.time() < until:
            return known
        found: Sequence[AddrInfoType] = await self._loop.getaddrinfo(
            origin.host, origin.port, type=socket.SOCK_STREAM
        )
        if len(self._names) >= NAMES_MAX:
            self._names.clear()
        self._names[origin.host, origin.port] = (self._loop.time() + NAME_SECONDS, found)
        return found


def _numeric(address: str, port: int) -> AddrInfoType:
    six = ":" in address
    return (
        socket.AF_INET6 if six else socket.AF_INET,
        socket.SOCK_STREAM,
        socket.IPPROTO_TCP,
        "",
        (address, port, 0, 0) if six else (address, port),
    )
