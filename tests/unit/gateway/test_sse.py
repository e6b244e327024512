"""A stream means the same, whatever pieces it arrives in."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.gateway.sse import EventReader, EventTooLongError

PLENTY = 100_000


def read(*pieces: bytes, bytes_max: int = PLENTY) -> list[bytes]:
    """Return the events of a whole stream."""
    reader = EventReader(bytes_max)
    events = [event for piece in pieces for event in reader.feed(piece)]
    return events + reader.end()


def told(reader: EventReader, piece: bytes | None) -> list[bytes]:
    """Return the events of one piece, or of the end."""
    return reader.end() if piece is None else reader.feed(piece)


def by_the_book(stream: bytes) -> list[bytes]:
    """Read a stream line by line, as the standard tells it; slow and plain."""
    events: list[bytes] = []
    lines: list[bytes] = []
    stream = stream.removeprefix(b"\xef\xbb\xbf")
    for line in [*re.split(rb"\r\n|\r|\n", stream), b""]:
        name, _, value = line.partition(b":")
        if line == b"":
            if lines:
                events.append(b"\n".join(lines))
            lines = []
        elif name == b"data":
            lines.append(value.removeprefix(b" "))
    return events


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    """Cut a stream at some places."""
    edges = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    return [stream[begin:end] for begin, end in pairwise(edges)]


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"", []),
        (b'data: {"a": 1}\n\ndata: [DONE]\n\n', [b'{"a": 1}', b"[DONE]"]),
        (b"data:x\n\n", [b"x"]),
        (b"data:  x \n\n", [b" x "]),
        (b"data: a\ndata: b\ndata\n\n", [b"a\nb\n"]),
        (b"data:\n\n", [b""]),
        (b": comment\n\n:\n\ndata: a\n: within\n\n", [b"a"]),
        (b"event: x\nid: 1\nretry: 5\n\nevent: y\ndata: a\nid: 2\n\n", [b"a"]),
        (b"data: a\r\rdata: b\r\n\r\ndata: c\n\r\n", [b"a", b"b", b"c"]),
        (b"\n\n\ndata: a\n\n\n\ndata: b\n\n", [b"a", b"b"]),
        (b"\xef\xbb\xbfdata: a\n\n", [b"a"]),
        (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", []),
        (b"data: a\n\n\xef\xbb\xbfdata: b\n\n", [b"a"]),
        (b"Data: a\n\n data: b\n\ndatum: c\n\n", []),
        (b"data: a\x00\x0b\x0c\x85\xe2\x80\xa8b\n\n", [b"a\x00\x0b\x0c\x85\xe2\x80\xa8b"]),
    ],
)
def test_a_stream_is_read_as_the_standard_tells(stream: bytes, events: list[bytes]) -> None:
    """Each rule of the standard, read at once and byte by byte."""
    assert events == read(stream)
    assert events == read(*(bytes([byte]) for byte in stream))


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r", b"\r\n"])
def test_an_event_that_the_end_leaves_unfinished_is_told(ending: bytes) -> None:
    """Many servers end without the last blank line."""
    assert [b"a", b"[DONE]"] == read(b"data: a\n\ndata: [DONE]" + ending)


def test_an_event_is_told_with_its_last_byte() -> None:
    """A carriage return that ends an event is not kept waiting for a line feed."""
    reader = EventReader(PLENTY)
    assert [] == reader.feed(b"data: a\r\n")
    assert [b"a"] == reader.feed(b"\r")
    assert [] == reader.feed(b"\ndata: b\n")
    assert [b"b"] == reader.feed(b"\n")


def test_a_character_may_be_cut_anywhere() -> None:
    """Bytes are joined before anybody reads characters."""
    text = "한국어 🦜".encode()
    pieces = (bytes([byte]) for byte in b"data: " + text + b"\n\n")
    assert [text] == read(*pieces)


PIECES = st.sampled_from(
    [
        *(b"data: ", b"data:", b"data", b"data: {}\n\n", b'data: {"a": "b"}\n\n', b"event: x\n"),
        *(b"\n", b"\n\n", b"\r", b"\r\n", b"\r\r", b"\r\n\r\n", b"\n\r", b":", b": c\n", b" "),
        *(b"\xef\xbb\xbf", "é🦜".encode(), b"x", b"\n\ndata: "),
    ]
)


@given(st.lists(PIECES, max_size=30), st.lists(st.integers(0, 1000), max_size=12))
def test_any_cut_gives_the_same_events(parts: list[bytes], places: list[int]) -> None:
    """Read whole or in pieces, a stream says what a plain reader of its lines finds."""
    stream = b"".join(parts)
    expected = by_the_book(stream)
    assert expected == read(stream)
    assert expected == read(*cut(stream, places))


@pytest.mark.parametrize(
    "stream",
    [
        b"data: " + b"x" * 95 + b"\n\n",
        b": " + b"x" * 99 + b"\n\n",
        b"x" * 101,
        b"data: " + b"x" * 200_000,
        b"data: xxxx\n" * 21 + b"\n",
        b"data\n" * 101,
    ],
)
def test_what_is_too_long_is_told_after_what_came_before(stream: bytes) -> None:
    """No line and no event outgrows its limit, and the events before it are not lost."""
    for pieces in ([b"data: a\n\n" + stream], cut(b"data: a\n\n" + stream, [*range(0, 300, 7)])):
        reader = EventReader(100)
        events: list[bytes] = []
        with pytest.raises(EventTooLongError):
            events.extend(event for piece in [*pieces, None] for event in told(reader, piece))
        assert [b"a"] == events


def test_what_just_fits_is_told() -> None:
    """The limit itself is allowed, for a line and for an event of many."""
    line = b"data: " + b"x" * 94
    assert [b"x" * 94] == read(line + b"\n\n", bytes_max=100)
    lines = b"data: xxxx\n" * 20
    assert [b"xxxx\n" * 19 + b"xxxx"] == read(lines + b"\n", bytes_max=100)
