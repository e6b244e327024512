"""A project's results as one HTML page that holds everything it shows and loads nothing."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final

from casework.checkpoints.reviews import Review
from casework.json_pointer import flatten
from casework.runner.export import ExportRow
from casework.runtime.views import phrases
from casework.runtime.views.inert_html import inert, numbered, page_begin, page_end, table
from casework.runtime.views.report_cases import ReportedCase, ReportedResult

_SPOOL_BYTES: Final = 8 * 1024 * 1024
_CHUNK_BYTES: Final = 1024 * 1024


def report_chunks(title: str, cases: Iterable[ReportedCase]) -> Iterator[bytes]:
    """Yield the bytes of a report: the counts, then a section for each case.

    The counts are known only at the end, so the sections pass through a temporary file; one case
    at a time is held in memory.

    Args:
        title: What the report is about.
        cases: The cases in the order of their sections.
    """
    counts = _Counts()
    with tempfile.SpooledTemporaryFile(_SPOOL_BYTES) as spool:
        for case in cases:
            counts.add(case)
            spool.write(_section(case, counts.cases).encode())
        yield page_begin(title).encode()
        yield counts.html().encode()
        yield b'<section aria-labelledby="cases">\n<h2 id="cases">Cases</h2>\n'
        spool.seek(0)
        while chunk := spool.read(_CHUNK_BYTES):
            yield chunk
        yield b"</section>\n"
        yield page_end().encode()


@dataclass(slots=True)
class _Counts:
    """Sums over a report."""

    cases: int = 0
    results: Counter[tuple[str, str]] = field(default_factory=Counter)
    cost: dict[str, Decimal] = field(default_factory=dict)
    without_price: int = 0
    """Results whose price nobody knows."""

    def add(self, case: ReportedCase) -> None:
        self.cases += 1
        for result in case.results:
            row = result.row
            self.results[row.operation_id, row.status] += 1
            if row.cost is not None:
                before = self.cost.get(row.cost.currency, Decimal(0))
                self.cost[row.cost.currency] = before + row.cost.amount
            elif row.provider is not None:
                self.without_price += 1

    def html(self) -> str:
        rows = [
            (operation, status, phrases.count(number))
            for (operation, status), number in sorted(self.results.items())
        ]
        cost = phrases.money(self.cost, 0) if self.cost else phrases.money({}, self.without_price)
        missing = f"; of {phrases.plural(self.without_price, 'result')} the price is unknown"
        return (
            '<section aria-labelledby="counts">\n<h2 id="counts">Counts</h2>\n'
            f"<p>{phrases.plural(self.cases, 'case')}, "
            f"{phrases.plural(self.results.total(), 'result')}. Cost of the final rounds: "
            f"{inert(cost)}{missing if self.without_price and self.cost else ''}.</p>\n"
            f"{table('Results', ('operation', 'status', 'results'), rows)}</section>\n"
        )


def _section(case: ReportedCase, number: int) -> str:
    states = ", ".join(f"{r.row.operation_id} {r.row.status}" for r in case.results)
    results = "".join(map(_result, case.results)) or "<p>No results.</p>\n"
    quoted = {(q.file, q.line) for result in case.results for q in result.quotes}
    sources = "".join(
        f"<h3>{inert(name)}</h3>\n{numbered(text, (n for file, n in quoted if file == name))}"
        for name, text in case.texts
    )
    return (
        f'<details id="case-{number}">\n<summary><strong>{inert(case.case_id)}</strong> '
        f"{inert(states)}</summary>\n"
        f'<div class="beside">\n<div>\n{results}</div>\n'
        f"<div>\n{sources or '<p>No text.</p>' + chr(10)}</div>\n</div>\n</details>\n"
    )


def _result(result: ReportedResult) -> str:
    row = result.row
    places: dict[str, str] = {q.pointer: f"{q.file}, line {q.line}" for q in result.quotes}
    parts = [f"<h3>{inert(row.operation_id)}: {inert(row.status)}</h3>\n"]
    if row.answered:
        cells = [
            (pointer or "(answer)", phrases.value(value), places.get(pointer, ""))
            for pointer, value in flatten(row.output)
        ]
        parts.append(table("Answer", ("member", "value", "stands in"), cells))
    if row.review is not None:
        parts.append(_review(row.review))
    parts.append(table("Where it came from", ("what", "value"), _origin(row)))
    return "".join(parts)


def _review(review: Review) -> str:
    facts = [
        ("decision", review.verdict.value),
        ("by", review.actor),
        ("at", phrases.utc_time(review.decided_at) or ""),
        ("reason", review.reason or "-"),
    ]
    facts += [
        (f"set {c.pointer or '(answer)'}", phrases.value(c.value)) for c in review.corrections
    ]
    if not review.stands and review.output_sha256 is not None:
        facts += [
            (f"rejected {p or '(answer)'}", phrases.value(v)) for p, v in flatten(review.output)
        ]
    return table("Review", ("what", "value"), facts)


def _origin(row: ExportRow) -> list[tuple[str, str]]:
    usage = row.usage
    seconds = None if row.elapsed_ms is None else row.elapsed_ms / 1000
    error = row.error
    if error is not None and row.http_status is not None:
        error = f"{error} (HTTP {row.http_status})"
    facts = (
        ("error", error),
        ("provider", row.provider),
        ("model", row.model),
        ("class", row.provider_class),
        ("prompt", row.prompt_version),
        ("began", phrases.utc_time(row.started_at)),
        ("took", None if seconds is None else f"{seconds:.3f} s"),
        ("rounds", str(row.rounds_completed)),
        ("tokens in", _number(usage.prompt_tokens if usage else None)),
        ("tokens out", _number(usage.completion_tokens if usage else None)),
        ("cost", f"{row.cost.amount:f} {row.cost.currency}" if row.cost else None),
        ("package", f"{row.package_id}, generation {row.generation}"),
    )
    return [
        (name, phrases.UNKNOWN if value is None else value)
        for name, value in facts
        if value is not None or name != "error"
    ]


def _number(value: int | None) -> str | None:
    return None if value is None else phrases.count(value)
