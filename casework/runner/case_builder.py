"""The products of a case, made again and again from its original bytes alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from casework.errors import FormatError
from casework.runner.documents.document import Problem
from casework.runner.documents.import_record import IMPORT_RECORD_PATH, ImportRecord
from casework.runner.documents.media import Reading, media_of
from casework.runner.documents.reading import RawFile, ReadFile, products_of, read_original


class CaseFiles(Protocol):
    """What is asked of a store or of an opened package."""

    def read_file(self, case_id: str, path: str) -> bytes:
        """Return the verified bytes of one file of a case."""


class CaseBuilder:
    """Makes what lies below ``case/`` from what lies below ``original/``, and from nothing else.

    The products are the texts that models read, where these differ from the originals, and
    ``import.json``, the report of what was noticed. The same bytes read in the same way give the
    same products on every machine. Not promised is that a text taken out of a PDF stays the same
    under another version of the library that takes it out, which the report names, or that a
    broken mail is taken apart alike by every version of Python.

    Args:
        readings: How originals are read, by name; the files of a case keep this order. An original
            that is not named here is read as its name says.
    """

    def __init__(self, readings: Mapping[str, Reading] | None = None) -> None:
        self._readings = dict(readings or {})

    @classmethod
    def recorded(cls, import_json: bytes) -> CaseBuilder:
        """Return a builder that reads as the report of a case says that it was read.

        Raises:
            FormatError: The bytes are no such report.
        """
        record = ImportRecord.parse(import_json)
        return cls({file.name: file.reading for file in record.files})

    def build(self, originals: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return the products by their names below ``case/``.

        Args:
            originals: The inputs of one case by the user's own names.

        Raises:
            FormatError: An original is missing or cannot be read; the code says why.
        """
        return products_of(list(self._read(originals)))

    def _read(self, originals: Mapping[str, bytes]) -> Iterator[ReadFile]:
        missing = [name for name in self._readings if name not in originals]
        if missing or not originals:
            where = missing[0] if missing else None
            raise FormatError("an original of the case is missing", code="not_found", where=where)
        for name in dict.fromkeys((*self._readings, *originals)):
            reading = self._readings.get(name) or Reading(media=media_of(name))
            file = read_original(RawFile(name, originals[name], name), reading)
            if isinstance(file, Problem):
                raise FormatError(file.message, code=file.code.value, where=name)
            yield file


def rebuild(package: CaseFiles, case_id: str) -> dict[str, bytes]:
    """Make the products of a stored case again, to compare them or to put them back.

    Raises:
        FormatError: The case was not made by an import, or an original cannot be read.
        CheckpointError: The package cannot be read.
    """
    report = package.read_file(case_id, IMPORT_RECORD_PATH)
    files = ImportRecord.parse(report).files
    originals = {file.name: package.read_file(case_id, file.original) for file in files}
    return CaseBuilder.recorded(report).build(originals)
