from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pytest

from casework.gateway.messages import Cost, Usage
from casework.runner.export import EMPTY_ROW, ExportRow
from casework.runtime.views.evidence import Quote
from casework.runtime.views.html_report import report_chunks
from casework.runtime.views.report_cases import ReportedCase, ReportedResult
from tests.support.page_reader import PageReader
from tests.unit.runtime.views.test_inert_html import HOSTILE


def answered(text: str = "yes", member: str = "answer") -> ExportRow:
    return replace(
        EMPTY_ROW,
        case_id=text,
        package_id=text,
        operation_id=text,
        status="SUCCESS",
        output={member: text, "n": -1},
        provider=text,
        model=text,
        provider_class=text,
        prompt_version=text,
        started_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        elapsed_ms=1500,
        usage=Usage(1200, None, None),
        cost=Cost(Decimal("0.0010"), "EUR"),
    )


def case(text: str = "x") -> ReportedCase:
    quote = Quote("/answer", text, 1, text)
    return ReportedCase(text, (ReportedResult(answered(text, text), (quote,)),), ((text, text),))


def report(*cases: ReportedCase, title: str = "claims") -> PageReader:
    return PageReader(b"".join(report_chunks(title, cases)))


@pytest.mark.parametrize("text", [text for text in HOSTILE if "\n" not in text])
def test_nothing_in_a_report_comes_from_a_text_but_text(text: str) -> None:
    """Names, ids, answers, sources and providers of any wording leave the markup as it is."""
    found, harmless = report(case(text), title=text), report(case())
    assert harmless.elements == found.elements
    assert harmless.declarations == found.declarations


def test_a_case_shows_its_answer_its_source_and_where_it_came_from() -> None:
    """Provider, model, time, tokens and cost; what nobody knows is unknown."""
    row = replace(answered("extract"), case_id="a.txt", provider="desk", model="m-1")
    quotes = (Quote("/answer", "a.txt", 2, "extract"),)
    found = report(
        ReportedCase("a.txt", (ReportedResult(row, quotes),), (("a.txt", "one\nextract"),))
    ).text
    for part in (
        "a.txt, line 2",
        "desk",
        "m-1",
        "2026-01-02T03:04:05Z",
        "1.500 s",
        "0.0010 EUR",
        "1,200",
        "2  extract",
    ):
        assert part in found
    assert "unknown" in found


def test_counts_stand_before_the_cases() -> None:
    """Cases, results by operation and state, and money by currency, unknown prices apart."""
    unpriced = ReportedResult(replace(answered("o"), cost=None))
    failed = ReportedResult(replace(EMPTY_ROW, operation_id="o", status="ERROR", error="refusal"))
    found = report(
        ReportedCase("1", (ReportedResult(answered("o")), failed), ()),
        ReportedCase("2", (unpriced,), ()),
    ).text
    counts = found[: found.index("Cases")]
    assert "2 cases, 3 results. Cost of the final rounds: 0.0010 EUR known" in counts
    assert "of 1 result the price is unknown" in counts
    assert "oERROR1\noSUCCESS2" in counts
    assert "refusal" in found


def test_each_case_folds_and_can_be_reached_by_keyboard() -> None:
    """A section is the browser's own disclosure, and its summary names case and state."""
    found = report(case("a"), case("b"))
    tags = [tag for tag, _ in found.elements]
    assert (2, 2) == (tags.count("details"), tags.count("summary"))
    assert ("details", (("id", "case-2"),)) in found.elements
    assert [] == found.open


def test_a_report_of_nothing_is_a_page() -> None:
    """No cases are no error."""
    found = report()
    assert "0 cases, 0 results" in found.text
    assert [] == found.open


def test_a_large_report_streams() -> None:
    """Three thousand cases of ten kilobytes each never lie in memory together."""

    def cases() -> Iterator[ReportedCase]:
        for number in range(3000):
            yield ReportedCase(str(number), (), (("t", f"{number} " * 2000),))

    tracemalloc.start()
    try:
        size = sum(map(len, report_chunks("large", cases())))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 25_000_000 < size
    assert 24 * 1024 * 1024 > peak


def test_the_same_cases_give_the_same_bytes() -> None:
    """A report tells nothing of when it was made."""
    first, second = (b"".join(report_chunks("t", [case()])) for _ in range(2))
    assert first == second
