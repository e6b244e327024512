"""The same results as a table that spreadsheets open without running any of it."""

from __future__ import annotations

import csv
import io
import json
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Final, TextIO

from casework.errors import ConfigurationError, RunnerError
from casework.json_pointer import flatten, pointer_to, value_at
from casework.runner.export import EMPTY_ROW, ExportRow, provenance
from casework.runner.output_columns import COLUMNS_MAX, OUTPUT
from casework.strict_json import JSON, JSONObject

BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
CELL_CHARACTERS_MAX: Final = 64 * 1024 * 1024
"""Longest cell that is read back."""

_FORMULA: Final = re.compile("'*[=+\\-@\t\r\n\uff1d\uff0b\uff0d\uff20]")
"""How a text begins that a spreadsheet may run, also under an apostrophe that is its own."""
_DIGITS: Final = re.compile(r"[0-9]{1,9}")
_SPOOL_BYTES: Final = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvOptions:
    """How the table is written.

    Raises:
        ConfigurationError: A field is no JSON Pointer; code ``field_invalid``.
    """

    fields: tuple[str, ...] | None = None
    """JSON Pointers into the answers, one a column, in this order; None takes all that occur."""
    output_schema: JSONObject | None = None
    """Gives the order of the columns, where ``fields`` does not."""
    byte_order_mark: bool = False
    """Begin with the mark by which older spreadsheets recognise UTF-8."""
    neutralise: bool = True
    """Put an apostrophe before texts that a spreadsheet would run as a formula."""

    def __post_init__(self) -> None:
        check_fields(self.fields or ())


def check_fields(fields: Iterable[str]) -> None:
    """Make sure that what a person chose are places in an answer.

    Raises:
        ConfigurationError: One is no JSON Pointer; code ``field_invalid``.
    """
    for pointer in fields:
        if pointer and not pointer.startswith("/"):
            raise ConfigurationError(
                "a field must be a JSON Pointer",
                code="field_invalid",
                remedy='write "/severity" for the member severity, or "" for the whole answer',
            )


def csv_lines(rows: Iterable[ExportRow], options: CsvOptions | None = None) -> Iterator[bytes]:
    """Yield a header and one line a row; the answers are flattened by JSON Pointer.

    The columns are known only when every answer was seen, so the rows pass through a temporary
    file where they do not fit into a little memory. A missing member, null and an empty text are
    all an empty cell; numbers are written as JSON writes them.

    Raises:
        RunnerError: The answers need more columns than a spreadsheet has; code
            ``too_many_columns``.
    """
    options = options or CsvOptions()
    with tempfile.SpooledTemporaryFile(_SPOOL_BYTES) as spool:
        pointers = _spool(rows, spool, collect=options.fields is None)
        if options.fields is not None:
            columns = options.fields
        else:
            columns = _ordered(pointers, options.output_schema)
        names = provenance(EMPTY_ROW.to_json())
        header = [*names, *(pointer or OUTPUT for pointer in columns)]
        mark = BYTE_ORDER_MARK if options.byte_order_mark else b""
        yield mark + csv_line(header, neutralise=options.neutralise)
        spool.seek(0)
        for content in spool:
            row: JSONObject = json.loads(content)
            cells = [*provenance(row).values(), *(value_at(row[OUTPUT], p) for p in columns)]
            yield csv_line(map(_cell, cells), neutralise=options.neutralise)


def csv_line(cells: Iterable[str | Number], *, neutralise: bool = True) -> bytes:
    """Write one line of a table, its end included.

    Args:
        cells: Texts, and numbers, which no spreadsheet runs.
        neutralise: Put an apostrophe before texts that a spreadsheet would run as a formula.
    """
    texts = []
    for cell in cells:
        if isinstance(cell, Number):
            texts.append(cell.digits)
        elif neutralise and _FORMULA.match(cell):
            texts.append(f"'{cell}")
        else:
            texts.append(cell)
    line = io.StringIO(newline="")
    csv.writer(line, lineterminator="\r\n").writerow(texts)
    return line.getvalue().encode("utf-8", "backslashreplace")


@dataclass(frozen=True, slots=True)
class Number:
    """Digits that are a number and stay one."""

    digits: str


def read_csv(stream: TextIO, *, neutralised: bool = True) -> Iterator[dict[str, str]]:
    """Read a table that was written here back into its cells.

    Args:
        stream: A text opened with ``newline=""`` and the encoding ``utf-8-sig``.
        neutralised: Whether the apostrophes of :class:`CsvOptions` are to be taken off again.
    """
    csv.field_size_limit(max(csv.field_size_limit(), CELL_CHARACTERS_MAX))
    for row in csv.DictReader(stream):
        if neutralised:
            yield {_restored(name): _restored(text) for name, text in row.items()}
        else:
            yield dict(row)


def _spool(rows: Iterable[ExportRow], spool: IO[bytes], *, collect: bool) -> set[str]:
    pointers: set[str] = set()
    for row in rows:
        if collect and row.output is not None:
            pointers.update(pointer for pointer, _ in flatten(row.output))
            if len(pointers) > COLUMNS_MAX:
                raise RunnerError(
                    f"the answers need more than {COLUMNS_MAX} columns",
                    code="too_many_columns",
                    remedy="export JSON Lines, or name the fields that you want",
                )
        spool.write(json.dumps(row.to_json(), allow_nan=False).encode("ascii") + b"\n")
    return pointers


def _ordered(pointers: set[str], schema: JSONObject | None) -> tuple[str, ...]:
    """Put columns into the order of the schema, and what it does not name after it by name."""
    places = {pointer: place for place, pointer in enumerate(_named_by(schema))}

    def key(pointer: str) -> list[tuple[int, int, str]]:
        names = pointer.split("/")
        return [
            (
                places.get("/".join(names[: depth + 1]), len(places)),
                int(name) if _DIGITS.fullmatch(name) else -1,
                name,
            )
            for depth, name in enumerate(names[1:], start=1)
        ]

    return tuple(sorted(pointers, key=key))


def _named_by(schema: JSON, pointer: str = "") -> Iterator[str]:
    """Yield the pointer of every member that a schema names, in its order, outer before inner."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if isinstance(properties, dict):
        for name, inner in properties.items():
            below = pointer + pointer_to(name)
            yield below
            yield from _named_by(inner, below)


def _cell(value: JSON) -> str | Number:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    written = json.dumps(value, ensure_ascii=False)
    return Number(written) if isinstance(value, int | float) else written


def _restored(text: str) -> str:
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text
