"""One connection of the double: requests read from bytes, replies written as bytes."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, cast

REQUEST_BYTES_MAX: Final = 64 * 1024 * 1024


class Gone(Exception):
    """The client has closed its connection."""


@dataclass(frozen=True, slots=True)
class Head:
    """A request without its body."""

    method: str
    target: str
    headers: Mapping[str, str]
    """Names in lower case."""


class Wire(asyncio.Protocol):
    """The server's end of one connection; it knows at once when the client has left."""

    def __init__(self, begin: Callable[[Wire], None]) -> None:
        self.gone = asyncio.Event()
        """The client has closed, or we have."""
        self.ended_by_us = False
        self._begin = begin
        self._buffer = bytearray()
        self._more = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve."""
        self._transport = cast("asyncio.Transport", transport)
        raw = transport.get_extra_info("socket")
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._begin(self)

    def data_received(self, data: bytes) -> None:
        """Keep what came."""
        self._buffer += data
        assert len(self._buffer) <= REQUEST_BYTES_MAX
        self._more.set()

    def eof_received(self) -> None:
        """See the client leave."""
        self._leave()

    def connection_lost(self, exc: Exception | None) -> None:
        """See the connection end."""
        self._leave()

    def pause_writing(self) -> None:
        """Wait until the client has read."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Go on writing."""
        self._writable.set()

    def _leave(self) -> None:
        self.gone.set()
        self._more.set()
        self._writable.set()

    async def read_head(self) -> Head:
        """Return the next request's head.

        Raises:
            Gone: There is no further request.
        """
        raw = (await self._until(b"\r\n\r\n")).decode("latin-1")
        line, *fields = raw.strip().split("\r\n")
        method, target, _ = line.split(" ", 2)
        pairs = (field.partition(":") for field in fields)
        return Head(method, target, {name.lower(): value.strip() for name, _, value in pairs})

    async def read_body(self, head: Head) -> bytes:
        """Return a request's body, sent with its length or in chunks."""
        if head.headers.get("expect", "").lower() == "100-continue":
            await self.say(b"HTTP/1.1 100 Continue\r\n\r\n")
        if head.headers.get("transfer-encoding", "").lower() != "chunked":
            return await self._exactly(int(head.headers.get("content-length", "0")))
        body = b""
        while size := int((await self._until(b"\r\n")).split(b";")[0], 16):
            body += (await self._exactly(size + 2))[:-2]
        while (await self._until(b"\r\n")) != b"\r\n":
            pass
        return body

    async def _until(self, mark: bytes) -> bytes:
        while (at := self._buffer.find(mark)) < 0:
            await self._grow()
        return self._taken(at + len(mark))

    async def _exactly(self, count: int) -> bytes:
        while len(self._buffer) < count:
            await self._grow()
        return self._taken(count)

    async def _grow(self) -> None:
        if self.gone.is_set():
            raise Gone
        self._more.clear()
        await self._more.wait()

    def _taken(self, count: int) -> bytes:
        content = bytes(self._buffer[:count])
        del self._buffer[:count]
        return content

    async def say(self, content: bytes) -> None:
        """Write bytes as they are.

        Raises:
            Gone: Nobody reads them.
        """
        if self.gone.is_set():
            raise Gone
        assert self._transport is not None
        self._transport.write(content)
        await self._writable.wait()

    async def pause(self, seconds: float) -> None:
        """Let time pass.

        Raises:
            Gone: The client left meanwhile.
        """
        try:
            await asyncio.wait_for(self.gone.wait(), seconds)
        except TimeoutError:
            return
        raise Gone

    def close(self) -> None:
        """End the connection after what was written."""
        self.ended_by_us = True
        assert self._transport is not None
        self._transport.close()

    def reset(self) -> None:
        """End the connection with a reset."""
        self.ended_by_us = True
        assert self._transport is not None
        raw = self._transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()
