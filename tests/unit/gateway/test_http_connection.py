"""An answer means the same, whatever pieces it arrives in, and nothing in it grows without end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from itertools import pairwise
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.gateway.content_encodings import BodyTooLargeError
from casework.gateway.http_connection import (
    BUFFER_BYTES_MAX,
    HEAD_BYTES_MAX,
    Answer,
    Connection,
    ConnectionBrokenError,
    NotHTTPError,
    Origin,
)
from tests.support.wire import Wire

Result = TypeVar("Result")

HEAD = b"HTTP/1.1 200 OK\r\nX: y\r\n"
TEXT = b"hello, world"
CHUNKED = b"Transfer-Encoding: chunked\r\n\r\n"


class Owner:
    """Hears what becomes of connections."""

    def __init__(self) -> None:
        self.heard: list[bool | None] = []

    def ended(self, connection: Connection, *, kept: bool) -> None:
        """Hear of the end of a request."""
        self.heard.append(kept)

    def lost(self, connection: Connection) -> None:
        """Hear of the end of a connection."""
        self.heard.append(None)


class Exchange:
    """One request whose answer a test writes."""

    def __init__(self) -> None:
        self.owner = Owner()
        self.wire = Wire()
        self.connection = Connection(self.owner, Origin("h", 1, tls=False))
        self.connection.connection_made(self.wire)
        self.answer: Answer = self.connection.ask((b"head", b"body"), last=False)

    def feed(self, *pieces: bytes) -> None:
        """Let bytes arrive."""
        for piece in pieces:
            if not self.wire.closed:
                self.connection.data_received(piece)


@pytest.fixture
def exchange() -> Iterator[type[Exchange]]:
    """Return what makes exchanges, and close their sockets at the end."""
    made: list[Exchange] = []

    class Kept(Exchange):
        def __init__(self) -> None:
            super().__init__()
            made.append(self)

    yield Kept
    for one in made:
        one.wire.close_sockets()


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Run one coroutine in a loop of its own."""
    return asyncio.run(main)


ANSWERS = {
    "length": HEAD + b"Content-Length: 12\r\n\r\n" + TEXT,
    "chunks": HEAD + CHUNKED + b"5\r\nhello\r\n7;x=y\r\n, world\r\n0\r\n\r\n",
    "trailers": HEAD + CHUNKED + b"c\r\nhello, world\r\n0\r\nRetry-After: 9\r\n\r\n",
    "sloppy": b"HTTP/1.1 200\nTransfer-encoding:Chunked\n\n"
    b"5  \r\nhello\r\n7 \r\n, world\r\n0\r\n\r\n",
    "interim": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nRetry-After: 9\r\n\r\n"
    + HEAD
    + b"Content-Length: 12\r\n\r\n"
    + TEXT,
    "fields": HEAD + b"retry-AFTER: 7\r\nContent-Encoding: a\r\nContent-Encoding: b\r\n"
    b"Content-Length: 12\r\n\r\n" + TEXT,
}


def pieces_of(content: bytes, places: list[int]) -> list[bytes]:
    """Cut bytes at some places."""
    edges = [0, *sorted(place % (len(content) + 1) for place in places), len(content)]
    pieces = [content[begin:end] for begin, end in pairwise(edges)]
    return [piece for piece in pieces if piece]


@pytest.mark.parametrize("name", ANSWERS)
@given(places=st.lists(st.integers(0, 400), max_size=20))
def test_any_cut_gives_the_same_answer(name: str, places: list[int]) -> None:
    """However it is framed and cut, status, headers and body are those, and all is then over."""

    async def one() -> None:
        exchange = Exchange()
        exchange.feed(*pieces_of(ANSWERS[name], places))
        await exchange.answer.head()
        assert 200 == exchange.answer.status
        assert TEXT == await exchange.answer.whole(12)
        fields = ("7", "a,b") if name == "fields" else (None, None)
        told = exchange.answer.field(b"retry-after"), exchange.answer.field(b"content-encoding")
        assert fields == told
        assert [True] == exchange.owner.heard
        assert b"headbody" == exchange.wire.written
        exchange.wire.close_sockets()

    run(one())


@given(st.sampled_from([*ANSWERS]), st.integers(1, 40), st.lists(st.integers(0, 400), max_size=9))
def test_one_byte_beyond_an_answer_spoils_it_for_all(
    name: str, beyond: int, places: list[int]
) -> None:
    """Wherever it is cut, a connection that says more than an answer is closed."""

    async def one() -> None:
        exchange = Exchange()
        content = ANSWERS[name] + ANSWERS["length"][:beyond]
        exchange.feed(*pieces_of(content, places))
        await exchange.answer.head()
        assert TEXT == await exchange.answer.whole(12)
        assert exchange.wire.closed
        exchange.wire.close_sockets()

    run(one())


async def test_a_body_without_an_end_ends_with_the_connection(exchange: type[Exchange]) -> None:
    """Old servers say all they have and hang up."""
    one = exchange()
    one.feed(HEAD + b"\r\nhello")
    await one.answer.head()
    one.feed(b", world")
    one.connection.eof_received()
    assert TEXT == await one.answer.whole(12)
    assert one.wire.closed
    assert [False] == one.owner.heard


@pytest.mark.parametrize("framing", [b"Content-Length: 12\r\n\r\n", CHUNKED + b"c\r\n", b"\r\n"])
async def test_a_reset_ends_no_body(exchange: type[Exchange], framing: bytes) -> None:
    """What was cut off is told as such, after what came before it."""
    one = exchange()
    one.feed(HEAD + framing + b"hello")
    one.connection.connection_lost(ConnectionResetError())
    await one.answer.head()
    assert b"hello" == await one.answer.piece()
    with pytest.raises(ConnectionBrokenError):
        await one.answer.piece()


@pytest.mark.parametrize(
    "content",
    [
        b"HTTP/1.1 200 " + b"x" * 200_000,
        HEAD + b"X: " + b"y" * 200_000,
        HEAD + b"y" * 200_000,
        HEAD + b"X: y\r\n" * 6_000,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 2_000,
        b"HTTP/1.1 103 Early\r\nX: y\r\n\r\n" * 6_000,
        HEAD + CHUNKED + b"5;" + b"x" * 200_000,
        HEAD + CHUNKED + b"5\r\nhello\r\n0\r\nX: " + b"y" * 200_000,
        HEAD + CHUNKED + b"5\r\nhello\r\n0\r\n" + b"X: y\r\n" * 6_000,
    ],
)
@pytest.mark.parametrize("size", [100, HEAD_BYTES_MAX - 1])
async def test_what_frames_an_answer_is_bounded(
    exchange: type[Exchange], content: bytes, size: int
) -> None:
    """Lines, headers, interim answers, extensions and trailers end sooner or later."""
    one = exchange()
    one.feed(*(content[place : place + size] for place in range(0, len(content), size)))
    with pytest.raises(NotHTTPError):
        await one.answer.whole(1_000_000)
    assert one.wire.closed


@pytest.mark.parametrize(
    "content",
    [
        b"SSH-2.0-x\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        HEAD + b"Content-Length: 5\r\n" + CHUNKED,
        HEAD + b"Content-Length: -5\r\n\r\n",
        HEAD + CHUNKED + b"xyz\r\n",
        b"HTTP/1.1 101 Switch\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n",
    ],
)
async def test_what_could_be_read_two_ways_is_not_read(
    exchange: type[Exchange], content: bytes
) -> None:
    """Two lengths, none that is a number, or another protocol: no answer."""
    one = exchange()
    one.feed(content)
    with pytest.raises(NotHTTPError):
        await one.answer.whole(1000)
    assert one.wire.closed


async def test_a_body_that_nobody_reads_is_not_read_on(exchange: type[Exchange]) -> None:
    """The server waits while its words wait, and goes on when they are fetched."""
    one = exchange()
    one.feed(HEAD + b"Content-Length: 1000000\r\n\r\n", b"x" * BUFFER_BYTES_MAX)
    assert one.wire.reading
    one.feed(b"x")
    assert not one.wire.reading
    await one.answer.head()
    assert BUFFER_BYTES_MAX + 1 == len(await one.answer.piece())
    assert not one.wire.reading
    further = asyncio.ensure_future(one.answer.piece())
    await asyncio.sleep(0)
    assert one.wire.reading
    one.feed(b"yz")
    assert b"yz" == await further


async def test_a_connection_whose_answer_is_complete_is_read_again(
    exchange: type[Exchange],
) -> None:
    """A kept connection hears what a server says unasked, though its last answer was long."""
    one = exchange()
    size = BUFFER_BYTES_MAX + 1
    one.feed(HEAD + b"Content-Length: %d\r\n\r\n" % size + b"x" * size)
    assert [True] == one.owner.heard
    assert one.wire.reading


async def test_a_whole_body_is_read_on_to_its_limit(exchange: type[Exchange]) -> None:
    """Who waits for all of it has room for all of it."""
    one = exchange()
    size = 3 * BUFFER_BYTES_MAX
    one.feed(HEAD + b"Content-Length: %d\r\n\r\n" % size, b"x" * (BUFFER_BYTES_MAX + 1))
    await one.answer.head()
    whole = asyncio.ensure_future(one.answer.whole(size))
    await asyncio.sleep(0)
    assert one.wire.reading
    one.feed(b"x" * (size - BUFFER_BYTES_MAX - 1))
    assert size == len(await whole)
    assert [True] == one.owner.heard


async def test_a_body_over_its_limit_is_refused_however_it_came(exchange: type[Exchange]) -> None:
    """Said to be too long, too long before it was waited for, or after."""
    said, early, late = exchange(), exchange(), exchange()
    said.feed(HEAD + b"Content-Length: 6\r\n\r\n")
    early.feed(HEAD + CHUNKED + b"6\r\nabcdef\r\n0\r\n\r\n")
    late.feed(HEAD + CHUNKED)
    waits = asyncio.ensure_future(late.answer.whole(5))
    await asyncio.sleep(0)
    late.feed(b"6\r\nabcdef\r\n")
    for whole in (said.answer.whole(5), early.answer.whole(5), waits):
        with pytest.raises(BodyTooLargeError):
            await whole
    assert [True, False, True] == [said.wire.closed, early.wire.closed, late.wire.closed]


async def test_an_answer_that_is_given_up_is_given_up_once(exchange: type[Exchange]) -> None:
    """Closing and expiring again change nothing, and a complete answer stays what it is."""
    one, done = exchange(), exchange()
    for _ in range(2):
        one.answer.close()
        one.answer.expire()
    assert [False] == one.owner.heard
    with pytest.raises(ConnectionBrokenError):
        await one.answer.head()
    done.feed(ANSWERS["length"])
    done.answer.close()
    done.answer.expire()
    assert TEXT == await done.answer.whole(12)
    assert [True] == done.owner.heard
