"""A model server for benchmarks: it answers at once, or as a port's options say.

    python -m bench.gateway_upstream 9001 9002:gap_ms=20 9003:fault_every=100 9004:wait_ms=200

``POST .../chat/completions`` answers whole or in a stream of as many chunks as ``max_tokens`` says,
``POST .../embeddings`` gives eight numbers for each text, and any GET says that it is there. With
``gap_ms`` chunks are so far apart, and hold the time at which each was written, in nanoseconds of
the monotonic clock; else they come without gaps, four to a write. Where every so many-th request is
to fail, it fails in turn by status 500, by a connection that is dropped, by a body that is no JSON,
and by a stream that breaks off.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import cast

import uvloop

HOST = "127.0.0.1"
DEFAULT_TOKENS = 16
CHUNKS_OF_A_WRITE = 4
MODEL = "bench-model-2026"
LENGTH = re.compile(rb"(?i)\r\ncontent-length: *(\d+)")
TOKENS = re.compile(rb'"max_tokens": ?(\d+)')
STREAM = re.compile(rb'"stream": ?true')
USAGE_WANTED = re.compile(rb'"include_usage": ?true')
USAGE = {"prompt_tokens": 400, "completion_tokens": 200, "total_tokens": 600}
CHUNKED = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)
LAST_PIECE = b"0\r\n\r\n"
NAME = f'"id":"chatcmpl-bench0123456789","created":1700000000,"model":"{MODEL}"'
CHUNK_NAME = f'{NAME},"object":"chat.completion.chunk","system_fingerprint":"fp_bench"'


@dataclass(frozen=True, slots=True)
class Manner:
    """How one port answers."""

    gap_seconds: float = 0.0
    wait_seconds: float = 0.0
    fault_every: int = 0

    @classmethod
    def of(cls, options: str) -> Manner:
        """Read ``gap_ms=20,wait_ms=5,fault_every=100``."""
        named = dict(option.split("=") for option in options.split(",") if option)
        return cls(
            gap_seconds=int(named.get("gap_ms", "0")) / 1000,
            wait_seconds=int(named.get("wait_ms", "0")) / 1000,
            fault_every=int(named.get("fault_every", "0")),
        )


def whole(body: bytes, *, status: bytes = b"200 OK") -> bytes:
    """Return a reply with its head."""
    head = b"HTTP/1.1 %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    return head % (status, len(body)) + body


@lru_cache
def completion(tokens: int) -> bytes:
    """Return a whole answer, as servers write it that leave out what they do not need."""
    message = json.dumps({"role": "assistant", "content": " word" * tokens})
    choice = f'{{"index":0,"message":{message},"logprobs":null,"finish_reason":"stop"}}'
    usage = json.dumps(USAGE, separators=(",", ":"))
    text = f'{{{NAME},"object":"chat.completion","choices":[{choice}],"usage":{usage}}}'
    return whole(text.encode())


def vectors(body: bytes) -> bytes:
    """Return numbers for each text."""
    texts = json.loads(body)["input"]
    count = len(texts) if isinstance(texts, list) else 1
    data = [
        {"object": "embedding", "index": index, "embedding": [0.125] * 8} for index in range(count)
    ]
    usage = {"prompt_tokens": 5 * count, "total_tokens": 5 * count}
    reply = {"object": "list", "model": MODEL, "data": data, "usage": usage}
    return whole(json.dumps(reply).encode())


def piece(delta: bytes, *, finish: bytes = b"null") -> bytes:
    """Return one chunk of a stream, framed."""
    event = b'data: {%b,"choices":[{"index":0,"delta":%b,"logprobs":null,"finish_reason":%b}]}\n\n'
    return framed(event % (CHUNK_NAME.encode(), delta, finish))


def framed(event: bytes) -> bytes:
    """Return an event as a piece of a body whose length nobody knows."""
    return b"%x\r\n%b\r\n" % (len(event), event)


FIRST = piece(b'{"role":"assistant","content":""}')
STOP = piece(b"{}", finish=b'"stop"')
TOLD_USAGE = framed(f'data: {{{CHUNK_NAME},"choices":[],"usage":{json.dumps(USAGE)}}}\n\n'.encode())
DONE = framed(b"data: [DONE]\n\n")
UNTIMED = piece(b'{"content":" %019d"}' % 0)
BEFORE_TIME, AFTER_TIME = UNTIMED.split(b"%019d" % 0)
MODELS = whole(json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model"}]}).encode())


class Upstream(asyncio.Protocol):
    """One connection of a gateway."""

    served = 0
    """By all connections of this process."""

    def __init__(self, manner: Manner) -> None:
        self._manner = manner
        self._loop = asyncio.get_running_loop()
        self._arrived = b""
        self._timer: asyncio.Handle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember what to write to."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's
        """Stop writing."""
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        """Answer each request that is there as a whole."""
        self._arrived += data
        while (end := self._arrived.find(b"\r\n\r\n")) >= 0:
            head = self._arrived[:end]
            found = LENGTH.search(head)
            size = end + 4 + (int(found.group(1)) if found else 0)
            if len(self._arrived) < size:
                return
            body, self._arrived = self._arrived[end + 4 : size], self._arrived[size:]
            if self._manner.wait_seconds:
                self._later(self._manner.wait_seconds, head, body)
            else:
                self._answer(head, body)

    def _later(self, seconds: float, head: bytes, body: bytes) -> None:
        self._timer = self._loop.call_later(seconds, self._answer, head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        if head.startswith(b"GET"):
            self._transport.write(MODELS)
            return
        Upstream.served += 1
        every = self._manner.fault_every
        fault = Upstream.served // every % 4 if every and Upstream.served % every == 0 else None
        found = TOKENS.search(body)
        tokens = int(found.group(1)) if found else DEFAULT_TOKENS
        streams = STREAM.search(body) is not None
        if fault == 0:
            self._transport.write(whole(b"{}", status=b"500 Internal Server Error"))
        elif fault == 1:
            self._transport.abort()
        elif fault == 2:
            self._transport.write(whole(b"<html>"))
        elif b"/embeddings" in head.partition(b"\r\n")[0]:
            self._transport.write(vectors(body))
        elif not streams:
            self._transport.write(completion(tokens))
        else:
            self._transport.write(CHUNKED + FIRST)
            ends = LAST_PIECE if fault is None else None
            usage = TOLD_USAGE if USAGE_WANTED.search(body) else b""
            self._stream(tokens, None if ends is None else STOP + usage + DONE + ends)

    def _stream(self, left: int, end: bytes | None) -> None:
        """Write what comes next, and what follows in its time; a stream without end is dropped."""
        if self._transport.is_closing():
            return
        if left == 0:
            if end is None:
                self._transport.abort()
            else:
                self._transport.write(end)
            return
        gap = self._manner.gap_seconds
        if not gap:
            count = min(left, CHUNKS_OF_A_WRITE)
            self._transport.write(UNTIMED * count)
            self._timer = self._loop.call_soon(self._stream, left - count, end)
            return
        self._transport.write(BEFORE_TIME + b"%019d" % time.monotonic_ns() + AFTER_TIME)
        self._timer = self._loop.call_later(gap if left > 1 else 0.0, self._stream, left - 1, end)


async def serve(ports: Sequence[str]) -> None:
    """Serve until somebody ends the process."""
    loop = asyncio.get_running_loop()
    for port in ports:
        number, _, options = port.partition(":")
        manner = Manner.of(options)
        await loop.create_server(lambda manner=manner: Upstream(manner), HOST, int(number))  # type: ignore[misc]
    print("ready", flush=True)
    await loop.create_future()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(sys.argv[1:]))
