"""``case/import.json``: which texts a case has, and what was noticed when they were read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, get_args

from casework.checkpoints.names import original_path, safe_relative_path
from casework.errors import FormatError
from casework.runner.documents.coverage import Coverage
from casework.runner.documents.document import Problem
from casework.strict_json import JSON, InvalidJSON, JSONObject, canonical, parse

IMPORT_RECORD_NAME: Final = "import.json"
IMPORT_RECORD_PATH: Final = f"case/{IMPORT_RECORD_NAME}"
IMPORT_RECORD_FORMAT: Final = "case-import/1"

Media: TypeAlias = Literal["text", "markdown", "html", "record"]
"""What a file was read as; a record is one line of a JSONL file."""

_MEDIA: Final[tuple[Media, ...]] = get_args(Media)


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
    media: Media
    encoding: str
    byte_order_mark: bool
    coverage: Coverage

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
            "media": self.media,
            "encoding": self.encoding,
            "byte_order_mark": self.byte_order_mark,
            "characters": self.coverage.characters,
            "pages": self.coverage.pages,
            "pages_with_text": self.coverage.pages_with_text,
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
    """Everything that an import has to say about one case, from the case's own bytes alone."""

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
    files: Sequence[ImportedFile], problems: Sequence[tuple[str | None, Problem]]
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
        media=_media(_text(value, "media")),
        encoding=_text(value, "encoding"),
        byte_order_mark=_member(value, "byte_order_mark") is True,
        coverage=Coverage(*(_count(value, n) for n in ("characters", "pages", "pages_with_text"))),
    )


def _media(word: str) -> Media:
    for media in _MEDIA:
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


def _count(value: JSON, name: str) -> int:
    member = _member(value, name)
    if not isinstance(member, int) or isinstance(member, bool) or member < 0:
        raise _odd()
    return member


def _list(value: JSON, name: str) -> list[JSON]:
    member = _member(value, name)
    if not isinstance(member, list):
        raise _odd()
    return member


def _odd() -> FormatError:
    return FormatError("is no import record of a known format", where=IMPORT_RECORD_PATH)
