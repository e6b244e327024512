"""What a run is estimated to come to, before anybody is asked."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from casework.gateway.messages import ProviderCall, ProviderReply
from casework.runner.pipeline import Pipeline
from casework.runtime.run.batch import BatchOptions
from casework.runtime.run.run_estimate import estimate_run
from casework.runtime.views.estimate_view import estimate_notes, estimate_rows, estimate_to_json
from tests.support.governed_line import PROVIDER, GovernedLine, good
from tests.support.scripted_line import objects

RATES = "[providers.rates]\ninput_per_million = 10\noutput_per_million = 1000\n"
TWO = PROVIDER.format(id="desk") + RATES + PROVIDER.format(id="next")


def cases_of(line: GovernedLine) -> list[str]:
    """Return the ids of a line's cases."""
    return sorted(line.store.list())


def test_what_is_done_is_not_asked_again(tmp_path: Path) -> None:
    """Calls are those of operations that are not finished."""
    line = GovernedLine(tmp_path, good, providers=PROVIDER.format(id="desk") + RATES)
    line.add(5)
    line.run(BatchOptions(concurrency=1, limit=2))
    (one,) = estimate_run(line.workspace, line.pipeline, cases=cases_of(line)).operations
    assert (3, 2, 3) == (one.amounts.operations, one.amounts.done, one.amounts.calls)
    assert not one.at_most


def test_the_range_of_costs_is_the_first_answer_and_the_dearest_course(tmp_path: Path) -> None:
    """The lower sum is the input at the first provider; the upper one never less, by currency."""
    line = GovernedLine(tmp_path, good, settings='[cost]\ncurrency = "EUR"\n', providers=TWO)
    line.add(1)
    estimate = estimate_run(line.workspace, line.pipeline, cases=cases_of(line))
    (one,) = estimate.operations
    assert {"EUR": Decimal(one.amounts.input_tokens) * 10 / 1_000_000} == one.amounts.low
    assert one.amounts.high["EUR"] >= one.amounts.low["EUR"] + Decimal(100) * 1000 / 1_000_000
    assert ("next",) == one.unpriced
    assert any("unknown prices, in no sum: next" in note for note in estimate_notes(estimate))
    (row,) = estimate_rows(estimate)
    assert row[5].endswith("EUR and unknown")


def test_unknown_prices_are_unknown(tmp_path: Path) -> None:
    """Without rates there is no sum, and null stands in the document."""
    line = GovernedLine(tmp_path, good)
    line.add(2)
    estimate = estimate_run(line.workspace, line.pipeline, cases=cases_of(line))
    (row,) = estimate_rows(estimate)
    assert "unknown" == row[5]
    (operation,) = objects(estimate_to_json(estimate)["operations"])
    assert operation["cost_high"] is None


def test_many_cases_are_sampled_and_that_is_said(tmp_path: Path) -> None:
    """Every so many-th case is read, and the sums are scaled up."""
    line = GovernedLine(tmp_path, good)
    line.add(20)
    cases = cases_of(line)
    estimate = estimate_run(line.workspace, line.pipeline, cases=cases, sample_max=5)
    whole = estimate_run(line.workspace, line.pipeline, cases=cases)
    assert (20, 5) == (estimate.cases, estimate.sampled)
    assert whole.operations[0].amounts.calls == estimate.operations[0].amounts.calls
    assert any("5 of 20 cases" in note for note in estimate_notes(estimate))
    assert not any("of 20 cases" in note for note in estimate_notes(whole))


def test_what_needs_others_is_at_most(tmp_path: Path) -> None:
    """An operation that may be ruled out is counted and called so."""
    line = GovernedLine(tmp_path, good)
    line.add(3)
    text = """
name = "chain"
[[operations]]
id = "first"
task = "Answer."
output_schema = { type = "object" }
[[operations]]
id = "second"
needs = ["first"]
task = "Answer again."
output_schema = { type = "object" }
"""
    pipeline = Pipeline.parse(text, folder=Path())
    estimate = estimate_run(line.workspace, pipeline, cases=cases_of(line))
    assert [(False, 3), (True, 3)] == [(o.at_most, o.amounts.calls) for o in estimate.operations]
    assert ["3", "at most 3"] == [row[3] for row in estimate_rows(estimate)]


def test_what_the_input_rules_out_costs_nothing(tmp_path: Path) -> None:
    """An empty case is answered without a call."""
    line = GovernedLine(tmp_path, good)
    line.store.create("empty", {"text.txt": b"  \n"})
    (one,) = estimate_run(line.workspace, line.pipeline, cases=["empty"]).operations
    assert (1, 0, 1) == (one.amounts.operations, one.amounts.calls, one.amounts.rejected)


def test_an_estimate_writes_nothing_and_asks_nobody(tmp_path: Path) -> None:
    """Every byte below the runtime folder stays as it was."""
    asked: list[str] = []

    def behave(provider: str, call: ProviderCall) -> ProviderReply:
        asked.append(provider)
        return good(provider, call)

    line = GovernedLine(tmp_path, behave)
    line.add(3)
    line.store.index.counts()
    before = _bytes(tmp_path)
    estimate_run(line.workspace, line.pipeline, cases=cases_of(line))
    assert before == _bytes(tmp_path)
    assert [] == asked


def _bytes(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
