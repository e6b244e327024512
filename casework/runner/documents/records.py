"""From one record of a file of many to a case of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from casework.runner.documents.document import Problem, ProblemCode
from casework.runner.documents.extraction import Finding
from casework.runner.documents.file_walk import fit
from casework.runner.documents.media import Reading
from casework.runner.documents.reading import RawFile, ReadFile, read_original
from casework.strict_json import JSON

ID_LENGTH_MAX: Final = 512


@dataclass(frozen=True, slots=True)
class RecordFields:
    """Where a record keeps its id and its text."""

    id_field: str | None = None
    """None numbers the cases."""
    text_field: str | None = None
    """None takes the whole record as the text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawRecord:
    """One record as it was found, fit to stand alone."""

    number: int
    """Stands in the id where the record has none of its own."""
    line: int
    """Where it begins in its file."""
    name: str
    """Its name among the originals of its case."""
    content: bytes
    reading: Reading
    findings: tuple[Finding, ...] = ()
    """Remarks about its file that are told with it."""


@dataclass(frozen=True, slots=True)
class Record:
    """One record that is a case."""

    case_id: str
    file: ReadFile
    problems: tuple[Problem, ...]


def read_record(raw: RawRecord, source: RawFile, *, id_field: str | None) -> Record | Problem:
    """Read one record as a case.

    Args:
        raw: The record.
        source: The file it is from; its content is not looked at.
        id_field: Where the id is kept; None numbers the cases.
    """
    where = f"{source.where}:{raw.line}"
    file = read_original(RawFile(raw.name, raw.content, where), raw.reading)
    if isinstance(file, Problem):
        return file
    value: JSON = f"{source.name}#{raw.number}"
    if id_field is not None:
        value = (file.members or {}).get(id_field)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not 0 < len(value) <= ID_LENGTH_MAX:
        return Problem(ProblemCode.ID_INVALID, where, _ID_RULE.format(id_field))
    case_id = fit(value)
    problems = [Problem(code, where, message) for code, message in raw.findings]
    if case_id != value:
        message = "control characters in the id were escaped"
        problems.append(Problem(ProblemCode.NAME_ESCAPED, where, message))
    return Record(case_id, file, tuple(problems))


_ID_RULE: Final = 'has no id under the name "{}": a whole number or a text of 1 to ' + str(
    ID_LENGTH_MAX
)
