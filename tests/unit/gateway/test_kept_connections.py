"""A connection is used again only while nothing on it could be taken for another call's answer."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

import pytest

from casework.gateway import connection_pool
from casework.gateway.errors import FailureKind
from casework.gateway.transport import HTTPTransport
from tests.support.http_calls import failure, request, within
from tests.support.raw_server import Behaviour, Connection, RawServer, answer, certificate
from tests.support.wire import Wire

SHORT = 0.25
STRAY = answer(body=b"stray")


@pytest.fixture
async def transport() -> AsyncIterator[HTTPTransport]:
    """Return a transport that is let go at the end."""
    made = HTTPTransport()
    yield made
    await made.aclose()


async def said(transport: HTTPTransport, url: str, **changes: object) -> bytes:
    """Return the answer to one request."""
    return await transport.post_json(request(url, **changes), deadline=within(20))


async def test_one_connection_serves_many_calls(transport: HTTPTransport) -> None:
    """Calls that follow one another share a connection, whatever status they bring."""
    replies = [answer(body=b"a"), answer(400), answer(429), answer(500, b"x"), answer(body=b"b")]
    async with RawServer(replies) as server:
        assert b"a" == await said(transport, server.base_url)
        for _ in range(3):
            await failure(transport, server.base_url)
        assert b"b" == await said(transport, server.base_url)
        assert 1 == server.connections


async def test_one_verified_connection_serves_many_calls(tmp_path: Path) -> None:
    """The same holds under TLS."""
    context, trusted = certificate(tmp_path)
    transport = HTTPTransport(ca_file=trusted)
    async with RawServer([answer(body=b"a")], tls=context) as server:
        for _ in range(3):
            assert b"a" == await said(transport, server.base_url)
        assert 1 == server.connections
    await transport.aclose()


@pytest.mark.parametrize(
    "beyond",
    [
        STRAY,
        STRAY[:-3],
        STRAY[:30],
        b"H",
        b"garbage",
        b"\x00",
        answer(408, headers={"Connection": "close"}),
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nst",
    ],
)
async def test_what_comes_in_one_packet_with_an_answer_spoils_the_connection(
    transport: HTTPTransport, beyond: bytes
) -> None:
    """A byte beyond an answer, and the next call gets a new connection."""
    async with RawServer([answer(body=b"a") + beyond, answer(body=b"b")]) as server:
        assert b"a" == await said(transport, server.base_url)
        assert b"b" == await said(transport, server.base_url)
        assert 2 == server.connections


class BlockingServer:
    """Answers from a thread, so that it can speak while the loop of the test does not run.

    On its first connection it says something more when told to; on the next ones it only answers.
    """

    def __init__(self, behave: Callable[[socket.socket], None]) -> None:
        self._behave = behave
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve)
        self._told = threading.Event()
        self._done = threading.Event()
        self._open = ExitStack()
        self.connections = 0

    @property
    def base_url(self) -> str:
        """Return the address for a request."""
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"

    def speak_up(self) -> None:
        """Let the server say what it has to say, and return when its words have arrived."""
        self._told.set()
        assert self._done.wait(20)

    def __enter__(self) -> Self:
        """Listen."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, with every connection closed."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(20)
        self._listener.close()
        self._open.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                self._open.enter_context(peer)
                self.connections += 1
                peer.recv(65536)
                peer.sendall(answer(body=b"%d" % self.connections))
                if self.connections == 1:
                    assert self._told.wait(20)
                    self._behave(peer)
                    self._done.set()


def reset(peer: socket.socket) -> None:
    """End a connection with a reset."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


@pytest.mark.parametrize(
    "behave",
    [
        lambda peer: peer.sendall(STRAY),
        lambda peer: peer.sendall(STRAY[:10]),
        lambda peer: peer.sendall(b"\r\n"),
        lambda peer: peer.sendall(answer(408, headers={"Connection": "close"})),
        lambda peer: peer.shutdown(socket.SHUT_WR),
        lambda peer: peer.close(),
        reset,
    ],
)
async def test_what_has_arrived_counts_before_the_loop_has_read_it(
    transport: HTTPTransport, behave: Callable[[socket.socket], None]
) -> None:
    """Words and closes that wait in the socket when the next call begins spoil the connection."""
    with BlockingServer(behave) as server:
        assert b"1" == await said(transport, server.base_url)
        server.speak_up()
        assert b"2" == await said(transport, server.base_url)
        assert 2 == server.connections


@pytest.mark.parametrize("unasked", [STRAY, STRAY[:10], b"\r\n", answer(408)])
async def test_a_server_that_speaks_on_an_idle_connection_is_hung_up_on(
    transport: HTTPTransport, unasked: bytes
) -> None:
    """Nobody asked, so nobody listens any longer."""
    go = asyncio.Event()

    async def speak_later(connection: Connection) -> None:
        await connection.say(answer(body=b"a"))
        await go.wait()
        await connection.say(unasked)
        await connection.wait_until_gone()

    async with RawServer([speak_later, answer(body=b"b")]) as server:
        assert b"a" == await said(transport, server.base_url)
        go.set()
        await server.gone.wait()
        assert b"b" == await said(transport, server.base_url)
        assert 2 == server.connections


@pytest.mark.parametrize(
    "reply",
    [
        answer(body=b"a", headers={"Connection": "close"}),
        b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na",
    ],
)
async def test_a_server_that_means_to_close_is_believed(
    transport: HTTPTransport, reply: bytes
) -> None:
    """Its word is enough; the close itself is not waited for."""
    async with RawServer([reply]) as server:
        for _ in range(2):
            assert b"a" == await said(transport, server.base_url)
        assert 2 == server.connections


async def test_an_answer_that_came_before_the_request_was_written_spoils_the_connection(
    transport: HTTPTransport,
) -> None:
    """The rest of a long request would be taken for the beginning of the next one."""
    stop = asyncio.Event()

    async def answer_unread(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(answer(body=b"a"))
        await stop.wait()
        writer.close()

    connections = 0

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await answer_unread(reader, writer)

    listener = await asyncio.start_server(count, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/v1"
    for _ in range(2):
        assert b"a" == await said(transport, url, body=b"x" * 30_000_000)
    assert 2 == connections
    stop.set()
    listener.close()
    await listener.wait_closed()


async def test_a_connection_is_not_kept_for_long(
    transport: HTTPTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After its time a connection is closed, and never used in between."""
    monkeypatch.setattr(connection_pool, "IDLE_SECONDS", 0.0)
    async with RawServer([answer(body=b"a")]) as server:
        for _ in range(2):
            assert b"a" == await said(transport, server.base_url)
        assert 2 == server.connections
        await server.gone.wait()


def together(count: int) -> Behaviour:
    """Return a behaviour that answers once so many requests are there."""
    here: list[Connection] = []
    all_here = asyncio.Event()

    async def behave(connection: Connection) -> None:
        here.append(connection)
        if len(here) == count:
            all_here.set()
        await all_here.wait()
        await connection.say(answer(body=b"a"))
        await connection.wait_until_gone()

    return behave


async def test_only_so_many_connections_are_kept(
    transport: HTTPTransport, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a burst leaves beyond the limit is closed at once."""
    monkeypatch.setattr(connection_pool, "IDLE_MAX", 2)
    async with RawServer([together(5)]) as server:
        await asyncio.gather(*(said(transport, server.base_url) for _ in range(5)))
        assert 5 == server.connections
        await server.gone.wait()
        kept = [task for task in server._tasks if not task.done()]
        while len(kept) > 2:
            await asyncio.wait(kept, return_when=asyncio.FIRST_COMPLETED)
            kept = [task for task in kept if not task.done()]
        assert 2 == len(kept)


async def test_calls_beyond_the_connections_wait_their_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """So many requests are under way at once, and each of the others comes after one of them."""
    monkeypatch.setattr(connection_pool, "CONNECTIONS_MAX", 2)
    transport = HTTPTransport()
    async with RawServer([answer(body=b"a")]) as server:
        calls = [said(transport, server.base_url, alone=number % 2 == 0) for number in range(20)]
        assert [b"a"] * 20 == await asyncio.gather(*calls)
        assert 20 == len(server.heard)
    await transport.aclose()


async def silence(connection: Connection) -> None:
    """Hear the request and never answer."""
    await connection.wait_until_gone()


async def test_a_call_that_finds_no_connection_in_time_was_not_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Waiting for one's turn is part of the deadline."""
    monkeypatch.setattr(connection_pool, "CONNECTIONS_MAX", 1)
    transport = HTTPTransport()
    async with RawServer([silence]) as server:
        first = asyncio.ensure_future(said(transport, server.base_url))
        await server.asked.wait()
        found = await failure(transport, server.base_url, seconds=SHORT)
        assert (FailureKind.TIMEOUT, False) == (found.kind, found.sent)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
    await transport.aclose()


async def test_cancelled_calls_leave_their_place_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A hundred calls that leave, waiting or asking, keep no connection from the one after them."""
    monkeypatch.setattr(connection_pool, "CONNECTIONS_MAX", 1)
    transport = HTTPTransport()
    async with RawServer([*[silence] * 50, answer(body=b"a")]) as server:
        for _ in range(50):
            server.asked.clear()
            asking = asyncio.ensure_future(said(transport, server.base_url))
            waiting = asyncio.ensure_future(said(transport, server.base_url))
            await server.asked.wait()
            waiting.cancel()
            asking.cancel()
            assert 2 == len(await asyncio.gather(asking, waiting, return_exceptions=True))
        assert b"a" == await said(transport, server.base_url)
        assert 51 == len(server.heard)
    await transport.aclose()


async def test_connections_that_cannot_be_opened_leave_their_place_to_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A server that is down costs no slot."""
    monkeypatch.setattr(connection_pool, "CONNECTIONS_MAX", 1)
    transport = HTTPTransport()
    async with RawServer([answer()]) as server:
        nobody = server.base_url
    async with RawServer([answer(body=b"b")]) as server:
        for _ in range(3):
            found = await failure(transport, nobody)
            assert (FailureKind.CONNECT_ERROR, False) == (found.kind, found.sent)
        assert b"b" == await said(transport, server.base_url)
    await transport.aclose()


async def test_closing_ends_what_is_under_way(transport: HTTPTransport) -> None:
    """A transport that is closed answers nobody any more, and leaves no connection open."""
    async with RawServer([answer(body=b"a"), silence]) as server:
        await said(transport, server.base_url)
        call = asyncio.ensure_future(failure(transport, server.base_url))
        server.asked.clear()
        await server.asked.wait()
        await transport.aclose()
        found = await call
        assert (FailureKind.CONNECT_ERROR, True) == (found.kind, found.sent)
        await server.gone.wait()


@pytest.mark.parametrize("closing", [False, True])
async def test_a_connection_that_is_closed_as_it_opens_is_not_asked(
    transport: HTTPTransport,
    monkeypatch: pytest.MonkeyPatch,
    closing: bool,  # noqa: FBT001 - a parameter
) -> None:
    """A server that hangs up at once, or a transport that is closed meanwhile: nothing was sent."""
    wire = Wire()

    async def open_and_close(
        factory: Callable[[], asyncio.Protocol], *_: object, **__: object
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        protocol = factory()
        protocol.connection_made(wire)
        if closing:
            await transport.aclose()
        else:
            protocol.connection_lost(None)
        return wire, protocol

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", open_and_close)
    found = await failure(transport, "http://127.0.0.1:1/v1")
    assert (FailureKind.CONNECT_ERROR, False) == (found.kind, found.sent)
    assert (b"", closing) == (wire.written, wire.closed)
    wire.close_sockets()
