"""From the bytes of one original to the text that models read; pure, so that it can be redone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from casework.runner.documents.decoding import Decoded, Undecodable, declared_encoding, decode
from casework.runner.documents.document import ProblemCode
from casework.runner.documents.html_text import html_to_text
from casework.runner.documents.mail_text import read_mail
from casework.runner.documents.media import Reading
from casework.runner.documents.pdf_process import read_pdf
from casework.runner.documents.table_text import DELIMITER_NAMES, InvalidRow, read_table_row
from casework.runner.documents.text_report import PAGES_LISTED_MAX
from casework.strict_json import JSON, InvalidJSON, parse_replacing_surrogates

Finding: TypeAlias = "tuple[ProblemCode, str]"
"""A remark without its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extracted:
    """A text, and what was noticed while it was taken out of its original."""

    text: str
    encoding: str
    byte_order_mark: bool = False
    findings: tuple[Finding, ...] = ()
    surrogates_replaced: int = 0
    members: Mapping[str, JSON] | None = None
    """The members of a record, or the cells of a row by column."""
    reader: str | None = None
    """Library and version that read a binary format."""


def extract(name: str, content: bytes, reading: Reading) -> Extracted | Undecodable:
    """Take the text out of one original.

    Args:
        name: The original's own name.
        content: Its bytes.
        reading: How it is read.
    """
    match reading.media:
        case "text" | "markdown":
            return _plain(content, reading)
        case "html":
            return _html(content, reading)
        case "record":
            return _record(content, reading)
        case "row":
            return _row(name, content, reading)
        case "mail":
            return _mail(name, content, reading)
        case "pdf":
            return _pdf(content)
        case _:
            assert_never(reading.media)


def _plain(content: bytes, reading: Reading) -> Extracted | Undecodable:
    decoded = decode(content, encoding=reading.encoding)
    return decoded if isinstance(decoded, Undecodable) else _made(decoded, decoded.text)


def _html(content: bytes, reading: Reading) -> Extracted | Undecodable:
    decoded = decode(content, encoding=reading.encoding, declared=declared_encoding(content))
    if isinstance(decoded, Undecodable):
        return decoded
    return _made(decoded, html_to_text(decoded.text))


def _record(content: bytes, reading: Reading) -> Extracted | Undecodable:
    decoded = decode(content, encoding=reading.encoding)
    if isinstance(decoded, Undecodable):
        return decoded
    try:
        value, replaced = parse_replacing_surrogates(decoded.text)
    except InvalidJSON as error:
        place = f" at column {error.column}" if error.column else ""
        message = f"is not strict JSON: {error.reason}{place}"
        return Undecodable(ProblemCode.RECORD_INVALID, message)
    if not isinstance(value, dict):
        return Undecodable(ProblemCode.RECORD_INVALID, "is JSON, but no object")
    if reading.text_field is None:
        return _made(decoded, decoded.text, members=value)
    text = value.get(reading.text_field)
    if not isinstance(text, str):
        message = f'has no text under the name "{reading.text_field}"'
        return Undecodable(ProblemCode.TEXT_MISSING, message)
    return _made(decoded, text, members=value, replaced=replaced)


def _row(name: str, content: bytes, reading: Reading) -> Extracted | Undecodable:
    decoded = decode(content, encoding=reading.encoding)
    if isinstance(decoded, Undecodable):
        return decoded
    row = read_table_row(decoded.text, tabs=name.endswith(".tsv"))
    if isinstance(row, InvalidRow):
        code = ProblemCode.HEADER_INVALID if row.in_header else ProblemCode.RECORD_INVALID
        return Undecodable(code, row.message)
    text = row.text if reading.text_field is None else row.cells.get(reading.text_field)
    if text is None:
        message = f'has no column "{reading.text_field}"'
        return Undecodable(ProblemCode.TEXT_MISSING, message)
    found: list[Finding] = []
    if row.detected:
        message = f"the columns are parted by {DELIMITER_NAMES[row.delimiter]}"
        found.append((ProblemCode.DELIMITER_DETECTED, message))
    return _made(decoded, text, members=row.cells, findings=found)


def _mail(name: str, content: bytes, reading: Reading) -> Extracted | Undecodable:
    mail = read_mail(content, in_mailbox=name.endswith(".mbox"), encoding=reading.encoding)
    if isinstance(mail, Undecodable):
        return mail
    return Extracted(
        text=mail.text,
        encoding=mail.encoding,
        findings=tuple(mail.findings),
        surrogates_replaced=mail.surrogates_replaced,
    )


def _pdf(content: bytes) -> Extracted | Undecodable:
    pdf = read_pdf(content)
    if isinstance(pdf, Undecodable):
        return pdf
    found: list[Finding] = []
    if pdf.failed:
        numbers = ", ".join(map(str, pdf.failed[:PAGES_LISTED_MAX]))
        message = f"{len(pdf.failed)} pages could not be read and count as empty: {numbers}"
        found.append((ProblemCode.PAGES_UNREADABLE, message))
    return Extracted(text=pdf.text, encoding="pdf", findings=tuple(found), reader=pdf.reader)


def _made(
    decoded: Decoded,
    text: str,
    *,
    members: Mapping[str, JSON] | None = None,
    replaced: int = 0,
    findings: list[Finding] | None = None,
) -> Extracted:
    found: list[Finding] = []
    if decoded.guessed:
        message = "the encoding was guessed as Windows-1252; name it if that is wrong"
        found.append((ProblemCode.ENCODING_GUESSED, message))
    if decoded.byte_order_mark:
        message = f"begins with a byte order mark and was read as {decoded.encoding}"
        found.append((ProblemCode.BYTE_ORDER_MARK, message))
    if replaced:
        message = f"{replaced} halves of character pairs were replaced by U+FFFD"
        found.append((ProblemCode.SURROGATES_REPLACED, message))
    return Extracted(
        text=text,
        encoding=decoded.encoding,
        byte_order_mark=decoded.byte_order_mark,
        findings=(*found, *(findings or ())),
        surrogates_replaced=replaced,
        members=members,
    )
