"""Streams that a server packs, though it was asked not to."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import AsyncIterator, Callable

import brotli
import pytest
from backports import zstd

from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.transport import HTTPTransport
from tests.support.event_streams import (
    CHUNKED,
    END,
    EVENTS,
    STREAM,
    all_events,
    broken,
    chunk,
    opened,
)
from tests.support.raw_server import Connection, RawServer, answer


@pytest.fixture
async def transport() -> AsyncIterator[HTTPTransport]:
    """Return a transport that is let go at the end."""
    made = HTTPTransport()
    yield made
    await made.aclose()


@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("br", brotli.compress),
        ("zstd", zstd.compress),
        ("gzip, br", lambda body: brotli.compress(gzip.compress(body))),
        ("gzip", lambda body: body),
        ("br", lambda body: body),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 10_000])
async def test_a_packed_stream_is_read_too(
    transport: HTTPTransport, encoding: str, pack: Callable[[bytes], bytes], size: int
) -> None:
    """Packed though it was asked not to be, in any pieces, and even if only its label says so."""
    body = pack(STREAM)
    head = CHUNKED[:-2] + b"Content-Encoding: %b\r\n\r\n" % encoding.encode()
    pieces = [chunk(body[place : place + size]) for place in range(0, len(body), size)]
    async with RawServer([head + b"".join(pieces) + END]) as server:
        assert EVENTS == await all_events(await opened(transport, server.base_url))


async def test_what_was_flushed_of_a_packed_stream_is_told_at_once(
    transport: HTTPTransport,
) -> None:
    """An event does not wait for the packing of the next one."""
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    told = asyncio.Event()

    async def flush(connection: Connection) -> None:
        await connection.say(CHUNKED[:-2] + b"Content-Encoding: gzip\r\n\r\n")
        content = packer.compress(b"data: a\n\n") + packer.flush(zlib.Z_SYNC_FLUSH)
        await connection.say(chunk(content))
        await told.wait()
        await connection.say(chunk(packer.compress(b"data: b\n\n") + packer.flush()) + END)
        await connection.wait_until_gone()

    async with RawServer([flush]) as server:
        events = (await opened(transport, server.base_url)).events()
        assert [b"a"] == await anext(events)
        told.set()
        assert [b"b"] == await anext(events)
        await events.aclose()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (gzip.compress(STREAM)[:-9], FailureKind.MALFORMED_RESPONSE),
        (b"<html>", FailureKind.MALFORMED_RESPONSE),
        (gzip.compress(b"data: " + b"x" * 50_000_000), FailureKind.RESPONSE_TOO_LARGE),
        (gzip.compress(b"{" + b" " * 50_000_000), FailureKind.RESPONSE_TOO_LARGE),
        (gzip.compress(b"\n" * 5_000_000), FailureKind.RESPONSE_TOO_LARGE),
        (gzip.compress(b": ping\n\n" * 500_000), FailureKind.RESPONSE_TOO_LARGE),
    ],
)
async def test_a_stream_that_does_not_unpack_breaks(
    transport: HTTPTransport, body: bytes, kind: FailureKind
) -> None:
    """A cut, a lie and a bomb end the stream."""
    async with RawServer([answer(body=body, headers={"Content-Encoding": "gzip"})]) as server:
        stream = await opened(transport, server.base_url)
        assert kind is (await broken(stream))[1].kind


async def test_others_have_their_turn_while_much_is_unpacked(transport: HTTPTransport) -> None:
    """A kilobyte that holds a megabyte of events does not keep the loop to itself."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    body = gzip.compress(b"data: a\n\n" * 100_000)
    async with RawServer([answer(body=body, headers={"Content-Encoding": "gzip"})]) as server:
        stream = await opened(transport, server.base_url)
        other = asyncio.ensure_future(others())
        seen = [turns async for _ in stream.events()]
        other.cancel()
    assert len(seen) > 10
    assert len(seen) - 1 <= len(set(seen))


async def test_an_unknown_packing_is_refused_before_any_event(transport: HTTPTransport) -> None:
    """A stream that nobody can read is not opened."""
    head = CHUNKED[:-2] + b"Content-Encoding: exi\r\n\r\n"
    async with RawServer([head]) as server:
        with pytest.raises(ProviderFailure) as caught:
            await opened(transport, server.base_url)
        await server.gone.wait()
    assert FailureKind.MALFORMED_RESPONSE is caught.value.kind
