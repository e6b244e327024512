"""Rows of tables as texts: the strict reading of one row under its header."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

COMMA: Final = ","
TAB: Final = "\t"

DELIMITER_NAMES: Final[Mapping[str, str]] = {COMMA: "commas", TAB: "tabs", ";": "semicolons"}

_QUOTED: Final = re.compile(r'"[^"]*"?')
_FIRST_ROW: Final = re.compile(r'(?:[^"\n]|"[^"]*"?)*')
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
    delimiter = TAB if tabs else delimiter_of(text)
    header, at = _fields(text, 0, delimiter)
    if isinstance(header, InvalidRow):
        return InvalidRow(header.message, in_header=True)
    if len(set(header)) < len(header):
        return InvalidRow("two columns of the header have the same name", in_header=True)
    row, end = _fields(text, at, delimiter)
    if isinstance(row, InvalidRow):
        return row
    if end < len(text):
        return InvalidRow("holds more than one row")
    if len(row) != len(header):
        return InvalidRow(f"has {len(row)} fields where the header has {len(header)}")
    cells = dict(zip(header, row, strict=True))
    return TableRow(cells, delimiter, detected=not tabs and delimiter != COMMA)


def read_header(text: str, *, tabs: bool) -> tuple[str, ...] | InvalidRow:
    """Read a text that is the header of a table alone."""
    delimiter = TAB if tabs else delimiter_of(text)
    header, _ = _fields(text, 0, delimiter)
    if isinstance(header, InvalidRow):
        return InvalidRow(header.message, in_header=True)
    if len(set(header)) < len(header):
        return InvalidRow("two columns of the header have the same name", in_header=True)
    return tuple(header)


def delimiter_of(text: str) -> str:
    """Return what parts the columns: a comma, unless the header leaves no doubt.

    There is no doubt if the first row has, outside of quotes, no comma, and semicolons or tabs but
    not both.
    """
    first_row = _FIRST_ROW.match(text)
    outside = _QUOTED.sub("", first_row[0] if first_row else text)
    found = [delimiter for delimiter in DELIMITER_NAMES if delimiter in outside]
    return found[0] if len(found) == 1 else COMMA


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
