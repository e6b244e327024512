"""Rows of tables as texts: the strict reading of one row under its header."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

COMMA: Final = ","
TAB: Final = "\t"

DELIMITER_NAMES: Final[Mapping[str, str]] = {COMMA: "commas", TAB: "tabs", ";": "semicolons"}

_DELIMITER_LINE: Final = re.compile(r'"?sep=[^\n]"?\r?(\n|\Z)', re.IGNORECASE)
"""What some spreadsheets write before the header."""
_LINE_ENDS: Final = ("\r\n", "\n", "")


@dataclass(frozen=True, slots=True)
class InvalidRow:
    """Why a header or a row could not be read."""

    message: str
    in_header: bool = False


@dataclass(frozen=True, slots=True)
class TableRow:
    """The cells of one row by the names of their columns."""

    cells: Mapping[str, str]
    delimiter: str
    detected: bool
    """The delimiter was found out from the header."""

    @property
    def text(self) -> str:
        """Return the cells that are not empty, one after the other, under their columns' names."""
        return "".join(f"{name}: {cell}\n" for name, cell in self.cells.items() if cell)


def read_table_row(text: str, *, tabs: bool) -> TableRow | InvalidRow:
    """Read a text that is the header of a table and one row of it.

    Args:
        text: Both, with the line end between them.
        tabs: The columns are parted by tabs, whatever the header looks like.
    """
    header = _header(text, tabs=tabs)
    if isinstance(header, InvalidRow):
        return header
    row, end = _fields(text, header.end, header.delimiter)
    if isinstance(row, InvalidRow):
        return row
    if end < len(text):
        return InvalidRow("holds more than one row")
    names = header.names
    if len(row) != len(names):
        return InvalidRow(f"has {len(row)} fields where the header has {len(names)}")
    cells = dict(zip(names, row, strict=True))
    detected = not tabs and header.delimiter != COMMA
    return TableRow(cells, header.delimiter, detected)


def read_header(text: str, *, tabs: bool) -> tuple[tuple[str, ...], str] | InvalidRow:
    """Read a text that is the header of a table alone; return its names and what parts them."""
    header = _header(text, tabs=tabs)
    if isinstance(header, InvalidRow):
        return header
    return tuple(header.names), header.delimiter


@dataclass(frozen=True, slots=True)
class _Header:
    names: list[str]
    delimiter: str
    end: int
    """Where the rows begin."""


def _header(text: str, *, tabs: bool) -> _Header | InvalidRow:
    """Read the first row; columns are parted by commas unless it leaves no doubt that they are not.

    There is no doubt if commas do not part it, and either semicolons or tabs do.
    """
    if _DELIMITER_LINE.match(text):
        message = "names a delimiter and no columns; delete the line"
        return InvalidRow(message, in_header=True)
    found = [_parted(text, TAB if tabs else COMMA)]
    if not tabs and not _is_parted(found[0]):
        others = [_parted(text, delimiter) for delimiter in (";", TAB)]
        found = [other for other in others if _is_parted(other)] or found
        found = found if len(found) == 1 else [_parted(text, COMMA)]
    (header,) = found
    if isinstance(header, _Header) and len(set(header.names)) < len(header.names):
        return InvalidRow("two columns of the header have the same name", in_header=True)
    return header


def _parted(text: str, delimiter: str) -> _Header | InvalidRow:
    names, end = _fields(text, 0, delimiter)
    if isinstance(names, InvalidRow):
        return InvalidRow(names.message, in_header=True)
    return _Header(names, delimiter, end)


def _is_parted(header: _Header | InvalidRow) -> bool:
    return isinstance(header, _Header) and len(header.names) > 1


def leaves_open(line: str, delimiter: str, *, opened: bool) -> bool:
    """Tell whether a quoted field is still open at the end of a physical line.

    Args:
        line: The line with its end.
        delimiter: What parts the columns.
        opened: Whether it began inside of a quoted field.
    """
    if '"' not in line:
        return opened
    at = 0
    at_start = not opened
    while True:
        if opened:
            at = line.find('"', at)
            if at < 0:
                return True
            if line.startswith('""', at):
                at += 2
                continue
            opened = False
        elif at_start and line.startswith('"', at):
            opened, at_start = True, False
            at += 1
            continue
        at = line.find(delimiter, at)
        if at < 0:
            return False
        at_start = True
        at += 1


def _fields(text: str, at: int, delimiter: str) -> tuple[list[str] | InvalidRow, int]:
    """Return the fields of the row that begins at a place, and where the next row begins."""
    fields: list[str] = []
    while True:
        if text.startswith('"', at):
            field, at = _quoted(text, at + 1)
            if field is None:
                return InvalidRow("a quoted field is not closed"), at
        else:
            field, at = _bare(text, at, delimiter)
            if "\r" in field:
                return InvalidRow("holds a carriage return outside of quotes"), at
        fields.append(field)
        if text.startswith(delimiter, at):
            at += 1
            continue
        for end in _LINE_ENDS:
            if (end and text.startswith(end, at)) or at == len(text):
                return fields, at + len(end) if at < len(text) else at
        return InvalidRow("a quoted field is followed by more than the end of its column"), at


def _quoted(text: str, at: int) -> tuple[str | None, int]:
    pieces = []
    while True:
        end = text.find('"', at)
        if end < 0:
            return None, len(text)
        pieces.append(text[at:end])
        if not text.startswith('""', end):
            return "".join(pieces), end + 1
        pieces.append('"')
        at = end + 2


def _bare(text: str, at: int, delimiter: str) -> tuple[str, int]:
    found = _BARE[delimiter].match(text, at)
    end = found.end() if found else at
    if text.startswith("\n", end) and text.endswith("\r", at, end):
        end -= 1
    return text[at:end], end


_BARE: Final[Mapping[str, re.Pattern[str]]] = {
    delimiter: re.compile(f"[^{delimiter}\\n]*") for delimiter in DELIMITER_NAMES
}
