"""The lines of a JSON Lines file, each standing or falling by itself."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from casework.runner.documents.document import Problem, ProblemCode

_HEAD_BYTES: Final = 4096
_CHUNK: Final = 64 * 1024
_UTF16_MARKS: Final = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its end."""

    number: int
    content: bytes
    byte_order_mark: bool = False


def read_lines(
    stream: BinaryIO, where: str, *, encoding: str | None, bytes_max: int
) -> Iterator[Line | Problem]:
    r"""Yield the lines of a file that are not blank; only ``\n`` and ``\r\n`` end a line.

    A line that is too long is named and left out without ever being in memory whole.
    """
    head = stream.read(_HEAD_BYTES)
    codec = wide_codec(head, encoding)
    if codec is None and b"\0" in head:
        yield Problem(ProblemCode.BINARY, where, "not JSON Lines: NUL bytes")
        return
    start = len(codecs.BOM_UTF8) if head.startswith(codecs.BOM_UTF8) else 0
    start = len(codecs.BOM_UTF16_LE) if codec and head[:2] in _UTF16_MARKS else start
    stream.seek(start)
    lines = _narrow(stream, bytes_max) if codec is None else _wide(stream, codec, bytes_max)
    for number, content in enumerate(lines, start=1):
        if content is None:
            message = f"the line has more than {bytes_max} bytes"
            yield Problem(ProblemCode.TOO_LARGE, f"{where}:{number}", message)
        elif isinstance(content, Problem):
            yield Problem(content.code, f"{where}:{number}", content.message)
        elif content.strip():
            yield Line(number, content, byte_order_mark=start > 0 and number == 1)


def wide_codec(head: bytes, encoding: str | None) -> str | None:
    """Return the codec of a file in which a line end is more than one byte, else None."""
    marked = _UTF16_MARKS.get(head[:2])
    if encoding is None or encoding == "utf-16":
        return marked or ("utf-16-le" if encoding else None)
    try:
        return None if "\n".encode(encoding) == b"\n" else encoding
    except UnicodeError:
        return encoding


def errors_of(codec: str) -> str:
    """Return how a stream is decoded so that half a character pair spoils its own line alone.

    The half is passed on and refused where the record is read by itself.
    """
    return "surrogatepass" if codec.startswith(("utf-16", "utf-32")) else "strict"


def _narrow(stream: BinaryIO, bytes_max: int) -> Iterator[bytes | Problem | None]:
    while line := stream.readline(bytes_max + 2):
        content = line.removesuffix(b"\n").removesuffix(b"\r")
        if len(content) <= bytes_max:
            yield content
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(_CHUNK)
        yield None


def _wide(stream: BinaryIO, codec: str, bytes_max: int) -> Iterator[bytes | Problem | None]:
    errors = errors_of(codec)
    reader = io.TextIOWrapper(stream, encoding=codec, errors=errors, newline="\n")
    try:
        while line := reader.readline(bytes_max):
            content = line.removesuffix("\n").removesuffix("\r").encode(codec, errors)
            is_whole = line.endswith("\n") or len(line) < bytes_max
            if is_whole and len(content) <= bytes_max:
                yield content
                continue
            while line and not line.endswith("\n"):
                line = reader.readline(_CHUNK)
            yield None
    except UnicodeError:
        message = f"the bytes are not {codec}; the rest of the file was not read"
        yield Problem(ProblemCode.ENCODING_UNKNOWN, "", message)
    finally:
        reader.detach()
