"""From the bytes of files to the document of one case; pure, so that it can be done again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from casework.runner.documents.coverage import Coverage, measure
from casework.runner.documents.decoding import Undecodable
from casework.runner.documents.document import Document, Problem, ProblemCode
from casework.runner.documents.extraction import extract
from casework.runner.documents.import_record import (
    IMPORT_RECORD_NAME,
    ImportedFile,
    import_record,
    text_name,
)
from casework.runner.documents.media import Reading, media_of
from casework.runner.documents.text_report import TextReport
from casework.strict_json import JSON


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
    members: Mapping[str, JSON] | None = None
    """The members of a record, or the cells of a row by column."""


def read_file(raw: RawFile, *, encoding: str | None = None) -> ReadFile | Problem:
    """Read the bytes of one whole file as text; its name says as what.

    Args:
        raw: The file.
        encoding: Decides how the bytes are read; None lets them decide.
    """
    return read_original(raw, Reading(media=media_of(raw.name), encoding=encoding))


def read_original(raw: RawFile, reading: Reading) -> ReadFile | Problem:
    """Read the bytes of one original as text, in the way that was decided on."""
    found = extract(raw.name, raw.content, reading)
    if isinstance(found, Undecodable):
        return Problem(found.code, raw.where, found.message)
    coverage = measure(found.text)
    as_it_stands = found.text.encode("utf-8") == raw.content
    original, text_path = ImportedFile.paths_of(raw.name, as_it_stands=as_it_stands)
    entry = ImportedFile(
        name=raw.name,
        original=original,
        text=text_path,
        reading=reading,
        encoding=found.encoding,
        byte_order_mark=found.byte_order_mark,
        coverage=coverage,
        report=TextReport.of(found.text, coverage, surrogates_replaced=found.surrogates_replaced),
        reader=found.reader,
    )
    problems = [Problem(code, raw.where, message) for code, message in found.findings]
    problems += _coverage_problems(coverage, raw.where)
    return ReadFile(entry, raw.content, found.text, tuple(problems), found.members)


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
        problems: What was noticed beyond the files' own bytes; it is told, and not recorded.
    """
    files = _judged_together(files)
    of_files = [problem for file in files for problem in file.problems]
    return Document(
        case_id=case_id,
        source=source,
        originals={file.entry.name: file.content for file in files},
        derived=products_of(files),
        problems=(*of_files, *problems),
    )


def products_of(files: Sequence[ReadFile]) -> dict[str, bytes]:
    """Return what lies below ``case/`` for the files of one case: their texts and the record.

    What depends on anything but the files themselves is no part of it.
    """
    files = _judged_together(files)
    products = {
        text_name(file.entry.name): file.text.encode("utf-8")
        for file in files
        if file.entry.text != file.entry.original
    }
    problems = [(file.entry.name, problem) for file in files for problem in file.problems]
    products[IMPORT_RECORD_NAME] = import_record(
        [file.entry for file in files], problems
    ).to_bytes()
    return products


def _judged_together(files: Sequence[ReadFile]) -> Sequence[ReadFile]:
    if all(file.entry.coverage.is_empty() for file in files):
        return files
    return [replace(file, problems=tuple(map(_as_remark, file.problems))) for file in files]


def _as_remark(problem: Problem) -> Problem:
    if problem.code is not ProblemCode.EMPTY_INPUT:
        return problem
    return Problem(ProblemCode.PAGES_EMPTY, problem.where, problem.message)


def _coverage_problems(coverage: Coverage, where: str) -> list[Problem]:
    pages = f"text on {coverage.pages_with_text} of {coverage.pages} pages"
    if coverage.is_empty():
        what = pages if coverage.pages > 1 else "no readable character"
        return [Problem(ProblemCode.EMPTY_INPUT, where, f"{what}; no model will be asked")]
    if coverage.pages_with_text < coverage.pages:
        return [Problem(ProblemCode.PAGES_EMPTY, where, pages)]
    return []
