"""The rows of a table as records of their own, each under a copy of the table's header."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Final

from casework.runner.documents.decoding import Undecodable, decode
from casework.runner.documents.document import Problem, ProblemCode
from casework.runner.documents.jsonl_records import errors_of, wide_codec
from casework.runner.documents.table_text import (
    COMMA,
    TAB,
    InvalidRow,
    leaves_open,
    read_header,
)

_BYTES: Final = "latin-1"
"""Carries bytes as characters, so that rows are found before anything is decoded."""

_STATEFUL: Final = ("iso2022", "utf-7", "hz", "punycode")
"""Codecs in which the byte of a quote or a comma may be half of a letter."""


@dataclass(frozen=True, slots=True)
class RawRow:
    """A row as it was found, with the header before it."""

    number: int
    """The physical line on which it begins."""
    content: bytes


@dataclass(frozen=True, slots=True)
class Table:
    """A table whose header could be read."""

    header: tuple[str, ...]
    header_line: int
    encoding: str | None
    """By which the rows are to be decoded; None lets their bytes decide."""
    byte_order_mark: bool
    rows: Iterator[RawRow | Problem]


def read_table(
    stream: BinaryIO, where: str, *, tabs: bool, encoding: str | None, bytes_max: int
) -> Table | Problem | None:
    """Read the header of a table and offer its rows; None if there is not even a header.

    A quoted field may hold line ends; blank lines are no rows. Row and header together are held
    in memory, never the table.

    Args:
        stream: A file that can be wound back.
        where: The file as the user would name it.
        tabs: The columns are parted by tabs.
        encoding: How the bytes are read; None lets them decide.
        bytes_max: Largest row.
    """
    head = stream.read(4)
    wide = wide_codec(head[:2], encoding)
    if wide is None and encoding is not None and encoding.startswith(_STATEFUL):
        wide = encoding
    marks = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) if wide else (codecs.BOM_UTF8,)
    mark = next((mark for mark in marks if head.startswith(mark)), b"")
    stream.seek(len(mark))
    lines = _Lines(stream, wide or _BYTES, bytes_max)
    rows = _Rows(lines, where, TAB if tabs else COMMA, bytes_max)
    first = rows.next()
    if first is None or isinstance(first, Problem):
        return first
    decoded = decode(first.content, encoding=wide or encoding)
    place = f"{where}:{first.number}"
    if isinstance(decoded, Undecodable):
        return Problem(decoded.code, place, decoded.message)
    header = read_header(decoded.text, tabs=tabs)
    if isinstance(header, InvalidRow):
        return Problem(ProblemCode.HEADER_INVALID, place, header.message)
    names, rows.delimiter = header
    return Table(names, first.number, wide or encoding, bool(mark), rows.under(first.content))


class _Lines:
    """Physical lines, and the pieces of those that are too long."""

    def __init__(self, stream: BinaryIO, codec: str, bytes_max: int) -> None:
        self._stream = stream
        self._reader = None
        if codec != _BYTES:
            self._reader = io.TextIOWrapper(
                stream, encoding=codec, errors=errors_of(codec), newline="\n"
            )
        self._length_max = bytes_max + 2
        self.codec = codec

    def next(self) -> str:
        if self._reader is not None:
            return self._reader.readline(self._length_max)
        return self._stream.readline(self._length_max).decode(_BYTES)

    def encoded(self, text: str) -> bytes:
        return text.encode(self.codec, errors_of(self.codec))


@dataclass(slots=True)
class _Rows:
    lines: _Lines
    where: str
    delimiter: str
    """A comma until the header has shown it."""
    bytes_max: int
    _number: int = field(default=0)
    """Physical lines read so far."""
    _ended: bool = field(default=False)

    def under(self, header: bytes) -> Iterator[RawRow | Problem]:
        """Yield the rows that are left, each with the header and a line end before it."""
        line_end = self.lines.encoded("\n")
        while (row := self.next()) is not None:
            if isinstance(row, Problem):
                yield row
            else:
                yield RawRow(row.number, header + line_end + row.content)

    def next(self) -> RawRow | Problem | None:
        """Return the next row that is not blank, without its line end; None after the last."""
        while not self._ended:
            try:
                row = self._row()
            except UnicodeError:
                self._ended = True
                message = f"the bytes are not {self.lines.codec}; the rest was not read"
                place = f"{self.where}:{self._number + 1}"
                return Problem(ProblemCode.ENCODING_UNKNOWN, place, message)
            if row is not None:
                return row
        return None

    def _row(self) -> RawRow | Problem | None:
        parts: list[str] = []
        size = 0
        first = self._number + 1
        opened = False
        while True:
            line, size, opened = self._line(parts, size, opened=opened)
            if not opened or not line:
                break
        place = f"{self.where}:{first}"
        if not line:
            self._ended = True
        if opened:
            message = "a quote is opened and never closed; nothing after it was read"
            return Problem(ProblemCode.RECORD_INVALID, place, message)
        if size > self.bytes_max:
            message = f"the row has more than {self.bytes_max} bytes"
            return Problem(ProblemCode.TOO_LARGE, place, message)
        text = "".join(parts).removesuffix("\n").removesuffix("\r")
        return RawRow(first, self.lines.encoded(text)) if text else None

    def _line(self, parts: list[str], size: int, *, opened: bool) -> tuple[str, int, bool]:
        """Read one physical line to its end, and keep it as long as the row is not too large."""
        line = piece = self.lines.next()
        if piece:
            self._number += 1
            opened = leaves_open(piece, self.delimiter, opened=opened)
        while piece:
            size += len(self.lines.encoded(piece))
            if size <= self.bytes_max + 4:
                parts.append(piece)
            if piece.endswith("\n"):
                break
            piece = self.lines.next()
            opened ^= piece.count('"') % 2 == 1
        return line, size, opened
