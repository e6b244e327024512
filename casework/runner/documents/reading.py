"""From the bytes of files to the document of one case; pure, so that it can be done again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Final

from casework.runner.documents.coverage import Coverage, measure
from casework.runner.documents.decoding import Decoded, Undecodable, declared_encoding, decode
from casework.runner.documents.document import Document, Problem, ProblemCode
from casework.runner.documents.html_text import html_to_text
from casework.runner.documents.import_record import (
    IMPORT_RECORD_NAME,
    ImportedFile,
    Media,
    import_record,
    text_name,
)

HTML_SUFFIXES: Final = frozenset({".html", ".htm", ".xhtml"})
MARKDOWN_SUFFIXES: Final = frozenset({".md", ".markdown", ".mdown", ".mkd"})


@dataclass(frozen=True, slots=True)
class RawFile:
    """One file as it was found."""

    name: str
    """Its own name, which says what it is read as."""
    content: bytes
    where: str
    """The file as the user would name it."""


@dataclass(frozen=True, slots=True)
class ReadFile:
    """One file that could be read as text."""

    entry: ImportedFile
    content: bytes
    """The untouched bytes."""
    text: str
    problems: tuple[Problem, ...]


def media_of(name: str) -> Media:
    """Tell from its name what a file is read as."""
    suffix = PurePosixPath(name).suffix.lower()
    if suffix in HTML_SUFFIXES:
        return "html"
    return "markdown" if suffix in MARKDOWN_SUFFIXES else "text"


def read_file(raw: RawFile, *, encoding: str | None = None) -> ReadFile | Problem:
    """Read the bytes of one file as text.

    Args:
        raw: The file.
        encoding: Decides how the bytes are read; None lets them decide.
    """
    media = media_of(raw.name)
    declared = declared_encoding(raw.content) if media == "html" else None
    decoded = decode(raw.content, encoding=encoding, declared=declared)
    if isinstance(decoded, Undecodable):
        return Problem(decoded.code, raw.where, decoded.message)
    text = html_to_text(decoded.text) if media == "html" else decoded.text
    return made_readable(raw, decoded, media=media, text=text)


def made_readable(raw: RawFile, decoded: Decoded, *, media: Media, text: str) -> ReadFile:
    """Put together what is known of a file whose text was found."""
    coverage = measure(text)
    as_it_stands = decoded.encoding == "utf-8" and not decoded.byte_order_mark
    as_it_stands = as_it_stands and text is decoded.text
    original, text_path = ImportedFile.paths_of(raw.name, as_it_stands=as_it_stands)
    entry = ImportedFile(
        name=raw.name,
        original=original,
        text=text_path,
        media=media,
        encoding=decoded.encoding,
        byte_order_mark=decoded.byte_order_mark,
        coverage=coverage,
    )
    problems = (*_encoding_problems(decoded, raw.where), *_coverage_problems(coverage, raw.where))
    return ReadFile(entry, raw.content, text, problems)


def make_document(
    case_id: str, files: Sequence[ReadFile], *, source: str, problems: Sequence[Problem] = ()
) -> Document:
    """Make the document of one case from its files, which are kept in the order given.

    A case whose every file is empty is empty; where one file has text, the others' emptiness is
    a remark about pages.

    Args:
        case_id: The id of the case.
        files: At least one file.
        source: Where it came from, as the user would name it.
        problems: What was noticed beyond the files.
    """
    if any(not file.entry.coverage.is_empty() for file in files):
        files = [replace(file, problems=tuple(map(_as_remark, file.problems))) for file in files]
    of_files = [(file.entry.name, problem) for file in files for problem in file.problems]
    of_case = [(None, problem) for problem in problems]
    derived = {
        text_name(file.entry.name): file.text.encode("utf-8")
        for file in files
        if file.entry.text != file.entry.original
    }
    record = import_record([file.entry for file in files], [*of_files, *of_case])
    derived[IMPORT_RECORD_NAME] = record.to_bytes()
    return Document(
        case_id=case_id,
        source=source,
        originals={file.entry.name: file.content for file in files},
        derived=derived,
        problems=tuple(problem for _, problem in (*of_files, *of_case)),
    )


def _as_remark(problem: Problem) -> Problem:
    if problem.code is not ProblemCode.EMPTY_INPUT:
        return problem
    return Problem(ProblemCode.PAGES_EMPTY, problem.where, problem.message)


def _encoding_problems(decoded: Decoded, where: str) -> list[Problem]:
    problems = []
    if decoded.guessed:
        message = "the encoding was guessed as Windows-1252; name it if that is wrong"
        problems.append(Problem(ProblemCode.ENCODING_GUESSED, where, message))
    if decoded.byte_order_mark:
        message = f"begins with a byte order mark and was read as {decoded.encoding}"
        problems.append(Problem(ProblemCode.BYTE_ORDER_MARK, where, message))
    return problems


def _coverage_problems(coverage: Coverage, where: str) -> list[Problem]:
    pages = f"text on {coverage.pages_with_text} of {coverage.pages} pages"
    if coverage.is_empty():
        what = pages if coverage.pages > 1 else "no readable character"
        return [Problem(ProblemCode.EMPTY_INPUT, where, f"{what}; no model will be asked")]
    if coverage.pages_with_text < coverage.pages:
        return [Problem(ProblemCode.PAGES_EMPTY, where, pages)]
    return []
