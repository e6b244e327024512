"""Load for one port: so many connections, each of which asks again when it has its answer.

Requests are written as they stand and answers are read with as little as tells where they end, so
that the generator costs less than what it measures.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

HOST = "127.0.0.1"
AGAIN_SECONDS = 0.01
LAST_PIECE = b"0\r\n\r\n"
LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
CHUNK = b'" 0'
"""How the content of each chunk begins, and nothing else."""
STAMP = re.compile(rb"\d{19}")
SYSTEM = "You answer questions about pumps in plain words, and you never guess. " * 6
QUESTION = "The pump failed twice in one week, and the log names no cause. What is to be done? " * 6


@dataclass(frozen=True, slots=True)
class Ask:
    """One request, to be sent often."""

    port: int
    content: bytes = field(repr=False)
    chunks: int | None = None
    """How many the answer must have; None for one that is no stream."""


@dataclass(slots=True)
class Heard:
    """What came back."""

    whole_seconds: list[float] = field(default_factory=list)
    """From a request to the last byte of its answer."""
    first_seconds: list[float] = field(default_factory=list)
    """From a request to the first chunk of its answer."""
    delay_seconds: list[float] = field(default_factory=list)
    """How long each chunk was under way."""
    failed: Counter[str] = field(default_factory=Counter)
    elapsed_seconds: float = 0.0

    @property
    def answers(self) -> int:
        """Return how many answers were whole and sound."""
        return len(self.whole_seconds)


def http(port: int, path: str, body: object, headers: Mapping[str, str]) -> bytes:
    """Write a request as it goes out."""
    content = json.dumps(body).encode()
    lines = [f"POST {path} HTTP/1.1", f"host: {HOST}:{port}", "content-type: application/json"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines += [f"content-length: {len(content)}", "", ""]
    return "\r\n".join(lines).encode() + content


def chat_body(model: str, *, tokens: int, stream: bool = False) -> dict[str, object]:
    """Return a chat request of about 2 kB."""
    messages = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": "Look at the seals first. " * 12},
        {"role": "user", "content": QUESTION},
    ]
    body = {"model": model, "temperature": 0.2, "max_tokens": tokens, "messages": messages}
    return {**body, "stream": True} if stream else body


def share_of(values: Sequence[float], share: float) -> float:
    """Return the value below which such a share of them lies."""
    ordered = sorted(values)
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else float("nan")


async def load(
    ask: Ask,
    *,
    connections: int,
    seconds: float,
    spread_seconds: float = 0.0,
    timed: bool = False,
) -> Heard:
    """Ask for so long, and wait for the answers that are still under way.

    Args:
        ask: What, and whom.
        connections: How many ask at once.
        seconds: For how long.
        spread_seconds: Over which time the first requests are spread.
        timed: Whether the chunks of streams are looked at one by one.
    """
    loop = asyncio.get_running_loop()
    heard = Heard()
    begun = loop.time()
    clients = [Client(ask, heard, until=begun + seconds, timed=timed) for _ in range(connections)]
    for number, client in enumerate(clients):
        loop.call_at(begun + spread_seconds * number / connections, client.connect)
    await asyncio.gather(*(client.ended for client in clients))
    heard.elapsed_seconds = loop.time() - begun
    return heard


class Client(asyncio.Protocol):
    """One connection of the load.

    Args:
        ask: What it asks.
        heard: Where it notes what comes back.
        until: When it asks no more, on the loop's clock.
        timed: Whether chunks are looked at one by one.
    """

    def __init__(self, ask: Ask, heard: Heard, *, until: float, timed: bool) -> None:
        self._ask, self._heard, self._until, self._timed = ask, heard, until, timed
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._arrived = bytearray()
        self._size: int | None = None
        """Of the whole answer, where its head tells."""
        self._looked_at = 0
        self._stamps = 0
        self._sent_at = 0.0
        self._asking = False
        self.ended: asyncio.Future[None] = self._loop.create_future()

    def connect(self) -> None:
        """Open the connection and begin."""
        self._opening = self._loop.create_task(self._open())

    async def _open(self) -> None:
        try:
            await self._loop.create_connection(lambda: self, HOST, self._ask.port)
        except OSError:
            self._fail("not connected")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask for the first time."""
        self._transport = cast("asyncio.Transport", transport)
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's
        """Connect again, unless all is over."""
        self._transport = None
        if self._asking:
            self._fail("connection lost")

    def data_received(self, data: bytes) -> None:
        """Take what has come of an answer."""
        arrived = self._arrived
        arrived += data
        if self._timed:
            self._look()
        if self._size is None and (end := arrived.find(b"\r\n\r\n")) >= 0:
            found = LENGTH.search(arrived, 0, end)
            self._size = end + 4 + int(found.group(1)) if found else 0
        if self._size is None:
            return
        if len(arrived) >= self._size if self._size else arrived.endswith(LAST_PIECE):
            self._note()
            self._next()

    def _look(self) -> None:
        """Note when the chunks came that have come now."""
        now_ns = time.monotonic_ns()
        for found in STAMP.finditer(self._arrived, self._looked_at):
            if self._stamps == 0:
                self._heard.first_seconds.append(time.perf_counter() - self._sent_at)
            self._stamps += 1
            self._heard.delay_seconds.append((now_ns - int(found.group())) / 1e9)
            self._looked_at = found.end()

    def _note(self) -> None:
        elapsed = time.perf_counter() - self._sent_at
        arrived, chunks = self._arrived, self._ask.chunks
        if not arrived.startswith(b"HTTP/1.1 200"):
            self._heard.failed[bytes(arrived[9:12]).decode()] += 1
        elif chunks is not None and arrived.count(CHUNK) != chunks:
            self._heard.failed["chunks missing"] += 1
        elif chunks is not None and b"[DONE]" not in arrived:
            self._heard.failed["no end"] += 1
        else:
            self._heard.whole_seconds.append(elapsed)
        self._asking = False

    def _next(self) -> None:
        if self._transport is None or self._transport.is_closing():
            self.connect()
            return
        if self._loop.time() >= self._until:
            self._transport.close()
            self._end()
            return
        self._arrived.clear()
        self._size, self._looked_at, self._stamps = None, 0, 0
        self._asking = True
        self._sent_at = time.perf_counter()
        self._transport.write(self._ask.content)

    def _fail(self, what: str) -> None:
        self._heard.failed[what] += 1
        self._asking = False
        if self._loop.time() < self._until:
            self._loop.call_later(AGAIN_SECONDS, self.connect)
        else:
            self._end()

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)
