"""What a person decided is what every export carries, and the case of nobody else's business."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator

import pytest

from casework.checkpoints.memory_storage import MemoryStorage
from casework.checkpoints.records import OperationStatus, operation_hash
from casework.checkpoints.reviews import Correction, ReviewVerdict
from casework.runner.csv_table import csv_lines
from casework.runner.export import ExportRow, jsonl_lines
from casework.runner.parquet_table import ParquetOptions, parquet_chunks
from casework.runner.reviews import Decision, Reviewer
from casework.runtime.views.export_rows import export_rows
from casework.runtime.views.html_report import report_chunks
from casework.runtime.views.report_cases import reported_cases
from casework.strict_json import JSON, JSONObject, digest
from tests.support.packages import CASE, Result, Workshop
from tests.support.page_reader import PageReader

CORRECTED = Decision(
    ReviewVerdict.CORRECTED, "bob", "misread", (Correction("/answer", "<b>no</b>"),)
)
REJECTED = Decision(ReviewVerdict.REJECTED, "ada", "not what the report says")
APPROVED = Decision(ReviewVerdict.APPROVED, "ada")
SUPPLIED = Decision(
    ReviewVerdict.CORRECTED, "bob", corrections=(Correction("", {"answer": "mine"}),)
)


def reviewed(*decisions: Decision, result: Result = "success") -> Workshop:
    """Return a workshop with one finished operation about which a person decided."""
    workshop = Workshop(MemoryStorage(), rounds_max=1)
    workshop.run(workshop.create(), "op", result)
    for decision in decisions:
        Reviewer(workshop.store, now=lambda: workshop.at).decide(
            CASE, operation_hash(1, "op"), decision
        )
    return workshop


def rows(workshop: Workshop, only: OperationStatus | None = None) -> list[ExportRow]:
    return list(export_rows(workshop.store, [CASE], only=only))


def page(workshop: Workshop) -> PageReader:
    cases = reported_cases(workshop.store, [CASE], passed_over={})
    return PageReader(b"".join(report_chunks("t", cases)))


def line(workshop: Workshop) -> JSONObject:
    (content,) = jsonl_lines(rows(workshop))
    value: JSON = json.loads(content)
    assert isinstance(value, dict)
    return value


def test_a_correction_takes_the_place_of_the_answer() -> None:
    """With who decided, when, why and which members; the digest is that of what stands."""
    row = line(reviewed(CORRECTED))
    assert ({"answer": "<b>no</b>"}, "SUCCESS") == (row["output"], row["status"])
    assert digest({"answer": "<b>no</b>"}) == row["output_sha256"]
    assert {
        "verdict": "corrected",
        "number": 1,
        "actor": "bob",
        "decided_at": "2026-01-01T10:00:00Z",
        "reason": "misread",
        "corrected": ["/answer"],
        "corrects_sha256": digest({"answer": "yes"}),
    } == row["review"]


def test_a_rejected_answer_is_no_answer() -> None:
    """The row counts as an error, and holds neither the answer nor its digest."""
    workshop = reviewed(REJECTED)
    row = line(workshop)
    assert ("ERROR", None, None) == (row["status"], row["output"], row["output_sha256"])
    assert [] == rows(workshop, OperationStatus.SUCCESS)
    assert 1 == len(rows(workshop, OperationStatus.ERROR))


def test_an_approval_leaves_the_answer() -> None:
    """Also one that follows a correction: the newest decision counts, on what stood before."""
    row = line(reviewed(CORRECTED, APPROVED))
    review = row["review"]
    assert isinstance(review, dict)
    assert ({"answer": "<b>no</b>"}, "approved", 2) == (
        row["output"],
        review["verdict"],
        review["number"],
    )


def test_an_answer_that_a_person_supplied_counts_as_success() -> None:
    """The failure that the model left stays named."""
    workshop = reviewed(SUPPLIED, result="error")
    (row,) = rows(workshop, OperationStatus.SUCCESS)
    assert ({"answer": "mine"}, True) == (row.output, row.answered)
    assert row.error is not None


def test_without_a_decision_there_is_no_review() -> None:
    """Null, as everything that is not there."""
    row = line(reviewed())
    assert ({"answer": "yes"}, None) == (row["output"], row["review"])


def test_a_table_tells_of_the_review_in_columns() -> None:
    """In CSV as text, in Parquet with a time and a number."""
    parquet = pytest.importorskip("pyarrow.parquet")
    found = rows(reviewed(CORRECTED))
    content = b"".join(csv_lines(found)).decode()
    (record,) = csv.DictReader(io.StringIO(content, newline=""))
    assert ("corrected", "bob", '["/answer"]', "<b>no</b>") == tuple(
        record[name] for name in ("review.verdict", "review.actor", "review.corrected", "/answer")
    )
    schema: JSONObject = {"properties": {"answer": {"type": "string"}}}
    chunks: Iterator[bytes] = parquet_chunks(found, ParquetOptions({"op": schema}))
    (back,) = parquet.read_table(io.BytesIO(b"".join(chunks))).to_pylist()
    assert ("2026-01-01T10:00:00+00:00", 1, "<b>no</b>") == (
        back["review.decided_at"].isoformat(),
        back["review.number"],
        back["/answer"],
    )


def test_a_report_shows_decision_and_values() -> None:
    """Corrected values as text, and what was rejected under its decision."""
    corrected, rejected = page(reviewed(CORRECTED)), page(reviewed(REJECTED))
    assert "set /answer<b>no</b>" in corrected.text
    assert "bob" in corrected.text
    assert set() == {tag for tag, _ in corrected.elements} & {"b"}
    assert "rejected /answeryes" in rejected.text
    assert "not what the report says" in rejected.text


def test_a_forgotten_case_has_no_rows_and_no_section() -> None:
    """What was removed is not asked for, and no damage is told."""
    workshop = reviewed(APPROVED)
    workshop.store.forget(CASE, actor="ada")
    assert [] == rows(workshop)
    assert "0 cases, 0 results" in page(workshop).text
