"""A client that sends the bytes that it is told to, and keeps every byte of what comes back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

REPLY_SECONDS_MAX: Final = 60.0
"""When a reply counts as hanging; a busy machine may take its time."""

Fields: TypeAlias = Sequence[tuple[str, str]]
"""Headers in order; one may stand twice."""


@dataclass(frozen=True, slots=True)
class Bytes:
    """One reply: each byte of it, and what it means."""

    content: bytes
    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes
    """Without the framing of chunks."""

    @property
    def json(self) -> Any:
        """Return the body read as JSON."""
        return json.loads(self.body)

    @property
    def error(self) -> tuple[int, Any]:
        """Return status and code of an error."""
        return self.status, self.json["error"]["code"]


def written(
    method: str, target: str, *, headers: Fields = (), body: object = None, host: str = "casework"
) -> bytes:
    """Return a request as it goes out.

    Args:
        method: Any.
        target: As it is to stand in the request line.
        headers: Beside those that frame the body.
        body: Bytes as they are, anything else as JSON; None is no body.
        host: For the Host header.
    """
    content = (
        b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    )
    fields = [("Host", host), *headers]
    if content or method == "POST":
        fields += [("Content-Type", "application/json"), ("Content-Length", str(len(content)))]
    head = "".join(f"{name}: {value}\r\n" for name, value in fields)
    return f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode() + content


class BareClient:
    """One connection to a service, opened again where the service has closed it.

    Args:
        port: On this machine.
    """

    def __init__(self, port: int) -> None:
        self.port = port
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None

    async def __aenter__(self) -> Self:
        """Return the client, which opens its connection when it has something to say."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection."""
        await self.close()

    async def close(self) -> None:
        """Close the connection, if one is open."""
        if self._writer is not None:
            self._writer.close()
            await self._writer.wait_closed()
        self._reader = self._writer = None

    async def send(self, request: bytes) -> Bytes:
        """Send one request and return its reply."""
        async with asyncio.timeout(REPLY_SECONDS_MAX):
            reader, writer = await self._connection()
            writer.write(request)
            reply = await _read(reader, head_only=request.startswith(b"HEAD "))
        if reply.headers.get("connection") == "close":
            await self.close()
        return reply

    async def ask(
        self, method: str, target: str, body: object = None, *, headers: Fields = ()
    ) -> Bytes:
        """Write and send one request."""
        return await self.send(written(method, target, headers=headers, body=body))

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self._reader is None or self._writer is None or self._reader.at_eof():
            await self.close()
            self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self.port)
        return self._reader, self._writer


async def _read(reader: asyncio.StreamReader, *, head_only: bool) -> Bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    line, *fields = head.decode("latin-1").strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (f.partition(":") for f in fields)}
    status = int(line.split(" ")[1])
    if head_only or status == 204:
        return Bytes(head, status, headers, b"")
    if headers.get("transfer-encoding") == "chunked":
        framed, body = await _chunks(reader)
        return Bytes(head + framed, status, headers, body)
    body = await reader.readexactly(int(headers["content-length"]))
    return Bytes(head + body, status, headers, body)


async def _chunks(reader: asyncio.StreamReader) -> tuple[bytes, bytes]:
    framed = body = b""
    while True:
        line = await reader.readuntil(b"\r\n")
        size = int(line, 16)
        chunk = await reader.readexactly(size + 2)
        framed, body = framed + line + chunk, body + chunk[:-2]
        if size == 0:
            return framed, body
