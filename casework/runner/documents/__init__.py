"""Reading people's files into cases: texts, pages, mails, tables and archives."""

from __future__ import annotations

from casework.runner.documents.coverage import PAGES_WITH_TEXT_MIN, Coverage, measure
from casework.runner.documents.document import (
    Document,
    ImportItem,
    ImportSummary,
    ImportTally,
    Problem,
    ProblemCode,
    Refusal,
    Skipped,
    SkipReason,
)
from casework.runner.documents.document_reader import read_documents, read_stream
from casework.runner.documents.file_walk import WalkLimits
from casework.runner.documents.import_options import ImportOptions
from casework.runner.documents.import_record import (
    IMPORT_RECORD_PATH,
    ImportedFile,
    ImportRecord,
)
from casework.runner.documents.media import Reading
from casework.runner.documents.reading import RawFile, ReadFile, make_document, read_file
from casework.runner.documents.records import RecordFields

__all__ = [
    "IMPORT_RECORD_PATH",
    "PAGES_WITH_TEXT_MIN",
    "Coverage",
    "Document",
    "ImportItem",
    "ImportOptions",
    "ImportRecord",
    "ImportSummary",
    "ImportTally",
    "ImportedFile",
    "Problem",
    "ProblemCode",
    "RawFile",
    "ReadFile",
    "Reading",
    "RecordFields",
    "Refusal",
    "SkipReason",
    "Skipped",
    "WalkLimits",
    "make_document",
    "measure",
    "read_documents",
    "read_file",
    "read_stream",
]
