"""Compressed bodies, rightly and wrongly labelled, whole and event by event."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import brotli
from backports import zstd

GZIP_BITS: Final = 31


@dataclass(frozen=True, slots=True)
class Packer:
    """Compresses piece by piece; each piece can be unpacked as soon as it has arrived."""

    label: str
    """What the reply says of itself; empty for nothing."""
    piece: Callable[[bytes], bytes]
    last: Callable[[], bytes]


def packer(kind: str) -> Packer:
    """Return what packs a reply as an ``encoding`` fault asks; without one, nothing is packed.

    Raises:
        KeyError: There is no such fault.
    """
    makers: dict[str, Callable[[], Packer]] = {
        "": lambda: Packer("", bytes, bytes),
        "mislabelled": lambda: Packer("gzip", bytes, bytes),
        "gzip": lambda: _zlib("gzip", GZIP_BITS),
        "unlabelled": lambda: _zlib("", GZIP_BITS),
        "deflate": lambda: _zlib("deflate", zlib.MAX_WBITS),
        "cut": lambda: Packer("gzip", _zlib("gzip", GZIP_BITS).piece, bytes),
        "br": _brotli,
        "zstd": _zstd,
        "chained": lambda: _chained(_zlib("deflate", zlib.MAX_WBITS), _zlib("gzip", GZIP_BITS)),
    }
    return makers[kind]()


def _zlib(label: str, bits: int) -> Packer:
    engine = zlib.compressobj(wbits=bits)
    return Packer(
        label,
        lambda content: engine.compress(content) + engine.flush(zlib.Z_SYNC_FLUSH),
        engine.flush,
    )


def _brotli() -> Packer:
    engine = brotli.Compressor()
    return Packer("br", lambda content: engine.process(content) + engine.flush(), engine.finish)


def _zstd() -> Packer:
    engine = zstd.ZstdCompressor()
    return Packer(
        "zstd",
        lambda content: engine.compress(content, zstd.ZstdCompressor.FLUSH_BLOCK),
        engine.flush,
    )


def _chained(inner: Packer, outer: Packer) -> Packer:
    return Packer(
        f"{inner.label}, {outer.label}",
        lambda content: outer.piece(inner.piece(content)),
        lambda: outer.piece(inner.last()) + outer.last(),
    )
