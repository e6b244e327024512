"""Asking for the text of a PDF, and not waiting for ever for it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from casework.runner.documents.decoding import Undecodable
from casework.runner.documents.document import ProblemCode

PDF_MARK: Final = b"%PDF-"
_MARK_WITHIN: Final = 1024
_PROGRAM: Final = Path(__file__).with_name("pdf_text.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class PdfLimits:
    """What one PDF may cost; a PDF that costs more is refused, and the import goes on."""

    pages: int = 10_000
    text_bytes: int = 64 * 1024 * 1024
    cpu_seconds: int = 60
    """Processor time; enforced by the system where it can be."""
    memory_bytes: int = 2 * 1024 * 1024 * 1024
    """Address space; enforced by the system where it can be."""
    wall_seconds: float = 300.0


@dataclass(frozen=True, slots=True)
class PdfText:
    """The texts of the pages, in order."""

    pages: tuple[str, ...]
    failed: tuple[int, ...]
    """Numbers of pages that could not be read; their texts are empty."""
    reader: str
    """Library and version."""

    @property
    def text(self) -> str:
        """Return the pages one after the other, each ended by a form feed."""
        return "".join(f"{page}\f" for page in self.pages)


def read_pdf(content: bytes, limits: PdfLimits | None = None) -> PdfText | Undecodable:
    """Take the text layer out of a PDF, in a process that is ended when it costs too much.

    Not promised is the order of words on a page: a PDF places letters, and knows no lines.

    Args:
        content: The PDF.
        limits: What it may cost.
    """
    limits = limits or PdfLimits()
    if PDF_MARK not in content[:_MARK_WITHIN]:
        return Undecodable(ProblemCode.PDF_DAMAGED, "is no PDF")
    numbers = (limits.pages, limits.text_bytes, limits.cpu_seconds, limits.memory_bytes)
    try:
        done = subprocess.run(  # noqa: S603 - our own program, no shell
            [sys.executable, "-P", "-X", "utf8", str(_PROGRAM), *map(str, numbers)],
            input=content,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=limits.wall_seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        message = f"its text was not found within {limits.wall_seconds:g} seconds"
        return Undecodable(ProblemCode.PDF_TOO_COSTLY, message)
    if done.returncode < 0:
        message = f"its text was not found within {limits.cpu_seconds} seconds of processor time"
        return Undecodable(ProblemCode.PDF_TOO_COSTLY, message)
    try:
        found = json.loads(done.stdout)
    except ValueError:
        return Undecodable(ProblemCode.PDF_TOO_COSTLY, "its text could not be taken out")
    if "refused" in found:
        return _REFUSALS[found["refused"]](limits)
    return PdfText(tuple(found["pages"]), tuple(found["failed"]), found["reader"])


class _Refusal:
    def __init__(self, code: ProblemCode, message: str) -> None:
        self._code = code
        self._message = message

    def __call__(self, limits: PdfLimits) -> Undecodable:
        return Undecodable(self._code, self._message.format(limits=limits))


_REFUSALS: Final[Mapping[str, _Refusal]] = {
    "damaged": _Refusal(ProblemCode.PDF_DAMAGED, "the PDF cannot be read"),
    "encrypted": _Refusal(ProblemCode.PDF_ENCRYPTED, "the PDF is encrypted; decrypt it first"),
    "extra": _Refusal(
        ProblemCode.EXTRA_MISSING,
        "PDFs need an extra that is not installed: pip install casework[pdf]",
    ),
    "memory": _Refusal(
        ProblemCode.PDF_TOO_COSTLY, "its text needs more than {limits.memory_bytes} bytes of memory"
    ),
    "pages": _Refusal(ProblemCode.TOO_LARGE, "has more than {limits.pages} pages"),
    "text": _Refusal(ProblemCode.TOO_LARGE, "has more than {limits.text_bytes} bytes of text"),
}
