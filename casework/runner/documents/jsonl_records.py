"""Cases from JSON Lines: one object a line, each line standing or falling by itself."""

from __future__ import annotations

import codecs
import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from casework.runner.documents.decoding import Decoded, Undecodable, decode
from casework.runner.documents.document import Problem, ProblemCode
from casework.runner.documents.file_walk import fit
from casework.runner.documents.reading import RawFile, ReadFile, made_readable
from casework.strict_json import (
    JSON,
    InvalidJSON,
    JSONObject,
    parse_replacing_surrogates,
)

RECORD_NAME: Final = "record.json"
"""Name of the line among the originals of its case."""

ID_LENGTH_MAX: Final = 512

_HEAD_BYTES: Final = 4096
_CHUNK: Final = 64 * 1024
_UTF16_MARKS: Final = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


@dataclass(frozen=True, slots=True)
class RecordFields:
    """Where a record keeps its id and its text."""

    id_field: str | None = None
    """None numbers the cases by line."""
    text_field: str | None = None
    """None takes the whole line as the text."""


@dataclass(frozen=True, slots=True)
class Line:
    """One line without its end."""

    number: int
    content: bytes
    byte_order_mark: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """One line that is a case."""

    case_id: str
    file: ReadFile
    problems: tuple[Problem, ...]


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


def read_record(
    line: Line, source: RawFile, fields: RecordFields, *, encoding: str | None
) -> Record | Problem:
    """Read one line as a case.

    Args:
        line: The line.
        source: The file it is from; its content is not looked at.
        fields: Where id and text are kept.
        encoding: How the line's bytes are read; None lets them decide.
    """
    where = f"{source.where}:{line.number}"
    decoded = decode(line.content, encoding=encoding)
    if isinstance(decoded, Undecodable):
        return Problem(decoded.code, where, decoded.message)
    marked = decoded.byte_order_mark or line.byte_order_mark
    decoded = Decoded(decoded.text, decoded.encoding, marked, decoded.guessed)
    try:
        value, replaced = parse_replacing_surrogates(decoded.text)
    except InvalidJSON as error:
        place = f" at column {error.column}" if error.column else ""
        message = f"is not strict JSON: {error.reason}{place}"
        return Problem(ProblemCode.RECORD_INVALID, where, message)
    if not isinstance(value, dict):
        return Problem(ProblemCode.RECORD_INVALID, where, "is JSON, but no object")
    case_id = _case_id(value, fields.id_field, f"{source.name}#{line.number}")
    text = decoded.text if fields.text_field is None else value.get(fields.text_field)
    if case_id is None:
        return Problem(ProblemCode.ID_INVALID, where, _ID_RULE.format(fields.id_field))
    if not isinstance(text, str):
        message = f'has no text under the name "{fields.text_field}"'
        return Problem(ProblemCode.TEXT_MISSING, where, message)
    raw = RawFile(RECORD_NAME, line.content, where)
    file = made_readable(raw, decoded, media="record", text=text)
    remarks = _remarks(where, 0 if text is decoded.text else replaced, escaped=case_id[1])
    return Record(case_id[0], file, remarks)


_ID_RULE: Final = 'has no id under the name "{}": a whole number or a text of 1 to ' + str(
    ID_LENGTH_MAX
)


def _case_id(record: JSONObject, field: str | None, default: str) -> tuple[str, bool] | None:
    """Return the id and whether letters of it had to be escaped; None if there is none."""
    value: JSON = default if field is None else record.get(field)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not 0 < len(value) <= ID_LENGTH_MAX:
        return None
    return fit(value), fit(value) != value


def _remarks(where: str, replaced: int, *, escaped: bool) -> tuple[Problem, ...]:
    remarks = []
    if replaced:
        message = f"{replaced} halves of character pairs were replaced by U+FFFD"
        remarks.append(Problem(ProblemCode.SURROGATES_REPLACED, where, message))
    if escaped:
        message = "control characters in the id were escaped"
        remarks.append(Problem(ProblemCode.NAME_ESCAPED, where, message))
    return tuple(remarks)


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
    reader = io.TextIOWrapper(stream, encoding=codec, newline="\n")
    try:
        while line := reader.readline(bytes_max):
            content = line.removesuffix("\n").removesuffix("\r").encode(codec)
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
