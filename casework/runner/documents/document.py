"""What an import yields: documents, what was refused and why, what was passed over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias, assert_never


class ProblemCode(StrEnum):
    """What an import has to say about a file or a record."""

    # The file or record is not imported.
    NOT_FOUND = "not_found"
    UNREADABLE = "unreadable"
    NOT_A_FILE = "not_a_file"
    """A pipe, a socket or a device."""
    LINK_NOT_FOLLOWED = "link_not_followed"
    """A link to a folder, or one that leaves the folder being imported."""
    TOO_LARGE = "too_large"
    TOO_DEEP = "too_deep"
    TOO_MANY = "too_many"
    BINARY = "binary"
    FORMAT_UNSUPPORTED = "format_unsupported"
    ENCODING_UNKNOWN = "encoding_unknown"
    EXTRA_MISSING = "extra_missing"
    """The library that reads such files is not installed."""
    PDF_ENCRYPTED = "pdf_encrypted"
    PDF_DAMAGED = "pdf_damaged"
    PDF_TOO_COSTLY = "pdf_too_costly"
    """Its text was not found within the time and memory that one file may cost."""
    RECORD_INVALID = "record_invalid"
    """Not one strict JSON object, not a row of its table, or not a mailbox."""
    ARCHIVE_DAMAGED = "archive_damaged"
    """A ZIP, or a member of one, is not what it says it is."""
    MEMBER_UNSAFE = "member_unsafe"
    """The name of a member is absolute, leads out of the archive, or is not plain."""
    MEMBER_ENCRYPTED = "member_encrypted"
    MEMBER_DUPLICATE = "member_duplicate"
    HEADER_INVALID = "header_invalid"
    """A table cannot be read because of its first line."""
    TEXT_MISSING = "text_missing"
    """A record has no text under the name given."""
    ID_INVALID = "id_invalid"
    DUPLICATE_ID = "duplicate_id"
    CASE_FORGOTTEN = "case_forgotten"
    """The case was here and was forgotten; it does not come back under its id."""

    # The document is imported all the same.
    EMPTY_INPUT = "empty_input"
    """There is nothing to read in it, or on most of its pages; no model will be asked."""
    PAGES_EMPTY = "pages_empty"
    PAGES_UNREADABLE = "pages_unreadable"
    """Pages of a PDF could not be read and count as empty."""
    DUPLICATE_TEXT = "duplicate_text"
    """Another document of this import has the same text; both are cases."""
    ENCODING_GUESSED = "encoding_guessed"
    BYTE_ORDER_MARK = "byte_order_mark"
    CHARSET_UNKNOWN = "charset_unknown"
    """A mail names a character set that does not exist, or names it in an odd way."""
    MAIL_DAMAGED = "mail_damaged"
    """A mail could not be taken apart; its text stands as it was found."""
    DELIMITER_DETECTED = "delimiter_detected"
    """The columns of a table are not parted by commas."""
    SURROGATES_REPLACED = "surrogates_replaced"
    NAME_ESCAPED = "name_escaped"
    """Controls or undecodable bytes of a name are written as ``\\xNN`` in the id."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One remark, with its place; never any text of the document."""

    code: ProblemCode
    where: str
    """The file as the user would name it, with ``:line`` for a record."""
    message: str

    def __str__(self) -> str:
        """Return the remark on one line."""
        return f"{self.where}: {self.message} [{self.code}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One case to be: its original bytes and what was derived from them alone."""

    case_id: str
    source: str
    """Where it came from, as the user would name it."""
    originals: Mapping[str, bytes]
    """The bytes as they were found, by the files' own names."""
    derived: Mapping[str, bytes]
    """By name below ``case/``: texts in UTF-8 where they differ from the original, the record."""
    problems: tuple[Problem, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Tell whether there is nothing that a model could be asked about."""
        return any(problem.code is ProblemCode.EMPTY_INPUT for problem in self.problems)

    def without(self, code: ProblemCode) -> Document:
        """Return the same document with nothing said about one matter."""
        kept = tuple(problem for problem in self.problems if problem.code is not code)
        return replace(self, problems=kept)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A file or record that did not become a case."""

    problem: Problem


class SkipReason(StrEnum):
    """Why a file or folder was passed over without being a problem."""

    HIDDEN = "hidden"
    IGNORED = "ignored"


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file or folder that was passed over on purpose."""

    where: str
    reason: SkipReason


ImportItem: TypeAlias = Document | Refusal | Skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSummary:
    """The count of an import: what came in equals what came out plus what was refused."""

    documents: int
    refused: int
    skipped: Mapping[SkipReason, int]
    problems: Mapping[ProblemCode, int]
    original_bytes: int

    @property
    def found(self) -> int:
        """Return how many files and records were met and not passed over."""
        return self.documents + self.refused


class ImportTally:
    """Count the items of an import as they pass by."""

    def __init__(self) -> None:
        self._documents = 0
        self._refused = 0
        self._original_bytes = 0
        self._skipped: dict[SkipReason, int] = {}
        self._problems: dict[ProblemCode, int] = {}

    def add(self, item: ImportItem) -> None:
        """Count one item."""
        match item:
            case Document():
                self._documents += 1
                self._original_bytes += sum(map(len, item.originals.values()))
                for problem in item.problems:
                    self._count(problem)
            case Refusal():
                self._refused += 1
                self._count(item.problem)
            case Skipped():
                self._skipped[item.reason] = self._skipped.get(item.reason, 0) + 1
            case _:
                assert_never(item)

    def summary(self) -> ImportSummary:
        """Return the count so far."""
        return ImportSummary(
            documents=self._documents,
            refused=self._refused,
            skipped=dict(self._skipped),
            problems=dict(sorted(self._problems.items())),
            original_bytes=self._original_bytes,
        )

    def _count(self, problem: Problem) -> None:
        self._problems[problem.code] = self._problems.get(problem.code, 0) + 1
