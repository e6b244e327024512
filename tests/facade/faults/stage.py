"""The facade before upstreams that fail as they are told, and clients that read byte by byte."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from casework.facade.durable_calls import DurableCalls
from casework.facade.request_line import RequestLine
from casework.gateway.call_gate import CallGate
from casework.gateway.clock import Clock
from tests.facade.serving import HELLO, Facade, Told, facade, provider
from tests.support.fault_upstream.server import FaultUpstream

QUICK: Final = "[interactive]\nmax_retries = 0\n"
"""No second call with the same key."""
CHAT: Final = "/v1/chat/completions"
EMBEDDINGS: Final = "/v1/embeddings"
WAIT_SECONDS: Final = 20.0
"""When something counts as hanging."""
UPSTREAMS: Final = ("near", "far", "last")


@dataclass(slots=True)
class Stage:
    """A facade that is up, and who it asks, in order."""

    served: Facade
    upstreams: tuple[FaultUpstream, ...]
    folder: Path
    clients: list[Wired] = field(default_factory=list)

    @property
    def near(self) -> FaultUpstream:
        """Return the upstream that is asked first."""
        return self.upstreams[0]

    @property
    def far(self) -> FaultUpstream:
        """Return the one that is asked next."""
        return self.upstreams[1]

    @property
    def calls(self) -> list[int]:
        """Return how often each was asked."""
        return [upstream.calls for upstream in self.upstreams]

    @property
    def line(self) -> RequestLine:
        """Return the latest line of the request log."""
        return self.served.lines[-1]

    async def client(self, *, buffer_bytes: int = 2**16) -> Wired:
        """Connect a client, which leaves at the end at the latest.

        Args:
            buffer_bytes: How much it reads ahead, give or take as much again.
        """
        parts = urlsplit(self.served.url)
        opened = await asyncio.open_connection(parts.hostname, parts.port, limit=buffer_bytes)
        self.clients.append(Wired(*opened))
        return self.clients[-1]

    async def called(self, calls: int) -> None:
        """Wait until the upstream that is asked first was asked so often."""
        await self.near.until(lambda upstream: upstream.calls >= calls)

    async def opened(self, requests: int) -> None:
        """Wait until so many requests are open."""
        async with asyncio.timeout(WAIT_SECONDS):
            while self.served.open_requests.count < requests:  # noqa: ASYNC110 - as in logged
                await asyncio.sleep(0)

    async def logged(self, lines: int) -> None:
        """Wait until so many requests have come to their end."""
        async with asyncio.timeout(WAIT_SECONDS):
            while len(self.served.lines) < lines:  # noqa: ASYNC110 - nothing of the product tells
                await asyncio.sleep(0)


@asynccontextmanager
async def stage(
    folder: Path,
    settings: str = QUICK,
    *,
    many: int = 1,
    extra: str = "",
    environ: Mapping[str, str] | None = None,
    gate: CallGate | None = None,
    durable: DurableCalls | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[Stage]:
    """Serve before so many upstreams.

    Args:
        folder: Where files of the facade lie.
        settings: Beside the providers.
        many: How many upstreams, each with a provider of its own: near, far, last.
        extra: Further settings of each provider.
        environ: Where keys are looked up.
        gate: What lets calls through.
        durable: Who keeps calls.
        clock: The time; the machine's by default.
    """
    async with AsyncExitStack() as opened:
        upstreams = [await opened.enter_async_context(FaultUpstream()) for _ in UPSTREAMS[:many]]
        text = settings + "".join(
            provider(name, upstream.base_url, extra)
            for name, upstream in zip(UPSTREAMS, upstreams, strict=False)
        )
        served = await opened.enter_async_context(
            facade(text, folder, environ=environ, gate=gate, durable=durable, clock=clock)
        )
        staged = Stage(served, tuple(upstreams), folder)
        try:
            yield staged
        finally:
            for client in staged.clients:
                await client.left()


def asking(text: str = "Hello.", **changes: object) -> dict[str, object]:
    """Return a chat request with this text, which may hold directives for the upstream."""
    return {**HELLO, "messages": [{"role": "user", "content": text}], **changes}


class Wired:
    """A client that writes and reads bytes itself, and leaves when it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def to(cls, url: str, *, buffer_bytes: int = 2**16) -> Wired:
        """Connect."""
        parts = urlsplit(url)
        return cls(*await asyncio.open_connection(parts.hostname, parts.port, limit=buffer_bytes))

    def send(self, path: str, body: object, headers: Mapping[str, str] | None = None) -> None:
        """Send a whole request."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        fields = {"Host": "casework", "Content-Length": str(len(content)), **(headers or {})}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self.writer.write(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + content)

    async def until(self, mark: bytes) -> bytes:
        """Read up to a mark."""
        async with asyncio.timeout(WAIT_SECONDS):
            return await self.reader.readuntil(mark)

    async def reply(self) -> Told:
        """Read one reply with a length."""
        fields = (await self.until(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in fields[1:] if line)
        async with asyncio.timeout(WAIT_SECONDS):
            body = await self.reader.readexactly(int(headers["content-length"]))
        return Told(int(fields[0].split(" ")[1]), headers, body)

    async def rest_or_reset(self) -> bytes:
        """Read until the server closes, in good order or not."""
        try:
            return await self.rest()
        except ConnectionResetError:
            return b""

    async def rest(self) -> bytes:
        """Read until the server closes."""
        async with asyncio.timeout(WAIT_SECONDS):
            return await self.reader.read()

    def leave(self) -> None:
        """Close the connection at once."""
        self.writer.transport.abort()

    async def left(self) -> None:
        """Close the connection, and wait until that is done."""
        self.leave()
        with suppress(ConnectionError):
            await self.writer.wait_closed()


def replies_in(content: bytes) -> list[tuple[int, bytes]]:
    """Return status and body of replies with lengths that stand one after another."""
    replies: list[tuple[int, bytes]] = []
    while content:
        head, _, content = content.partition(b"\r\n\r\n")
        line, *fields = head.decode("latin-1").lower().split("\r\n")
        length = int(dict(field.split(": ", 1) for field in fields)["content-length"])
        replies.append((int(line.split(" ")[1]), content[:length]))
        content = content[length:]
    return replies
