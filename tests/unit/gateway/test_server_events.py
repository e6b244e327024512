"""A stream is opened once, read as it comes, and closed the moment nobody wants it."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.transport import HTTPTransport
from tests.support.event_streams import (
    CHUNKED,
    END,
    EVENTS,
    HEAD,
    STREAM,
    all_events,
    broken,
    chunk,
    opened,
)
from tests.support.http_calls import CANARY
from tests.support.raw_server import Behaviour, Connection, RawServer, answer

SHORT = 0.25


@pytest.fixture
async def transport() -> AsyncIterator[HTTPTransport]:
    """Return a transport that is let go at the end."""
    made = HTTPTransport()
    yield made
    await made.aclose()


async def test_a_stream_is_opened_by_one_request(transport: HTTPTransport) -> None:
    """One request goes out, one stream of events comes back, and the connection is kept."""
    reply = CHUNKED + chunk(STREAM) + END
    async with RawServer([reply]) as server:
        for _ in range(2):
            stream = await opened(transport, server.base_url)
            assert () == stream.dropped
            assert EVENTS == await all_events(stream)
            stream.close()
        assert 2 == len(server.heard)
        assert 1 == server.connections
    assert b'{"x": 1}' == server.heard[0].body
    assert "identity" == server.heard[0].headers["accept-encoding"]


async def test_events_are_the_same_in_single_bytes(transport: HTTPTransport) -> None:
    """A server may write each byte as a chunk of its own."""
    reply = CHUNKED + b"".join(chunk(bytes([byte])) for byte in STREAM) + END
    async with RawServer([reply]) as server:
        assert EVENTS == await all_events(await opened(transport, server.base_url))


async def test_each_event_is_told_when_it_comes(transport: HTTPTransport) -> None:
    """No event waits for the one after it, and the deadline ends with the headers."""
    turn = asyncio.Event()

    async def one_by_one(connection: Connection) -> None:
        await connection.say(CHUNKED)
        for number in range(3):
            await turn.wait()
            turn.clear()
            await connection.say(chunk(b"data: %d\n\n" % number))
        await connection.say(END)
        await connection.wait_until_gone()

    async with RawServer([one_by_one]) as server:
        stream = await opened(transport, server.base_url)
        events = stream.events()
        for number in range(3):
            turn.set()
            assert [b"%d" % number] == await anext(events)
        with pytest.raises(StopAsyncIteration):
            await anext(events)


async def test_the_deadline_ends_with_the_headers(
    transport: HTTPTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An accepted stream may last as long as it likes."""
    loop = asyncio.get_running_loop()
    timers: list[asyncio.TimerHandle] = []
    call_later = loop.call_later

    def remember(delay: float, callback: Callable[..., object], *args: Any, **more: Any) -> Any:
        timers.append(call_later(delay, callback, *args, **more))
        return timers[-1]

    monkeypatch.setattr(loop, "call_later", remember)
    async with RawServer([CHUNKED]) as server:
        stream = await opened(transport, server.base_url)
        assert 1 <= len(timers)
        assert all(timer.cancelled() for timer in timers)
        stream.close()


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream", "text/html"])
@pytest.mark.parametrize(
    "body",
    [b'{"error": {"code": "x"}}', b' \n{"choices":\n\n[]}', b"[\n\n]", b"\xef\xbb\xbf {}\n\n"],
)
async def test_a_json_text_instead_of_a_stream_is_one_event(
    transport: HTTPTransport, kind: str, body: bytes
) -> None:
    """Whatever it is called, a whole answer or an error is left to be judged."""
    async with RawServer([answer(body=body, headers={"Content-Type": kind})]) as server:
        (event,) = await all_events(await opened(transport, server.base_url))
    assert json.loads(body) == json.loads(event)


async def test_a_page_instead_of_a_stream_has_no_events(transport: HTTPTransport) -> None:
    """What is neither gives nothing to believe."""
    async with RawServer([answer(body=b"<html>\n\n</html>\n\n")]) as server:
        assert [] == await all_events(await opened(transport, server.base_url))


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (302, FailureKind.REDIRECT_REJECTED),
        (401, FailureKind.AUTH_ERROR),
        (404, FailureKind.HTTP_ERROR),
        (429, FailureKind.HTTP_429),
        (503, FailureKind.HTTP_5XX),
    ],
)
async def test_a_refused_stream_is_told_as_any_refused_call(
    transport: HTTPTransport, status: int, kind: FailureKind
) -> None:
    """Status and waiting time are those of the reply."""
    async with RawServer([answer(status, CANARY, headers={"Retry-After": "7"})]) as server:
        with pytest.raises(ProviderFailure) as caught:
            await opened(transport, server.base_url)
        assert 1 == len(server.heard)
    found = caught.value
    assert (kind, status, 7.0) == (found.kind, found.http_status, found.retry_after_seconds)
    assert CANARY not in repr(vars(found))


async def test_the_codes_of_a_refusal_are_read(transport: HTTPTransport) -> None:
    """A context that is too long is told as that."""
    body = {"error": {"code": "context_length_exceeded"}}
    async with RawServer([answer(400, body)]) as server:
        with pytest.raises(ProviderFailure) as caught:
            await opened(transport, server.base_url)
    assert FailureKind.CONTEXT_TOO_LONG is caught.value.kind


async def reset(connection: Connection) -> None:
    """Break off in the middle with a reset."""
    await connection.say(CHUNKED + chunk(b"data: a\n\ndata: b"))
    connection.reset()


async def hang_up(connection: Connection) -> None:
    """Break off in the middle with a close."""
    await connection.say(CHUNKED + chunk(b"data: a\n\ndata: b"))


async def garble(connection: Connection) -> None:
    """Break off in the middle with what is no chunk."""
    await connection.say(CHUNKED + chunk(b"data: a\n\n") + b"garbage\r\n")
    await connection.wait_until_gone()


@pytest.mark.parametrize(
    ("behaviour", "kind"),
    [
        (reset, FailureKind.CONNECT_ERROR),
        (hang_up, FailureKind.CONNECT_ERROR),
        (garble, FailureKind.MALFORMED_RESPONSE),
    ],
)
async def test_a_stream_that_breaks_is_told_after_its_events(
    transport: HTTPTransport, behaviour: Behaviour, kind: FailureKind
) -> None:
    """What came whole was told; half an event is not, and nothing is asked again."""
    async with RawServer([behaviour]) as server:
        stream = await opened(transport, server.base_url)
        events, found = await broken(stream)
        assert 1 == len(server.heard)
    assert ([b"a"], kind, True) == (events, found.kind, found.sent)


async def test_a_stream_without_an_end_ends_with_the_connection(transport: HTTPTransport) -> None:
    """A server that frames nothing ends by hanging up, even in the middle of an event."""

    async def unframed(connection: Connection) -> None:
        await connection.say(HEAD + b"\r\ndata: a\n\ndata: [DONE]")

    async with RawServer([unframed]) as server:
        stream = await opened(transport, server.base_url)
        assert [b"a", b"[DONE]"] == await all_events(stream)


async def test_an_event_is_bounded_and_a_stream_is_not(transport: HTTPTransport) -> None:
    """Any number of events may come, none of them longer than allowed."""
    many = chunk(b"data: %b\n\n" % (b"x" * 900)) * 3000
    async with RawServer([CHUNKED + many + chunk(b"data: " + b"x" * 1100)]) as server:
        stream = await opened(transport, server.base_url, response_bytes_max=1000)
        events, found = await broken(stream)
        await server.gone.wait()
    assert 3000 == len(events)
    assert FailureKind.RESPONSE_TOO_LARGE is found.kind


async def test_a_server_waits_for_a_slow_reader(transport: HTTPTransport) -> None:
    """What nobody fetches is not read, so that a stream needs no more memory than its limit."""
    stalled = asyncio.Event()
    resumed = asyncio.Event()
    event = b"data: %b\n\n" % (b"x" * 900)
    written = 0

    async def flood(connection: Connection) -> None:
        nonlocal written
        await connection.say(CHUNKED)
        try:
            while True:
                await asyncio.wait_for(connection.say(chunk(event * 100)), SHORT)
                written += 100
        except TimeoutError:
            stalled.set()
        await resumed.wait()
        await connection.say(END)
        await connection.wait_until_gone()

    async with RawServer([flood]) as server:
        stream = await opened(transport, server.base_url)
        await stalled.wait()
        assert 20_000 > written
        resumed.set()
        assert written + 100 == len(await all_events(stream))


@pytest.mark.parametrize("packed", [False, True])
async def test_a_reply_may_end_in_form_after_its_last_event(
    transport: HTTPTransport,
    packed: bool,  # noqa: FBT001 - a parameter
) -> None:
    """A reader that leaves with the last event costs no connection."""
    left = asyncio.Event()
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)

    async def end_later(connection: Connection) -> None:
        if packed:
            await connection.say(CHUNKED[:-2] + b"Content-Encoding: gzip\r\n\r\n")
            content = packer.compress(STREAM) + packer.flush()
        else:
            await connection.say(CHUNKED)
            content = STREAM
        await connection.say(chunk(content))
        await left.wait()
        await connection.say(END)
        await connection.wait_until_gone()

    async with RawServer([end_later]) as server:
        stream = await opened(transport, server.base_url)
        async for events in stream.events():
            if b"[DONE]" in events:
                break
        stream.close()
        stream.close()
        left.set()
        pool = transport._pools[asyncio.get_running_loop()]
        while not pool._idle:  # noqa: ASYNC110 - a pool tells nobody
            await asyncio.sleep(0)
        assert not server.gone.is_set()


@pytest.mark.parametrize("more", [chunk(b": and more\n\n"), b"garbage", b""])
async def test_a_reply_that_does_not_end_after_its_last_event_is_cut(
    transport: HTTPTransport, monkeypatch: pytest.MonkeyPatch, more: bytes
) -> None:
    """A server that goes on, or does not come to its end in time, is hung up on."""
    monkeypatch.setattr("casework.gateway.transport.ENDING_SECONDS", 0 if not more else 1000)
    left = asyncio.Event()

    async def go_on_later(connection: Connection) -> None:
        await connection.say(CHUNKED + chunk(STREAM))
        await left.wait()
        await connection.say(more)
        await connection.wait_until_gone()

    async with RawServer([go_on_later]) as server:
        stream = await opened(transport, server.base_url)
        async for events in stream.events():
            if b"[DONE]" in events:
                break
        stream.close()
        left.set()
        await server.gone.wait()
        assert 1 == server.connections


async def silence(connection: Connection) -> None:
    """Hear the request and never answer."""
    await connection.wait_until_gone()


async def begin(connection: Connection) -> None:
    """Accept, and send nothing."""
    await connection.say(CHUNKED)
    await connection.wait_until_gone()


async def go_on(connection: Connection) -> None:
    """Send one event and then nothing."""
    await connection.say(CHUNKED + chunk(b"data: a\n\n"))
    await connection.wait_until_gone()


async def test_the_deadline_covers_the_headers(transport: HTTPTransport) -> None:
    """A server that accepts nothing costs no more than that."""
    async with RawServer([silence]) as server:
        with pytest.raises(ProviderFailure) as caught:
            await opened(transport, server.base_url, seconds=SHORT)
        await server.gone.wait()
    assert (FailureKind.TIMEOUT, True) == (caught.value.kind, caught.value.sent)


async def test_cancelling_before_the_headers_closes_the_socket(transport: HTTPTransport) -> None:
    """A client that leaves before the first byte ends the call."""
    async with RawServer([silence]) as server:
        task = asyncio.ensure_future(opened(transport, server.base_url))
        await server.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.gone.wait()


@pytest.mark.parametrize("behaviour", [begin, go_on])
async def test_closing_closes_the_socket(transport: HTTPTransport, behaviour: Behaviour) -> None:
    """Without waiting, before and after the first event, and as often as one likes."""
    async with RawServer([behaviour]) as server:
        stream = await opened(transport, server.base_url)
        if behaviour is go_on:
            assert [b"a"] == await anext(stream.events())
        stream.close()
        stream.close()
        await server.gone.wait()


@pytest.mark.parametrize("behaviour", [begin, go_on])
async def test_cancelling_a_reader_closes_the_socket(
    transport: HTTPTransport, behaviour: Behaviour
) -> None:
    """Who stops waiting for events ends the call."""
    async with RawServer([behaviour]) as server:
        stream = await opened(transport, server.base_url)
        task = asyncio.ensure_future(all_events(stream))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.gone.wait()


async def test_cancelling_closes_the_socket_of_an_upload(transport: HTTPTransport) -> None:
    """A request that the server does not take in is dropped, not written to its end."""
    reading = asyncio.Event()
    gone = asyncio.Event()

    async def refuse_to_read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        reading.set()
        with pytest.raises(asyncio.IncompleteReadError):
            await reader.readexactly(30_000_000)
        writer.close()
        gone.set()

    listener = await asyncio.start_server(refuse_to_read, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"
    task = asyncio.ensure_future(opened(transport, url, body=b"x" * 30_000_000))
    await reading.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await gone.wait()
    listener.close()
    await listener.wait_closed()
