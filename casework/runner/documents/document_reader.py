"""The stream of an import: every file and record that is met comes out exactly once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Final, Literal, TypeAlias

from casework.errors import ConfigurationError
from casework.runner.documents.decoding import text_codec
from casework.runner.documents.document import (
    Document,
    ImportItem,
    Problem,
    ProblemCode,
    Refusal,
)
from casework.runner.documents.file_walk import (
    FoundFile,
    WalkLimits,
    fit,
    open_file,
    read_bounded,
    walk,
)
from casework.runner.documents.jsonl_records import (
    Line,
    RecordFields,
    read_lines,
    read_record,
    wide_codec,
)
from casework.runner.documents.reading import RawFile, make_document, read_file

ImportFormat: TypeAlias = Literal["auto", "files", "jsonl"]

FILE_BYTES_MAX: Final = 16 * 1024 * 1024

_JSONL_SUFFIXES: Final = frozenset({".jsonl", ".ndjson"})
_OTHER_FORMATS: Final[Mapping[str, str]] = {
    ".csv": "a table; turn its rows into JSON Lines",
    ".tsv": "a table; turn its rows into JSON Lines",
    ".zip": "an archive; unpack it and import the folder",
    ".eml": "a mail; save its text",
    ".mbox": "a mailbox; save the texts of its mails",
    ".pdf": "a PDF; extract its text first",
    ".docx": "a word processor's file; save it as text",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """How files are read.

    Raises:
        ConfigurationError: The encoding is none that Python knows.
    """

    format: ImportFormat = "auto"
    """``auto`` goes by the name's ending; ``files`` makes one case a file; ``jsonl`` one a line."""
    fields: RecordFields = field(default_factory=RecordFields)
    encoding: str | None = None
    """Read every file so; None lets byte order marks, UTF-8 and Windows-1252 decide."""
    file_bytes_max: int = FILE_BYTES_MAX
    """Largest file, and longest line of a JSONL file, that is read."""
    walk: WalkLimits = field(default_factory=WalkLimits)

    def __post_init__(self) -> None:
        if self.encoding is None:
            return
        codec = text_codec(self.encoding)
        if codec is None:
            raise ConfigurationError(
                "there is no such text encoding",
                code="encoding_unknown",
                remedy="use a name like utf-8, utf-16, cp1252, shift_jis or cp949",
            )
        object.__setattr__(self, "encoding", codec)


def read_documents(
    paths: Iterable[Path], options: ImportOptions | None = None
) -> Iterator[ImportItem]:
    """Yield a document for each file or record that can be a case, and a refusal for each other.

    The ids are relative paths with ``/``, below the folder given or, for a file given by itself,
    its name; records are numbered ``file#line`` or carry their own id. Order and ids do not
    depend on the order in which a disk lists a folder. One file or line is in memory at a time.

    Args:
        paths: Folders, which are read with everything below them, and files.
        options: How files are read.
    """
    options = options or ImportOptions()
    seen = _Seen()
    for path in paths:
        for item in _read_path(path, options):
            yield seen.judged(item) if isinstance(item, Document) else item


def _read_path(path: Path, options: ImportOptions) -> Iterator[ImportItem]:
    if os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises where this says no
        for item in walk(path, options.walk):
            if isinstance(item, FoundFile):
                yield from _read_found(item, options)
            else:
                yield item
        return
    name = fit(path.name)
    real = os.path.realpath(path)
    found = FoundFile(real, name, fit(str(path)), name != path.name)
    yield from _read_found(found, options)


def _read_found(found: FoundFile, options: ImportOptions) -> Iterator[ImportItem]:
    suffix = PurePosixPath(found.name).suffix.lower()
    other = _OTHER_FORMATS.get(suffix)
    if options.format == "auto" and other is not None:
        yield Refusal(Problem(ProblemCode.FORMAT_UNSUPPORTED, found.where, f"is {other}"))
    elif options.format == "jsonl" or (options.format == "auto" and suffix in _JSONL_SUFFIXES):
        yield from _read_jsonl(found, options)
    else:
        yield _read_whole(found, options)


def _read_whole(found: FoundFile, options: ImportOptions) -> ImportItem:
    content = read_bounded(found.path, found.where, bytes_max=options.file_bytes_max)
    if isinstance(content, Problem):
        return Refusal(content)
    raw = RawFile(PurePosixPath(found.name).name, content, found.where)
    file = read_file(raw, encoding=options.encoding)
    if isinstance(file, Problem):
        return Refusal(file)
    remarks = []
    if found.escaped:
        message = "controls or undecodable bytes of the name were escaped in the id"
        remarks.append(Problem(ProblemCode.NAME_ESCAPED, found.where, message))
    return make_document(found.name, [file], source=found.where, problems=remarks)


def _read_jsonl(found: FoundFile, options: ImportOptions) -> Iterator[ImportItem]:
    stream = open_file(found.path, found.where)
    if isinstance(stream, Problem):
        yield Refusal(stream)
        return
    source = RawFile(found.name, b"", found.where)
    with stream:
        try:
            encoding = wide_codec(stream.read(2), options.encoding) or options.encoding
            stream.seek(0)
            for line in read_lines(
                stream, found.where, encoding=options.encoding, bytes_max=options.file_bytes_max
            ):
                yield _read_line(line, source, options=options, encoding=encoding)
        except OSError as error:
            message = f"could not be read to its end: {error.strerror}"
            yield Refusal(Problem(ProblemCode.UNREADABLE, found.where, message))


def _read_line(
    line: Line | Problem, source: RawFile, *, options: ImportOptions, encoding: str | None
) -> ImportItem:
    if isinstance(line, Problem):
        return Refusal(line)
    record = read_record(line, source, options.fields, encoding=encoding)
    if isinstance(record, Problem):
        return Refusal(record)
    where = f"{source.where}:{line.number}"
    return make_document(record.case_id, [record.file], source=where, problems=record.problems)


class _Seen:
    """Digests of the ids and texts met so far; never the texts themselves."""

    def __init__(self) -> None:
        self._ids: set[bytes] = set()
        self._texts: dict[bytes, str] = {}

    def judged(self, document: Document) -> ImportItem:
        case_id = _short_digest(document.case_id.encode("utf-8"))
        if case_id in self._ids:
            message = "another document of this import has the same id; it is not imported twice"
            return Refusal(Problem(ProblemCode.DUPLICATE_ID, document.source, message))
        self._ids.add(case_id)
        if document.is_empty:
            return document
        first = self._texts.setdefault(_text_digest(document), document.case_id)
        if first == document.case_id:
            return document
        message = f"has the same text as {first}; both are imported"
        problem = Problem(ProblemCode.DUPLICATE_TEXT, document.source, message)
        return replace(document, problems=(*document.problems, problem))


def _text_digest(document: Document) -> bytes:
    texts = [content for name, content in document.derived.items() if name.startswith("text/")]
    return _short_digest(*(texts or document.originals.values()))


def _short_digest(*contents: bytes) -> bytes:
    digest = hashlib.sha256()
    for content in contents:
        digest.update(content)
    return digest.digest()[:16]
