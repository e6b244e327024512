"""One POST goes out, at most one answer comes back, and nothing else happens on any socket."""

from __future__ import annotations

import asyncio
import errno
import gzip
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from casework.gateway.clock import Deadline, ManualClock
from casework.gateway.connection_pool import ConnectionPool
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.messages import Credential
from casework.gateway.transport import HTTPTransport
from tests.support.http_calls import CANARY, failure, request, within
from tests.support.raw_server import Connection, RawServer, answer

SHORT = 0.25


@pytest.fixture
async def transport() -> AsyncIterator[HTTPTransport]:
    """Return a transport that is let go at the end."""
    made = HTTPTransport()
    yield made
    await made.aclose()


async def test_one_request_goes_out_as_told(transport: HTTPTransport) -> None:
    """Method, path, headers and body are exactly those, and no more of them."""
    async with RawServer([answer(body=b"hello")]) as server:
        sent = request(f"{server.base_url}/x", credential=Credential("K#1", CANARY))
        assert b"hello" == await transport.post_json(sent, deadline=within(20))
        (heard,) = server.heard
    assert "POST /v1/x HTTP/1.1" == heard.line
    assert b'{"x": 1}' == heard.body
    assert {
        "host": f"127.0.0.1:{server.port}",
        "accept": "application/json",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "user-agent": "casework",
        "authorization": f"Bearer {CANARY}",
        "content-length": "8",
    } == heard.headers


async def test_a_request_may_ask_for_a_connection_of_its_own(transport: HTTPTransport) -> None:
    """Such a request uses no kept connection, says so, and leaves none behind."""
    async with RawServer([answer(body=b"a")]) as server:
        for alone in (True, False, True, False):
            sent = request(server.base_url, alone=alone)
            assert b"a" == await transport.post_json(sent, deadline=within(20))
        assert 3 == server.connections
    assert ["close", None, "close", None] == [
        heard.headers.get("connection") for heard in server.heard
    ]


async def test_201_is_an_answer_too(transport: HTTPTransport) -> None:
    """Two statuses are accepted."""
    async with RawServer([answer(201, b"made")]) as server:
        assert b"made" == await transport.post_json(request(server.base_url), deadline=within(20))


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (204, FailureKind.HTTP_ERROR),
        (302, FailureKind.REDIRECT_REJECTED),
        (401, FailureKind.AUTH_ERROR),
        (404, FailureKind.HTTP_ERROR),
        (408, FailureKind.HTTP_408),
        (429, FailureKind.HTTP_429),
        (500, FailureKind.HTTP_5XX),
        (529, FailureKind.HTTP_5XX),
    ],
)
async def test_a_status_becomes_its_kind_after_one_call(
    transport: HTTPTransport, status: int, kind: FailureKind
) -> None:
    """A failing status is told with its number, and nothing is sent again."""
    headers = {"Retry-After": "7", "Location": f"/{CANARY}"}
    body = b"" if status == 204 else CANARY.encode()
    async with RawServer([answer(status, body, headers=headers)]) as server:
        found = await failure(transport, server.base_url)
        assert 1 == len(server.heard)
    assert (kind, status, 7.0, True) == (
        found.kind,
        found.http_status,
        found.retry_after_seconds,
        found.sent,
    )


async def test_a_redirect_is_not_followed(transport: HTTPTransport) -> None:
    """The place that a redirect names is never contacted, and gets no key."""
    async with RawServer([answer()]) as other:
        for status in (301, 302, 303, 307, 308):
            headers = {"Location": f"{other.base_url}/x"}
            async with RawServer([answer(status, headers=headers)]) as server:
                found = await failure(transport, server.base_url)
            assert FailureKind.REDIRECT_REJECTED is found.kind
        assert 0 == other.connections


async def test_an_error_status_is_told_without_its_body(transport: HTTPTransport) -> None:
    """A 503 whose body never comes does not cost the deadline."""

    async def stall(connection: Connection) -> None:
        await connection.say(b"HTTP/1.1 503 X\r\nContent-Length: 100\r\n\r\n")
        await connection.wait_until_gone()

    async with RawServer([stall]) as server:
        found = await failure(transport, server.base_url)
        await server.gone.wait()
    assert FailureKind.HTTP_5XX is found.kind


async def test_the_codes_of_a_400_are_read_within_limits(transport: HTTPTransport) -> None:
    """An explanation is read up to a limit; a larger or broken one leaves the status."""
    code = b'{"error": {"type": "exceed_context_size_error"}}'
    replies = [
        answer(400, code),
        answer(400, code + b" " * 70_000),
        answer(400, b"?" + code, headers={"Content-Encoding": "br"}),
    ]
    async with RawServer(replies) as server:
        kinds = [(await failure(transport, server.base_url)).kind for _ in replies]
    assert [FailureKind.CONTEXT_TOO_LONG, FailureKind.HTTP_ERROR, FailureKind.HTTP_ERROR] == kinds


@pytest.mark.parametrize("chunked", [True, False])
async def test_a_body_is_read_up_to_its_limit(transport: HTTPTransport, chunked: bool) -> None:  # noqa: FBT001 - a parameter
    """Exactly the limit is an answer; one byte more is given up."""

    def body(size: int) -> bytes:
        if not chunked:
            return answer(body=b"x" * size)
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        return head + b"%x\r\n" % size + b"x" * size + b"\r\n0\r\n\r\n"

    async with RawServer([body(1000), body(1001)]) as server:
        sent = request(server.base_url)
        assert 1000 == len(await transport.post_json(sent, deadline=within(20)))
        found = await failure(transport, server.base_url)
    assert (FailureKind.RESPONSE_TOO_LARGE, True) == (found.kind, found.sent)


async def test_an_endless_body_is_given_up_while_it_is_read(transport: HTTPTransport) -> None:
    """A server that never stops talking is hung up on."""

    async def flood(connection: Connection) -> None:
        await connection.say(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            await connection.say(b"x" * 100_000)

    async with RawServer([flood]) as server:
        found = await failure(transport, server.base_url)
        await server.gone.wait()
    assert FailureKind.RESPONSE_TOO_LARGE is found.kind


async def test_an_announced_size_is_not_waited_for(transport: HTTPTransport) -> None:
    """A Content-Length over the limit ends the call before its body."""

    async def announce(connection: Connection) -> None:
        await connection.say(b"HTTP/1.1 200 OK\r\nContent-Length: 999999999\r\n\r\n")
        await connection.wait_until_gone()

    async with RawServer([announce]) as server:
        found = await failure(transport, server.base_url)
        await server.gone.wait()
    assert FailureKind.RESPONSE_TOO_LARGE is found.kind


@pytest.mark.parametrize(
    ("encoding", "body", "kind"),
    [
        ("gzip", gzip.compress(b"\0" * 50_000_000), FailureKind.RESPONSE_TOO_LARGE),
        ("gzip", gzip.compress(b"\0" * 60_001), FailureKind.RESPONSE_TOO_LARGE),
        ("br", b"x", FailureKind.MALFORMED_RESPONSE),
        ("zstd", b"x", FailureKind.MALFORMED_RESPONSE),
        ("gzip", b"no gzip", FailureKind.MALFORMED_RESPONSE),
    ],
)
async def test_packed_bodies_are_unpacked_within_limits(
    transport: HTTPTransport, encoding: str, body: bytes, kind: FailureKind
) -> None:
    """A bomb, an unknown packing and a mislabelled one are refused."""
    async with RawServer([answer(body=body, headers={"Content-Encoding": encoding})]) as server:
        found = await failure(transport, server.base_url, response_bytes_max=60_000)
    assert kind is found.kind


async def test_a_packed_answer_is_an_answer(transport: HTTPTransport) -> None:
    """A server that packs unasked is understood."""
    packed = answer(body=gzip.compress(b"hello"), headers={"Content-Encoding": "gzip"})
    async with RawServer([packed]) as server:
        assert b"hello" == await transport.post_json(request(server.base_url), deadline=within(20))


async def silence(connection: Connection) -> None:
    """Hear the request and never answer."""
    await connection.wait_until_gone()


async def drip(connection: Connection) -> None:
    """Begin an answer and never end it."""
    await connection.say(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nx")
    await connection.wait_until_gone()


@pytest.mark.parametrize("behaviour", [silence, drip])
async def test_the_deadline_covers_the_last_byte(transport: HTTPTransport, behaviour: Any) -> None:
    """Silence and a stalled body end at the deadline, with the socket closed."""
    async with RawServer([behaviour]) as server:
        found = await failure(transport, server.base_url, seconds=SHORT)
        await server.gone.wait()
    assert (FailureKind.TIMEOUT, True) == (found.kind, found.sent)


async def test_the_deadline_covers_name_look_up(
    transport: HTTPTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resolver that hangs costs no more than the deadline, and nothing was sent."""

    async def hang(*_: object, **__: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", hang)
    found = await failure(transport, "http://slow.example/v1", seconds=SHORT)
    assert (FailureKind.TIMEOUT, False) == (found.kind, found.sent)


async def test_a_deadline_that_has_passed_sends_nothing(transport: HTTPTransport) -> None:
    """No connection is opened for a call that is already late."""
    async with RawServer([answer()]) as server:
        clock = ManualClock()
        deadline = Deadline.after(1, clock)
        clock.advance(2)
        with pytest.raises(ProviderFailure) as caught:
            await transport.post_json(request(server.base_url), deadline=deadline)
        assert 0 == server.connections
    assert (FailureKind.TIMEOUT, False) == (caught.value.kind, caught.value.sent)


@pytest.mark.parametrize("behaviour", [silence, drip])
async def test_cancelling_closes_the_socket(transport: HTTPTransport, behaviour: Any) -> None:
    """The server sees the end of a call that nobody waits for any more."""
    async with RawServer([behaviour]) as server:
        task = asyncio.ensure_future(
            transport.post_json(request(server.base_url), deadline=within(20))
        )
        await server.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await server.gone.wait()


async def test_an_unresolvable_name_is_told_apart(
    transport: HTTPTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that does not resolve was never sent anything."""

    async def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", fail)
    found = await failure(transport, "http://none.example/v1")
    assert (FailureKind.DNS_ERROR, False) == (found.kind, found.sent)


@pytest.mark.parametrize("name", ["localhost", "LocalHost"])
async def test_localhost_asks_no_resolver(
    transport: HTTPTransport, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A hosts file cannot send a local call elsewhere."""

    async def never(*_: object, **__: object) -> None:
        raise AssertionError("a resolver was asked")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", never)
    async with RawServer([answer(body=b"here")]) as server:
        url = server.base_url.replace("127.0.0.1", name)
        assert b"here" == await transport.post_json(request(url), deadline=within(20))


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
async def test_no_server_is_blamed_for_what_this_machine_lacks(
    transport: HTTPTransport, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Where no file is left for a connection, nobody was asked, and a moment later somebody may."""

    async def refuse(*_: object) -> None:
        raise OSError(number, "Too many open files")

    monkeypatch.setattr(ConnectionPool, "_opened", refuse)
    found = await failure(transport, "http://127.0.0.1:1/v1")
    assert (FailureKind.LIMIT_REACHED, False) == (found.kind, found.sent)
    assert 1.0 == found.retry_after_seconds


async def test_a_closed_port_is_a_connect_error(transport: HTTPTransport) -> None:
    """Nobody listening means that nothing was sent."""
    async with RawServer([answer()]) as server:
        url = server.base_url
    found = await failure(transport, url)
    assert (FailureKind.CONNECT_ERROR, False) == (found.kind, found.sent)


async def reset_at_once(connection: Connection) -> None:
    """Answer with a reset."""
    connection.reset()


async def cut_headers(connection: Connection) -> None:
    """Close in the middle of the headers."""
    await connection.say(b"HTTP/1.1 200 OK\r\nContent-")


async def cut_body(connection: Connection) -> None:
    """Close in the middle of the body."""
    await connection.say(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nxxx")


async def cut_chunk(connection: Connection) -> None:
    """Close in the middle of a chunk."""
    await connection.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nxx")


async def close_at_once(connection: Connection) -> None:
    """Close without a word."""


@pytest.mark.parametrize(
    "behaviour", [reset_at_once, close_at_once, cut_headers, cut_body, cut_chunk]
)
async def test_a_broken_connection_is_not_tried_again(
    transport: HTTPTransport, behaviour: Any
) -> None:
    """Whenever the connection breaks, the request was heard once and may have been sent."""
    async with RawServer([behaviour]) as server:
        found = await failure(transport, server.base_url)
        assert 1 == len(server.heard)
        assert 1 == server.connections
    assert (FailureKind.CONNECT_ERROR, True) == (found.kind, found.sent)


@pytest.mark.parametrize(
    "reply",
    [
        b"HELLO\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000 + b"\r\n",
        b"HTTP/1.1 999 Odd\r\nContent-Length: 0\r\n\r\n",
    ],
)
async def test_what_is_no_http_is_malformed(transport: HTTPTransport, reply: bytes) -> None:
    """A server that does not speak the protocol gives no answer."""
    async with RawServer([reply]) as server:
        found = await failure(transport, server.base_url)
    assert FailureKind.MALFORMED_RESPONSE is found.kind


async def test_a_connection_closed_while_idle_is_not_used(transport: HTTPTransport) -> None:
    """A server that closes idle connections costs no call."""

    async def answer_and_close(connection: Connection) -> None:
        await connection.say(answer(body=b"a"))

    async with RawServer([answer_and_close]) as server:
        for _ in range(3):
            sent = request(server.base_url)
            assert b"a" == await transport.post_json(sent, deadline=within(20))
            await server.gone.wait()
            server.gone.clear()
        assert 3 == len(server.heard)


async def test_a_connection_that_dies_under_a_request_is_not_replayed(
    transport: HTTPTransport,
) -> None:
    """A connection that breaks after the request was heard ends the call."""
    async with RawServer([answer(body=b"a"), close_at_once, answer(body=b"c")]) as server:
        await transport.post_json(request(server.base_url), deadline=within(20))
        found = await failure(transport, server.base_url)
        assert 2 == len(server.heard)
        assert 1 == server.connections
    assert (FailureKind.CONNECT_ERROR, True) == (found.kind, found.sent)


async def test_what_a_server_says_unasked_answers_no_later_call(transport: HTTPTransport) -> None:
    """A second answer behind the first one belongs to nobody."""
    twice = answer(body=b"a") + answer(body=b"stray")
    async with RawServer([twice, answer(body=b"b")]) as server:
        sent = request(server.base_url)
        first = await transport.post_json(sent, deadline=within(20))
        second = await transport.post_json(sent, deadline=within(20))
        assert (b"a", b"b") == (first, second)
        assert 2 == server.connections


async def test_many_calls_at_once_have_a_connection_each(transport: HTTPTransport) -> None:
    """Calls that are under way together never share one."""
    async with RawServer([answer(body=b"a")]) as server:
        sent = [request(server.base_url)] * 300
        calls = [transport.post_json(one, deadline=within(20)) for one in sent]
        assert {b"a"} == set(await asyncio.gather(*calls))
        assert 300 == len(server.heard)
        assert 300 == server.connections


def test_one_transport_serves_several_loops() -> None:
    """Each event loop has connections of its own, closed before it ends."""
    transport = HTTPTransport()

    async def once() -> bytes:
        async with RawServer([answer(body=b"a")]) as server:
            found = await transport.post_json(request(server.base_url), deadline=within(20))
            await transport.aclose()
        return found

    assert [b"a", b"a"] == [asyncio.run(once()) for _ in range(2)]


def test_a_request_prints_neither_address_nor_body() -> None:
    """What is printed by accident holds nothing."""
    printed = repr(
        request(f"http://{CANARY}/v1", body=CANARY.encode(), credential=Credential("K", CANARY))
    )
    assert CANARY not in printed
