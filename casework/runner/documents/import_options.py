"""How an import reads files: by which format, with which fields, within which limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Final, Literal, TypeAlias

from casework.checkpoints.zip_storage import ZipLimits
from casework.errors import ConfigurationError
from casework.runner.documents.decoding import text_codec
from casework.runner.documents.file_walk import WalkLimits
from casework.runner.documents.records import RecordFields

FileFormat: TypeAlias = Literal["files", "jsonl", "csv", "tsv", "json", "eml", "mbox"]
"""``files`` and ``eml`` make one case a file, the others one a record."""
ImportFormat: TypeAlias = Literal[
    "auto", "zip", "files", "jsonl", "csv", "tsv", "json", "eml", "mbox"
]
"""``auto`` goes by the name's ending; ``zip`` says so of a file, and not of its members."""

FILE_BYTES_MAX: Final = 16 * 1024 * 1024

_BY_SUFFIX: Final[Mapping[str, FileFormat]] = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".eml": "eml",
    ".mbox": "mbox",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """How files are read.

    Raises:
        ConfigurationError: The encoding is none that Python knows.
    """

    format: ImportFormat = "auto"
    fields: RecordFields = field(default_factory=RecordFields)
    encoding: str | None = None
    """Read every file so; None lets byte order marks, UTF-8 and Windows-1252 decide."""
    file_bytes_max: int = FILE_BYTES_MAX
    """Largest file that is one case, and largest record of a file of many, that is read."""
    walk: WalkLimits = field(default_factory=WalkLimits)
    archive: ZipLimits = field(default_factory=ZipLimits)
    """How much is unpacked of one ZIP."""

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

    def is_archive(self, name: str) -> bool:
        """Tell whether a file is taken apart into its members."""
        return self.format == "zip" or is_zip_name(name)

    def format_of(self, name: str) -> FileFormat:
        """Return as what a file is read."""
        if self.format != "auto" and self.format != "zip":  # noqa: PLR1714 - tells mypy
            return self.format
        return _BY_SUFFIX.get(PurePosixPath(name).suffix.lower(), "files")


def is_zip_name(name: str) -> bool:
    """Tell from its name whether a file is a ZIP; whatever the format, it is no text."""
    return name.lower().endswith(".zip")
