from __future__ import annotations

import io
import sys
import time
from pathlib import Path

import pypdf
import pytest

from casework.runner.documents import (
    Document,
    ImportRecord,
    ProblemCode,
    Refusal,
    read_documents,
)
from casework.runner.documents.decoding import Undecodable
from casework.runner.documents.pdf_process import PdfLimits, PdfText, read_pdf
from tests.support.pdf_files import make_pdf


def code_of(content: bytes, limits: PdfLimits | None = None) -> ProblemCode:
    found = read_pdf(content, limits)
    assert isinstance(found, Undecodable)
    return found.code


def imported(folder: Path, content: bytes) -> Document:
    (folder / "MX5280-manual.pdf").write_bytes(content)
    (document,) = read_documents([folder])
    assert isinstance(document, Document)
    return document


def test_a_pdf_is_the_text_of_its_pages(tmp_path: Path) -> None:
    """The original is kept, and the record names the library that read it."""
    content = make_pdf(["The pump failed.", "Twice."])
    document = imported(tmp_path, content)
    assert {"MX5280-manual.pdf": content} == document.originals
    text = document.derived["text/MX5280-manual.pdf.txt"].decode()
    assert ["The pump failed.", "Twice.", ""] == [page.strip() for page in text.split("\f")]
    (file,) = ImportRecord.parse(document.derived["import.json"]).files
    assert (f"pypdf {pypdf.__version__}", "pdf", 2, 2) == (
        file.reader,
        file.encoding,
        file.coverage.pages,
        file.coverage.pages_with_text,
    )


@pytest.mark.parametrize("pages", [[""], ["", "", ""], ["one", "", "", "four", ""]])
def test_a_scanned_pdf_is_empty_before_any_call(tmp_path: Path, pages: list[str]) -> None:
    """Without text on at least half of the pages there is nothing to ask about."""
    document = imported(tmp_path, make_pdf(pages))
    assert document.is_empty
    assert [ProblemCode.EMPTY_INPUT] == [problem.code for problem in document.problems]
    (file,) = ImportRecord.parse(document.derived["import.json"]).files
    empty = tuple(n for n, text in enumerate(pages, start=1) if not text)
    assert (len(pages), empty) == (file.coverage.pages, file.report.pages_without_text)


def test_pages_without_text_are_told(tmp_path: Path) -> None:
    """Also the last one, and a document with enough text is still asked about."""
    document = imported(tmp_path, make_pdf(["one", "two", ""]))
    assert ["text on 2 of 3 pages"] == [problem.message for problem in document.problems]
    assert [ProblemCode.PAGES_EMPTY] == [problem.code for problem in document.problems]


def test_the_same_pdf_gives_the_same_products(tmp_path: Path) -> None:
    """Nothing of time, place or process is in them."""
    content = make_pdf(["a", "b"])
    assert imported(tmp_path, content).derived == imported(tmp_path, content).derived


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no pdf",
        b"%PDF-1.7\n",
        make_pdf(["x"])[:200],
        b"%PDF-1.7\n" + b"\xff" * 5000,
    ],
)
def test_a_damaged_pdf_is_a_problem_and_nothing_else(tmp_path: Path, content: bytes) -> None:
    """It is refused with a code, and the file after it is imported."""
    (tmp_path / "a.pdf").write_bytes(content)
    (tmp_path / "b.txt").write_bytes(b"x")
    first, second = read_documents([tmp_path])
    assert isinstance(second, Document)
    assert isinstance(first, Refusal)
    assert ProblemCode.PDF_DAMAGED is first.problem.code


@pytest.mark.parametrize("password", ["secret", ""])
def test_an_encrypted_pdf_needs_no_password_or_is_refused(password: str) -> None:
    """What every reader opens without asking is opened; the rest is told."""
    writer = pypdf.PdfWriter(clone_from=io.BytesIO(make_pdf(["The pump."])))
    writer.encrypt(password, owner_password="owner", algorithm="RC4-128")
    target = io.BytesIO()
    writer.write(target)
    found = read_pdf(target.getvalue())
    if password:
        assert isinstance(found, Undecodable)
        assert ProblemCode.PDF_ENCRYPTED is found.code
    else:
        assert isinstance(found, PdfText)
        assert "The pump." in found.text


def test_a_pdf_without_pages_is_empty(tmp_path: Path) -> None:
    """A page tree that leads nowhere has no text."""
    assert imported(tmp_path, make_pdf(["x"], kids="99 0 R")).is_empty


@pytest.mark.parametrize("kids", ["2 0 R", "4 0 R 2 0 R"])
def test_a_page_tree_in_a_circle_comes_to_an_end(kids: str) -> None:
    """Whatever it is read as, it is read within the limits."""
    begun = time.monotonic()
    found = read_pdf(make_pdf(["x", "y"], kids=kids), PdfLimits(cpu_seconds=5, wall_seconds=60))
    assert 60 > time.monotonic() - begun
    assert isinstance(found, PdfText | Undecodable)


@pytest.mark.skipif(sys.platform == "win32", reason="needs limits of the system")
def test_a_pdf_that_costs_too_much_is_ended_by_the_system() -> None:
    """Processor time and memory have limits, and both are reached here."""
    assert ProblemCode.PDF_TOO_COSTLY is code_of(busy_pdf(), PdfLimits(cpu_seconds=1))
    large = make_pdf(["x"], extra=b"BT (" + b"a" * 60_000_000 + b") Tj ET ")
    assert ProblemCode.PDF_TOO_COSTLY is code_of(large, PdfLimits(memory_bytes=200 * 1024 * 1024))


def test_a_pdf_that_takes_too_long_or_is_too_long_is_refused() -> None:
    """The clock, the pages and the text have limits on every system."""
    assert ProblemCode.PDF_TOO_COSTLY is code_of(busy_pdf(), PdfLimits(wall_seconds=0.5))
    plain = make_pdf(["one", "two"])
    assert ProblemCode.TOO_LARGE is code_of(plain, PdfLimits(pages=1))
    assert ProblemCode.TOO_LARGE is code_of(plain, PdfLimits(text_bytes=5))
    assert isinstance(read_pdf(plain, PdfLimits(pages=2, text_bytes=20)), PdfText)


def busy_pdf() -> bytes:
    return make_pdf(["x"], extra=b"1 0 0 1 0 0 cm BT (a) Tj ET " * 400_000)


def test_a_missing_extra_is_told_with_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Casework without pypdf imports everything else."""
    (tmp_path / "pypdf.py").write_text("raise ImportError", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    found = read_pdf(make_pdf(["x"]))
    assert isinstance(found, Undecodable)
    assert ProblemCode.EXTRA_MISSING is found.code
    assert "pip install casework[pdf]" in found.message
