"""Files of many records: every record comes out once, as a document or as a refusal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, Final, Protocol

from casework.runner.documents.decoding import Decoded, Undecodable, decode
from casework.runner.documents.document import (
    Document,
    ImportItem,
    Problem,
    ProblemCode,
    Refusal,
)
from casework.runner.documents.extraction import Finding
from casework.runner.documents.import_options import ImportOptions
from casework.runner.documents.json_elements import is_array, read_elements
from casework.runner.documents.jsonl_records import Line, read_lines, wide_codec
from casework.runner.documents.mbox_mails import read_mailbox
from casework.runner.documents.media import Reading
from casework.runner.documents.reading import RawFile, make_document
from casework.runner.documents.records import RawRecord, Record, read_record
from casework.runner.documents.table_rows import Table, read_table

RECORD_NAME: Final = "record.json"
"""Name of a line of JSON Lines among the originals of its case."""

MAIL_NAME: Final = "mail.mbox"
"""Name of a mail of a mailbox, with the mailbox's own line before it."""


class Source(Protocol):
    """A file to be read, wherever it lies."""

    @property
    def name(self) -> str:
        """Return its relative path with ``/``, fit to be an id."""

    @property
    def where(self) -> str:
        """Return the file as the user would name it."""

    @property
    def escaped(self) -> bool:
        """Tell whether the name had to be changed to be fit."""

    def open(self) -> BinaryIO | Problem:
        """Open it for reading from its beginning; it can be wound back."""


def read_jsonl(source: Source, stream: BinaryIO, options: ImportOptions) -> Iterator[ImportItem]:
    """Yield a case for each line that is not blank."""
    encoding = wide_codec(stream.read(2), options.encoding) or options.encoding
    stream.seek(0)
    reading = Reading(media="record", encoding=encoding, text_field=options.fields.text_field)
    for line in read_lines(
        stream, source.where, encoding=options.encoding, bytes_max=options.file_bytes_max
    ):
        if isinstance(line, Problem):
            yield Refusal(line)
        else:
            yield record_item(_raw_line(line, reading), source, options)


def read_array(
    source: Source, content: bytes, options: ImportOptions
) -> Iterator[ImportItem] | None:
    """Return a case for each element of an array; None if the file is no array of objects.

    If the format was given, every array is one of records, whatever its elements are.
    """
    decoded = decode(content, encoding=options.encoding)
    forced = options.format == "json"
    if isinstance(decoded, Undecodable) or not is_array(decoded.text, of_objects=not forced):
        return None
    return _elements(source, decoded, options)


def _elements(source: Source, decoded: Decoded, options: ImportOptions) -> Iterator[ImportItem]:
    codec = decoded.encoding
    encoding = codec if codec.startswith(("utf-16", "utf-32")) else options.encoding
    reading = Reading(media="record", encoding=encoding, text_field=options.fields.text_field)
    for element in read_elements(decoded.text, source.where):
        if isinstance(element, Problem):
            yield Refusal(element)
            continue
        place = f"{source.where}:{element.line}"
        content = _written_again(element.text, codec, place)
        if isinstance(content, Problem):
            yield Refusal(content)
            continue
        raw = RawRecord(
            number=element.number,
            line=element.line,
            name=RECORD_NAME,
            content=content,
            reading=reading,
            findings=(_MARKED,) if decoded.byte_order_mark and element.number == 1 else (),
        )
        yield record_item(raw, source, options)


def _written_again(text: str, codec: str, place: str) -> bytes | Problem:
    """Return the bytes of an element; some codecs read letters that they cannot write."""
    try:
        return text.encode(codec)
    except UnicodeError:
        message = f"holds letters that {codec} reads and cannot write; save the file as UTF-8"
        return Problem(ProblemCode.ENCODING_UNKNOWN, place, message)


def read_rows(
    source: Source, stream: BinaryIO, options: ImportOptions, *, tabs: bool
) -> Iterator[ImportItem]:
    """Yield a case for each row of a table; what its header lacks is said once."""
    table = read_table(
        stream,
        source.where,
        tabs=tabs,
        encoding=options.encoding,
        bytes_max=options.file_bytes_max,
    )
    if table is None:
        return
    problem = table if isinstance(table, Problem) else _missing_column(table, source, options)
    if problem is not None:
        yield Refusal(problem)
        return
    assert isinstance(table, Table)
    reading = Reading(media="row", encoding=table.encoding, text_field=options.fields.text_field)
    told: set[ProblemCode] = set()
    for number, row in enumerate(table.rows):
        if isinstance(row, Problem):
            yield Refusal(row)
            continue
        marked = table.byte_order_mark and number == 0
        raw = RawRecord(
            number=row.number,
            line=row.number,
            name="row.tsv" if tabs else "row.csv",
            content=row.content,
            reading=reading,
            findings=(_MARKED,) if marked else (),
        )
        yield _told_once(record_item(raw, source, options), told)


def read_mails(source: Source, stream: BinaryIO, options: ImportOptions) -> Iterator[ImportItem]:
    """Yield a case for each mail of a mailbox; their ids are numbers, whatever the fields say."""
    reading = Reading(media="mail", encoding=options.encoding)
    origin = RawFile(source.name, b"", source.where)
    for mail in read_mailbox(stream, source.where, bytes_max=options.file_bytes_max):
        if isinstance(mail, Problem):
            yield Refusal(mail)
            continue
        raw = RawRecord(
            number=mail.number,
            line=mail.line,
            name=MAIL_NAME,
            content=mail.content,
            reading=reading,
        )
        yield _item(read_record(raw, origin, id_field=None), f"{source.where}:{mail.line}")


def record_item(raw: RawRecord, source: Source, options: ImportOptions) -> ImportItem:
    """Make a case of one record, or say why it is none."""
    origin = RawFile(source.name, b"", source.where)
    record = read_record(raw, origin, id_field=options.fields.id_field)
    return _item(record, f"{source.where}:{raw.line}")


def _item(record: Record | Problem, where: str) -> ImportItem:
    if isinstance(record, Problem):
        return Refusal(record)
    return make_document(record.case_id, [record.file], source=where, problems=record.problems)


_MARKED: Final[Finding] = (
    ProblemCode.BYTE_ORDER_MARK,
    "the file begins with a byte order mark, which is no part of the record",
)


def _raw_line(line: Line, reading: Reading) -> RawRecord:
    return RawRecord(
        number=line.number,
        line=line.number,
        name=RECORD_NAME,
        content=line.content,
        reading=reading,
        findings=(_MARKED,) if line.byte_order_mark else (),
    )


def _missing_column(table: Table, source: Source, options: ImportOptions) -> Problem | None:
    for name in (options.fields.id_field, options.fields.text_field):
        if name is not None and name not in table.header:
            where = f"{source.where}:{table.header_line}"
            return Problem(ProblemCode.HEADER_INVALID, where, f'has no column "{name}"')
    return None


def _told_once(item: ImportItem, told: set[ProblemCode]) -> ImportItem:
    """Leave out, from the second row on, a remark that is about the table as a whole."""
    code = ProblemCode.DELIMITER_DETECTED
    if not isinstance(item, Document) or not any(p.code is code for p in item.problems):
        return item
    if code not in told:
        told.add(code)
        return item
    return item.without(code)
