"""uvloop under the guard's eyes: what it opens in machine code is announced as Python's own is."""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import Any

import uvloop


class WatchedLoop(uvloop.Loop):
    """An event loop that tells every way out before it takes it, so that the guard may refuse."""

    async def create_connection(self, *given: Any, **named: Any) -> Any:
        """Announce whom a connection is for; one over a socket of Python's is announced already."""
        host, port = [*given[1:3], named.get("host"), named.get("port")][:2]
        if host is not None:
            sys.audit("socket.getaddrinfo", host, port, 0, 0, 0)
            sys.audit("socket.__new__", None, int(socket.AF_INET), int(socket.SOCK_STREAM), 0)
            sys.audit("socket.connect", None, (host, port))
        return await super().create_connection(*given, **named)

    async def create_datagram_endpoint(self, *given: Any, **named: Any) -> Any:
        """Announce whom datagrams are for."""
        addresses = [*given[1:3], named.get("local_addr"), named.get("remote_addr")]
        for address in filter(None, addresses):
            sys.audit("socket.sendto", None, address)
        return await super().create_datagram_endpoint(*given, **named)

    async def getaddrinfo(self, host: Any, port: Any, **named: Any) -> Any:
        """Announce a look-up."""
        sys.audit("socket.getaddrinfo", host, port, 0, 0, 0)
        return await super().getaddrinfo(host, port, **named)

    async def getnameinfo(self, address: Any, flags: int = 0) -> Any:
        """Announce a look-up of an address."""
        sys.audit("socket.getnameinfo", address)
        return await super().getnameinfo(address, flags)

    async def subprocess_exec(self, *given: Any, **named: Any) -> Any:
        """Announce a process."""
        sys.audit("subprocess.Popen", given[1], given[1:], None, None)
        return await super().subprocess_exec(*given, **named)

    async def subprocess_shell(self, *given: Any, **named: Any) -> Any:
        """Announce a process."""
        sys.audit("subprocess.Popen", given[1], given[1:], None, None)
        return await super().subprocess_shell(*given, **named)


def watch_uvloop() -> None:
    """See that whoever asks for uvloop from now on gets one that is watched."""

    def new_event_loop() -> asyncio.AbstractEventLoop:
        return WatchedLoop()

    uvloop.new_event_loop = new_event_loop  # type: ignore[assignment]
