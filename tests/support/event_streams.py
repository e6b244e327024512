"""Streams of events as servers send them, and reading them to their end or to where they break."""

from __future__ import annotations

from typing import Any

import pytest

from casework.gateway.errors import ProviderFailure
from casework.gateway.transport import HTTPTransport, ServerEvents
from tests.support.http_calls import request, within

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
STREAM = (
    'data: {"text": "한국어 🦜"}\r\n\r\n: ping\n\ndata: a\ndata: b\n\ndata: [DONE]\n\n'.encode()
)
EVENTS = ['{"text": "한국어 🦜"}'.encode(), b"a\nb", b"[DONE]"]


async def opened(
    transport: HTTPTransport, url: str, *, seconds: float = 20, **changes: Any
) -> ServerEvents:
    """Open one stream."""
    return await transport.open_stream(request(url, **changes), deadline=within(seconds))


async def all_events(stream: ServerEvents) -> list[bytes]:
    """Read a stream to its end."""
    return [event async for events in stream.events() for event in events]


async def broken(stream: ServerEvents) -> tuple[list[bytes], ProviderFailure]:
    """Read a stream until it breaks."""
    events: list[bytes] = []

    async def read() -> None:
        async for found in stream.events():
            events.extend(found)

    with pytest.raises(ProviderFailure) as caught:
        await read()
    assert caught.value.__context__ is None
    return events, caught.value


def chunk(content: bytes) -> bytes:
    """Frame a piece of a body."""
    return b"%x\r\n%b\r\n" % (len(content), content)
