"""The stream of an import: every file and record that is met comes out exactly once."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final, assert_never

from casework.runner.documents.document import (
    Document,
    ImportItem,
    Problem,
    ProblemCode,
    Refusal,
)
from casework.runner.documents.file_walk import FoundFile, fit, read_all, walk
from casework.runner.documents.import_options import ImportOptions, is_zip_name
from casework.runner.documents.media import Media, Reading, media_of
from casework.runner.documents.reading import RawFile, make_document, read_original
from casework.runner.documents.record_files import (
    Source,
    read_array,
    read_jsonl,
    read_mails,
    read_rows,
)
from casework.runner.documents.zip_members import Archive, ZipMember

_OTHER_FORMATS: Final[Mapping[str, str]] = {
    ".docx": "a word processor's file; save it as text",
}


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
        yield from seen.all_judged(_read_path(path, options))


def read_stream(
    stream: BinaryIO, name: str, options: ImportOptions | None = None
) -> Iterator[ImportItem]:
    """Yield what :func:`read_documents` does, for one file that is open already.

    Args:
        stream: The bytes, from the beginning; it can be wound back.
        name: Stands for the file's name, in ids and problems.
        options: How it is read.
    """
    source = _OpenFile(stream, name)
    yield from _Seen().all_judged(_read_open(source, stream, options or ImportOptions()))


class _OpenFile:
    """A stream in the place of a file."""

    def __init__(self, stream: BinaryIO, name: str) -> None:
        self._stream = stream
        self.name = self.where = fit(name)
        self.escaped = name != self.name

    def open(self) -> BinaryIO:
        return self._stream


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
    yield from _read_found(found, options, prefix="")


def _read_found(
    source: Source, options: ImportOptions, *, prefix: str | None = None
) -> Iterator[ImportItem]:
    """Read one file; the members of an archive are named below it, unless it is given by itself."""
    other = _OTHER_FORMATS.get(PurePosixPath(source.name).suffix.lower())
    if options.format == "auto" and other is not None:
        yield Refusal(Problem(ProblemCode.FORMAT_UNSUPPORTED, source.where, f"is {other}"))
        return
    stream = source.open()
    if isinstance(stream, Problem):
        yield Refusal(stream)
        return
    with stream:
        if options.is_archive(source.name):
            prefix = f"{source.name}/" if prefix is None else prefix
            yield from _read_archive(source, stream, options, prefix=prefix)
        else:
            yield from _read_open(source, stream, options)


def _read_archive(
    source: Source, stream: BinaryIO, options: ImportOptions, *, prefix: str
) -> Iterator[ImportItem]:
    archive = Archive(
        stream, source.where, prefix=prefix, limits=options.archive, walk=options.walk
    )
    inner = replace(options, format="auto") if options.format == "zip" else options
    for item in archive.members():
        if not isinstance(item, ZipMember):
            yield item
        elif is_zip_name(item.name):
            message = "is an archive inside of an archive; unpack it first"
            yield Refusal(Problem(ProblemCode.FORMAT_UNSUPPORTED, item.where, message))
        else:
            yield from _read_found(item, inner)


def _read_open(source: Source, stream: BinaryIO, options: ImportOptions) -> Iterator[ImportItem]:
    try:
        yield from _read_as(source, stream, options)
    except OSError as error:
        message = f"could not be read to its end: {error.strerror}"
        yield Refusal(Problem(ProblemCode.UNREADABLE, source.where, message))


def _read_as(source: Source, stream: BinaryIO, options: ImportOptions) -> Iterator[ImportItem]:
    file_format = options.format_of(source.name)
    match file_format:
        case "files":
            yield _read_whole(source, stream, options, media=media_of(source.name))
        case "eml":
            yield _read_whole(source, stream, options, media="mail")
        case "mbox":
            yield from read_mails(source, stream, options)
        case "jsonl":
            yield from read_jsonl(source, stream, options)
        case "json":
            yield from _read_json(source, stream, options)
        case "csv" | "tsv":
            yield from read_rows(source, stream, options, tabs=file_format == "tsv")
        case _:
            assert_never(file_format)


def _read_whole(
    source: Source, stream: BinaryIO, options: ImportOptions, *, media: Media
) -> ImportItem:
    content = read_all(stream, source.where, bytes_max=options.file_bytes_max)
    if isinstance(content, Problem):
        return Refusal(content)
    return _whole_item(source, content, options, media=media)


def _read_json(source: Source, stream: BinaryIO, options: ImportOptions) -> Iterator[ImportItem]:
    """Yield a case for each element of an array of objects, or one for the file."""
    content = read_all(stream, source.where, bytes_max=options.file_bytes_max)
    if isinstance(content, Problem):
        yield Refusal(content)
        return
    items = read_array(source, content, options)
    if items is None:
        yield _whole_item(source, content, options, media="text")
    else:
        yield from items


def _whole_item(
    source: Source, content: bytes, options: ImportOptions, *, media: Media
) -> ImportItem:
    raw = RawFile(PurePosixPath(source.name).name, content, source.where)
    file = read_original(raw, Reading(media=media, encoding=options.encoding))
    if isinstance(file, Problem):
        return Refusal(file)
    remarks = []
    if source.escaped:
        message = "controls or undecodable bytes of the name were escaped in the id"
        remarks.append(Problem(ProblemCode.NAME_ESCAPED, source.where, message))
    return make_document(source.name, [file], source=source.where, problems=remarks)


class _Seen:
    """Digests of the ids and texts met so far; never the texts themselves."""

    def __init__(self) -> None:
        self._ids: set[bytes] = set()
        self._texts: dict[bytes, str] = {}

    def all_judged(self, items: Iterable[ImportItem]) -> Iterator[ImportItem]:
        for item in items:
            yield self.judged(item) if isinstance(item, Document) else item

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
