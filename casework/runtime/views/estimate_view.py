"""An estimate of a run, for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Final

from casework.runtime.run.run_estimate import OperationEstimate, RunEstimate
from casework.runtime.views import phrases
from casework.runtime.views.travel import asked_in_order, verdicts_to_json
from casework.strict_json import JSON, JSONObject

COLUMNS: Final = ("operation", "to run", "done", "calls", "input tokens", "costs", "asked")


def estimate_rows(estimate: RunEstimate) -> list[tuple[str, ...]]:
    """Return a row for each operation, under the names of ``COLUMNS``."""
    rows: list[tuple[str, ...]] = []
    for one in estimate.operations:
        amounts, at_most = one.amounts, "at most " if one.at_most else ""
        unknown = " without earlier answers" if one.reads_answers else ""
        rows.append(
            (
                one.operation_id,
                phrases.count(amounts.operations),
                phrases.count(amounts.done),
                f"{at_most}{phrases.count(amounts.calls)}",
                f"about {phrases.rounded(amounts.input_tokens)}{unknown}",
                _money(one),
                asked_in_order(one.verdicts),
            )
        )
    return rows


def estimate_notes(estimate: RunEstimate) -> Iterator[str]:
    """Yield what has to be known to read the rows."""
    if estimate.sampled < estimate.cases:
        yield (
            f"estimated from {phrases.count(estimate.sampled)} of "
            f"{phrases.count(estimate.cases)} cases, evenly spread, and scaled up"
        )
    yield (
        "calls and costs are for one round each; the lower sum asks the first provider and leaves "
        "its answer out, the upper one asks everybody and counts every call at its most"
    )
    for one in estimate.operations:
        if one.unpriced:
            yield f"{one.operation_id}: unknown prices, in no sum: {', '.join(one.unpriced)}"
        beyond = [f"{v.provider.id}: {v.reason.value}" for v in one.verdicts if not v.eligible]
        if beyond:
            yield f"{one.operation_id}: not asked: {', '.join(beyond)}"
        amounts = one.amounts
        if amounts.rejected:
            number = phrases.plural(amounts.rejected, "case")
            yield f"{one.operation_id}: {number} answered without a call, by the input alone"
        if amounts.skipped:
            number = phrases.plural(amounts.skipped, "case")
            yield f"{one.operation_id}: {number} ruled out by a condition"
        if amounts.unread:
            number = phrases.plural(amounts.unread, "case")
            yield f"{one.operation_id}: {number} could not be read and is in no sum"


def estimate_to_json(estimate: RunEstimate) -> JSONObject:
    """Return the estimate as JSON carries it; unknown money is null."""
    operations: list[JSON] = [_operation(one) for one in estimate.operations]
    return {
        "cases": estimate.cases,
        "sampled": estimate.sampled,
        "operations": operations,
    }


def _operation(one: OperationEstimate) -> JSONObject:
    amounts = one.amounts
    providers: list[JSON] = [*verdicts_to_json(one.verdicts)]
    return {
        "operation_id": one.operation_id,
        "privacy_profile": one.profile.value,
        "to_run": amounts.operations,
        "done": amounts.done,
        "skipped": amounts.skipped,
        "without_call": amounts.rejected,
        "unreadable": amounts.unread,
        "calls": amounts.calls,
        "at_most": one.at_most,
        "input_tokens": amounts.input_tokens,
        "input_without_answers": one.reads_answers,
        "cost_low": _sums(amounts.low),
        "cost_high": _sums(amounts.high),
        "price_unknown": [*one.unpriced],
        "providers": providers,
    }


def _sums(sums: Mapping[str, Decimal]) -> JSON:
    if not sums:
        return None
    return {currency: format(amount, "f") for currency, amount in sorted(sums.items())}


def _money(one: OperationEstimate) -> str:
    if not one.amounts.calls:
        return "none"
    low = _phrase(one.amounts.low)
    high = _phrase(one.amounts.high)
    if high == phrases.UNKNOWN:
        return phrases.UNKNOWN
    return f"{low} to {high}{' and unknown' if one.unpriced else ''}"


def _phrase(sums: Mapping[str, Decimal]) -> str:
    if not sums:
        return phrases.UNKNOWN
    return " + ".join(f"{amount:.4f} {currency}" for currency, amount in sorted(sums.items()))
