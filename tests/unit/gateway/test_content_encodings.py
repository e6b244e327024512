"""A packed body is unpacked, never beyond its limit, and a wrong label is seen through."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator

import brotli
import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from casework.gateway.content_encodings import (
    PIECE_BYTES_MAX,
    BadBodyError,
    BodyTooLargeError,
    Unpacker,
    unpacked,
)

PLAIN = b'{"choices": []}' * 10
EVENT = b'data: {"a": 1}\n\n'


def raw_deflate(body: bytes) -> bytes:
    """Deflate without the wrapping that the standard demands."""
    return zlib.compress(body)[2:-4]


PACKED = [
    ("gzip", gzip.compress),
    ("x-gzip", gzip.compress),
    ("deflate", zlib.compress),
    ("deflate", raw_deflate),
    ("br", brotli.compress),
    ("zstd", zstd.compress),
]


def bit_by_bit(body: bytes, encoding: str, size: int) -> bytes:
    """Unpack a body that arrives in pieces of some size."""

    def pieces() -> Iterator[bytes]:
        unpacker = Unpacker(encoding)
        for place in range(0, len(body), size):
            yield from unpacker.feed(body[place : place + size])
        yield from unpacker.end()

    return b"".join(pieces())


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        *((name, pack(PLAIN)) for name, pack in PACKED),
        ("", PLAIN),
        ("identity", PLAIN),
        (" GZIP ", gzip.compress(PLAIN)),
        ("gzip", gzip.compress(PLAIN[:70]) + gzip.compress(PLAIN[70:])),
        ("zstd", zstd.compress(PLAIN[:70]) + zstd.compress(PLAIN[70:])),
        ("gzip, br", brotli.compress(gzip.compress(PLAIN))),
        ("zstd,identity,,deflate", zlib.compress(zstd.compress(PLAIN))),
        (
            "gzip, br, zstd, deflate",
            zlib.compress(zstd.compress(brotli.compress(gzip.compress(PLAIN)))),
        ),
    ],
)
def test_known_encodings_are_undone(encoding: str, body: bytes) -> None:
    """Every coding and chain of codings is undone, from the outside, whole or in pieces."""
    assert PLAIN == unpacked(body, encoding, len(PLAIN))
    assert PLAIN == bit_by_bit(body, encoding, 1)
    assert PLAIN == bit_by_bit(body, encoding, 7)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, br"])
@pytest.mark.parametrize("body", [PLAIN, b" \n{ }", EVENT, b": ping\n\n", b"event: x\n"])
def test_a_plain_body_under_a_wrong_label_is_taken_as_it_is(encoding: str, body: bytes) -> None:
    """A proxy that unpacked a body and left its header costs no answer."""
    assert body == unpacked(body, encoding, 1000)
    assert body == bit_by_bit(body, encoding, 1)


@pytest.mark.parametrize("encoding", ["deflate", "br", "zstd", "gzip"])
@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress])
def test_a_magic_number_counts_for_more_than_the_label(encoding: str, pack: object) -> None:
    """What the first bytes show beyond doubt is believed."""
    assert callable(pack)
    assert PLAIN == unpacked(pack(PLAIN), encoding, 1000)


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd"])
def test_an_empty_body_is_empty(encoding: str) -> None:
    """Nothing unpacks to nothing."""
    assert b"" == unpacked(b"", encoding, 1000)


@pytest.mark.parametrize(("encoding", "pack"), PACKED)
def test_a_bomb_is_left_packed(encoding: str, pack: object) -> None:
    """A body is given up before it grows beyond its limit, and no piece is large."""
    assert callable(pack)
    bomb = pack(b"\0" * 50_000_000)
    with pytest.raises(BodyTooLargeError):
        unpacked(bomb, encoding, 1_000_000)
    assert 2 * PIECE_BYTES_MAX >= max(map(len, Unpacker(encoding).feed(bomb)))


def test_a_limit_is_exact() -> None:
    """A body of exactly the limit is one; one byte more is too many, packed or not."""
    assert PLAIN == unpacked(gzip.compress(PLAIN), "gzip", len(PLAIN))
    for encoding, body in (("gzip", gzip.compress(PLAIN)), ("identity", PLAIN)):
        with pytest.raises(BodyTooLargeError):
            unpacked(body, encoding, len(PLAIN) - 1)


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        *((name, b"<html>no</html>") for name, _ in PACKED),
        *((name, pack(PLAIN)[:-5]) for name, pack in PACKED),
        *((name, pack(PLAIN) + b"garbage") for name, pack in PACKED),
        ("compress", PLAIN),
        ("gzip;q=1", gzip.compress(PLAIN)),
        ("deflate, raw", zlib.compress(PLAIN)),
        ("gzip,gzip,gzip,gzip,gzip", PLAIN),
        ("gzip", gzip.compress(b"") * 100_000),
        ("zstd", zstd.compress(b"") * 100_000),
        ("gzip", gzip.compress(b"a") * 50_000),
        ("zstd", zstd.compress(b"a") * 50_000),
    ],
)
def test_what_does_not_unpack_is_refused(encoding: str, body: bytes) -> None:
    """An unknown coding, a broken one and one too many give no answer."""
    with pytest.raises(BadBodyError):
        unpacked(body, encoding, 1_000_000)


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd", "deflate"])
def test_an_event_is_told_before_the_next_one_arrives(encoding: str) -> None:
    """What a server has flushed comes out at once."""
    gz = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    plain = zlib.compressobj()
    br = brotli.Compressor()
    zs = zstd.ZstdCompressor()
    packed: dict[str, tuple[object, ...]] = {
        "gzip": (gz.compress, lambda: gz.flush(zlib.Z_SYNC_FLUSH)),
        "deflate": (plain.compress, lambda: plain.flush(zlib.Z_SYNC_FLUSH)),
        "br": (br.process, br.flush),
        "zstd": (zs.compress, lambda: zs.flush(zs.FLUSH_BLOCK)),
    }
    compress, flush = packed[encoding]
    assert callable(compress)
    assert callable(flush)
    unpacker = Unpacker(encoding)
    for number in range(20):
        event = b'data: {"number": %d}\n\n' % number
        arrived = compress(event) + flush()
        assert event == b"".join(unpacker.feed(arrived))


@pytest.mark.parametrize("pack", [gzip.compress, zstd.compress])
def test_a_stream_of_events_that_are_packed_one_by_one_may_be_long(pack: object) -> None:
    """Members that arrive one after another are never too many, nor are some that come at once."""
    assert callable(pack)
    name = "gzip" if pack is gzip.compress else "zstd"
    unpacker = Unpacker(name)
    arriving = [pack(EVENT)] * 3000
    told = b"".join(piece for data in arriving for piece in unpacker.feed(data))
    assert EVENT * 3000 == told
    assert EVENT * 1000 == unpacked(pack(EVENT) * 1000, name, 1_000_000)


@given(st.binary(max_size=3000), st.sampled_from(PACKED), st.integers(1, 500))
def test_any_body_comes_back_from_any_pieces(
    body: bytes, packed: tuple[str, object], size: int
) -> None:
    """Packing and unpacking are inverse, however the body is cut."""
    name, pack = packed
    assert callable(pack)
    body = b"{" + body
    assert body == bit_by_bit(pack(body), name, size)
