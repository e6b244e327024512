"""``case/import.json``: which texts a case has, and what was noticed when they were read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from casework.checkpoints.names import original_path, safe_relative_path
from casework.errors import FormatError
from casework.runner.documents.coverage import Coverage
from casework.runner.documents.document import Problem
from casework.runner.documents.media import MEDIA, Media, Reading
from casework.runner.documents.text_report import NormalForm, TextReport
from casework.strict_json import JSON, InvalidJSON, JSONObject, canonical, parse

IMPORT_RECORD_NAME: Final = "import.json"
IMPORT_RECORD_PATH: Final = f"case/{IMPORT_RECORD_NAME}"
IMPORT_RECORD_FORMAT: Final = "case-import/2"

_NORMAL_FORMS: Final[tuple[NormalForm, ...]] = ("nfc", "nfd", "mixed")


_COUNTS: Final = (
    "line_feeds",
    "carriage_returns",
    "line_end_pairs",
    "control_characters",
    "surrogates_replaced",
)
"""The counts of a report, under the names that they are stored by."""


def text_name(name: str) -> str:
    """Return the name, below ``case/``, of the text that was made of a file."""
    return f"text/{name}.txt"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedFile:
    """One original file and the text that models read in its place."""

    name: str
    """The file's own name; its path in the package is made from it."""
    original: str
    """Path of the untouched bytes."""
    text: str
    """Path of the text in UTF-8: the original itself where that is already such a text."""
    reading: Reading
    encoding: str
    """Name of the codec by which the bytes were read, or what stands for it in a binary format."""
    byte_order_mark: bool
    coverage: Coverage
    report: TextReport
    reader: str | None = None
    """Library and version that took the text out of a binary format."""

    @classmethod
    def paths_of(cls, name: str, *, as_it_stands: bool) -> tuple[str, str]:
        """Return the paths of the original and of its text."""
        original = original_path(name)
        derived = f"case/{safe_relative_path(text_name(name))}"
        return original, original if as_it_stands else derived

    def to_json(self) -> JSONObject:
        """Return the entry as it is stored."""
        return {
            "name": self.name,
            "original": self.original,
            "text": self.text,
            "media": self.reading.media,
            "encoding_given": self.reading.encoding,
            "text_field": self.reading.text_field,
            "reader": self.reader,
            "encoding": self.encoding,
            "byte_order_mark": self.byte_order_mark,
            "characters": self.coverage.characters,
            "pages": self.coverage.pages,
            "pages_with_text": self.coverage.pages_with_text,
            "pages_without_text": list(self.report.pages_without_text),
            "normal_form": self.report.normal_form,
            **{name: getattr(self.report, name) for name in _COUNTS},
        }


@dataclass(frozen=True, slots=True)
class Remark:
    """Something that was noticed, without what depends on other documents."""

    code: str
    file: str | None
    """Name of the file that it is about; None for the case as a whole."""
    message: str

    def to_json(self) -> JSONObject:
        """Return the remark as it is stored."""
        return {"code": self.code, "file": self.file, "message": self.message}


@dataclass(frozen=True, slots=True)
class ImportRecord:
    """What an import has to say about one case, from the case's own bytes and their readings."""

    files: tuple[ImportedFile, ...]
    remarks: tuple[Remark, ...] = ()

    def to_bytes(self) -> bytes:
        """Write the record; the same case always gives the same bytes."""
        return canonical(
            {
                "format": IMPORT_RECORD_FORMAT,
                "files": [file.to_json() for file in self.files],
                "remarks": [remark.to_json() for remark in self.remarks],
            }
        )

    @classmethod
    def parse(cls, content: bytes) -> ImportRecord:
        """Read a record.

        Raises:
            FormatError: The bytes are no import record of a known format.
        """
        try:
            value = parse(content)
            if not isinstance(value, dict) or value.get("format") != IMPORT_RECORD_FORMAT:
                raise _odd()
            files = tuple(map(_file, _list(value, "files")))
            remarks = tuple(map(_remark, _list(value, "remarks")))
        except InvalidJSON:
            raise _odd() from None
        return cls(files, remarks)


def import_record(
    files: Sequence[ImportedFile], problems: Sequence[tuple[str, Problem]]
) -> ImportRecord:
    """Make the record of a case from its files and the problems with the files they are about."""
    remarks = (Remark(problem.code.value, name, problem.message) for name, problem in problems)
    return ImportRecord(tuple(files), tuple(remarks))


def _remark(value: JSON) -> Remark:
    file = _member(value, "file")
    if file is not None and not isinstance(file, str):
        raise _odd()
    return Remark(_text(value, "code"), file, _text(value, "message"))


def _file(value: JSON) -> ImportedFile:
    return ImportedFile(
        name=_text(value, "name"),
        original=_text(value, "original"),
        text=_text(value, "text"),
        reading=Reading(
            media=_media(_text(value, "media")),
            encoding=_text_or_none(value, "encoding_given"),
            text_field=_text_or_none(value, "text_field"),
        ),
        encoding=_text(value, "encoding"),
        byte_order_mark=_member(value, "byte_order_mark") is True,
        coverage=Coverage(*(_count(value, n) for n in ("characters", "pages", "pages_with_text"))),
        report=_report(value),
        reader=_text_or_none(value, "reader"),
    )


def _report(value: JSON) -> TextReport:
    pages = _member(value, "pages_without_text")
    if not isinstance(pages, list):
        raise _odd()
    form = _text(value, "normal_form")
    if form not in _NORMAL_FORMS:
        raise _odd()
    counts = {name: _count(value, name) for name in _COUNTS}
    return TextReport(
        line_feeds=counts["line_feeds"],
        carriage_returns=counts["carriage_returns"],
        line_end_pairs=counts["line_end_pairs"],
        control_characters=counts["control_characters"],
        surrogates_replaced=counts["surrogates_replaced"],
        normal_form=form,
        pages_without_text=tuple(_whole_number(page) for page in pages),
    )


def _media(word: str) -> Media:
    for media in MEDIA:
        if media == word:
            return media
    raise _odd()


def _member(value: JSON, name: str) -> JSON:
    if not isinstance(value, Mapping) or name not in value:
        raise _odd()
    return value[name]


def _text(value: JSON, name: str) -> str:
    member = _member(value, name)
    if not isinstance(member, str):
        raise _odd()
    return member


def _text_or_none(value: JSON, name: str) -> str | None:
    return None if _member(value, name) is None else _text(value, name)


def _count(value: JSON, name: str) -> int:
    return _whole_number(_member(value, name))


def _whole_number(value: JSON) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise _odd()
    return value


def _list(value: JSON, name: str) -> list[JSON]:
    member = _member(value, name)
    if not isinstance(member, list):
        raise _odd()
    return member


def _odd() -> FormatError:
    return FormatError("is no import record of a known format", where=IMPORT_RECORD_PATH)
