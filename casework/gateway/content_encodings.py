"""Undo the Content-Encoding of a body, whole or as it arrives; the door to the decompressors.

What the first bytes show beyond doubt counts for more than what the header says: a proxy may have
unpacked a body and left its header in place.
"""

from __future__ import annotations

import re
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Final

PIECE_BYTES_MAX: Final = 64 * 1024
"""About how much is unpacked at a time."""
CODINGS_MAX: Final = 4
"""Most codings, one around the other."""
EMPTY_MEMBERS_MAX: Final = 16
"""Most members of one body that bring nothing."""
MEMBERS_AT_ONCE_MAX: Final = 2048
"""Most members among bytes that arrive at once; a server that packs each event by itself sends them
one by one."""

_HEAD_BYTES: Final = 8
"""So many bytes tell what a body is."""
_PLAIN: Final = re.compile(rb"""\s*(?:\{\s*["}]|data:|event:|retry:|id:|:)""")
_GZIP_MAGIC: Final = b"\x1f\x8b\x08"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
_ZSTD_WINDOW_LOG_MAX: Final = 23
"""A window of 8 MiB, the largest that this content coding may ask for."""
_ZLIB_METHOD, _ZLIB_CHECK = 8, 31
_RAW: Final = "deflate, raw"
"""No header can name it, since it holds a comma."""


class BodyTooLargeError(ValueError):
    """The body is larger than allowed, packed or unpacked."""


class BadBodyError(ValueError):
    """The body is packed in a way that is not known here, or badly."""


class Unpacker:
    """Undoes a Content-Encoding piece by piece.

    Args:
        encoding: The header; several codings stand in the order in which they were applied.

    Raises:
        BadBodyError: One of them is not known here, or there are too many.
    """

    def __init__(self, encoding: str) -> None:
        names = [name.strip().lower() for name in encoding.split(",")]
        codings = [name for name in reversed(names) if name not in ("", "identity")]
        if len(codings) > CODINGS_MAX or not _MEMBERS.keys() >= set(codings):
            raise BadBodyError
        self._layers = [_Layer(name) for name in codings]

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield what these bytes unpack to, in pieces of a bounded size.

        Raises:
            BadBodyError: They do not unpack.
        """
        if not self._layers:
            return iter((data,))
        # The end of a member copies what comes after it, so that is kept short.
        pieces: Iterator[bytes] = (
            data[i : i + PIECE_BYTES_MAX] for i in range(0, len(data), PIECE_BYTES_MAX)
        )
        for layer in self._layers:
            layer.arrive()
            pieces = chain.from_iterable(map(layer.feed, pieces))
        return pieces

    def end(self) -> Iterator[bytes]:
        """Yield what the end of the body leaves.

        Raises:
            BadBodyError: The body is not complete.
        """
        for number, layer in enumerate(self._layers):
            pieces = layer.end()
            for outer in self._layers[number + 1 :]:
                pieces = chain.from_iterable(map(outer.feed, pieces))
            yield from pieces


def unpacked(body: bytes, encoding: str, bytes_max: int) -> bytes:
    """Undo a Content-Encoding, never making more than so many bytes and a piece.

    Raises:
        BodyTooLargeError: The body would grow beyond them.
        BadBodyError: The encoding is none that is known here, or the body is not in it.
    """
    if not encoding:
        return body
    unpacker = Unpacker(encoding)
    out = bytearray()
    for piece in chain(unpacker.feed(body), unpacker.end()):
        out += piece
        if len(out) > bytes_max:
            raise BodyTooLargeError
    return bytes(out)


class _Layer:
    """One coding, chosen when the first bytes are there."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._head = b""
        self._plain = False
        self._member: _Member | None = None
        self._empty_members = 0
        self._members = 0
        """Begun since :meth:`arrive`."""

    def arrive(self) -> None:
        """Learn that what is fed now arrives by itself."""
        self._members = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self._member is None and not self._plain:
            self._head += data
            if len(self._head.lstrip()) < _HEAD_BYTES and len(self._head) < PIECE_BYTES_MAX:
                return
            data = self._chosen()
        yield from self._unpacked(data)

    def end(self) -> Iterator[bytes]:
        if self._head:
            yield from self._unpacked(self._chosen())
        if self._member is not None and not self._member.ended():
            raise BadBodyError

    def _chosen(self) -> bytes:
        """Choose by the first bytes, and return them."""
        head, self._head = self._head, b""
        if head.startswith(_GZIP_MAGIC):
            self._name = "gzip"
        elif head.startswith(_ZSTD_MAGIC):
            self._name = "zstd"
        elif _PLAIN.match(head):
            self._plain = True
        elif self._name == "deflate" and not _is_zlib(head):
            self._name = _RAW
        return head

    def _unpacked(self, data: bytes) -> Iterator[bytes]:
        if self._plain:
            yield data
            return
        while data:
            if self._member is None or (self._member.ended() and self._name in _IN_MEMBERS):
                self._members += 1
                if self._members > MEMBERS_AT_ONCE_MAX:
                    raise BadBodyError
                self._member = _MEMBERS[self._name]()
            yield from self._member.feed(data)
            data = b""
            if self._member.ended():
                data = self._member.rest()
                self._empty_members += not self._member.brought
                if self._empty_members > EMPTY_MEMBERS_MAX:
                    raise BadBodyError


@dataclass(slots=True)
class _Member:
    """Unpacks a body, or one member of a body that has several."""

    step: Callable[[bytes], bytes]
    """Take input and give a piece of output; without input, give more of it."""
    ended: Callable[[], bool]
    rest: Callable[[], bytes]
    """What came after the end."""
    error: type[Exception]
    brought: bool = False
    """Something came out of it."""

    def feed(self, data: bytes) -> Iterator[bytes]:
        if self.ended():
            raise BadBodyError
        more = True
        while more and not self.ended():
            try:
                piece = self.step(data)
            except self.error:
                raise BadBodyError from None
            data = b""
            more = bool(piece)
            if more:
                self.brought = True
                yield piece


def _inflate(window_bits: int) -> _Member:
    decoder = zlib.decompressobj(window_bits)

    def step(data: bytes) -> bytes:
        return decoder.decompress(data or decoder.unconsumed_tail, PIECE_BYTES_MAX)

    return _Member(step, lambda: decoder.eof, lambda: decoder.unused_data, zlib.error)


def _brotli() -> _Member:
    import brotli  # noqa: PLC0415 - few servers pack

    decoder = brotli.Decompressor()

    def step(data: bytes) -> bytes:
        piece: bytes = decoder.process(data, output_buffer_limit=PIECE_BYTES_MAX)
        return piece

    return _Member(step, decoder.is_finished, bytes, brotli.error)


def _zstd() -> _Member:
    if sys.version_info >= (3, 14):
        from compression import zstd  # noqa: PLC0415 - few servers pack
    else:
        from backports import zstd  # noqa: PLC0415 - few servers pack

    window = {int(zstd.DecompressionParameter.window_log_max): _ZSTD_WINDOW_LOG_MAX}
    decoder = zstd.ZstdDecompressor(options=window)

    def step(data: bytes) -> bytes:
        return decoder.decompress(data, PIECE_BYTES_MAX)

    return _Member(step, lambda: decoder.eof, lambda: decoder.unused_data, zstd.ZstdError)


def _is_zlib(head: bytes) -> bool:
    """Tell whether a deflated body has the wrapping that the standard demands and many forget."""
    return (
        len(head) > 1
        and head[0] & 15 == _ZLIB_METHOD
        and int.from_bytes(head[:2], "big") % _ZLIB_CHECK == 0
    )


_MEMBERS: Final[dict[str, Callable[[], _Member]]] = {
    "gzip": partial(_inflate, zlib.MAX_WBITS | 16),
    "x-gzip": partial(_inflate, zlib.MAX_WBITS | 16),
    "deflate": partial(_inflate, zlib.MAX_WBITS),
    _RAW: partial(_inflate, -zlib.MAX_WBITS),
    "br": _brotli,
    "zstd": _zstd,
}
_IN_MEMBERS: Final = frozenset({"gzip", "x-gzip", "zstd"})
