"""Speed, money and health are told as far as they are known, and no further."""

from __future__ import annotations

from decimal import Decimal

from casework.runner.calls import Call, calls_of
from casework.runtime.run.session_record import UsageRecord
from casework.runtime.run.session_tally import ETA_COMPLETIONS_MIN, SessionTally, UsageTally
from casework.runtime.views import phrases
from casework.runtime.views.status_view import usage_line


def call(
    code: str | None = None,
    *,
    tokens: int | None = None,
    cost: str | None = None,
    sent: bool = True,
) -> Call:
    return Call(
        provider="p",
        model="m",
        code=code,
        http_status=None,
        sent=sent,
        elapsed_ms=100,
        prompt_tokens=tokens,
        completion_tokens=tokens,
        cost=None if cost is None else Decimal(cost),
        currency=None if cost is None else "EUR",
    )


def test_the_eta_is_unknown_until_twenty_completions() -> None:
    """Nineteen completions say nothing; the twentieth gives the session's speed."""
    tally = SessionTally(0.0)
    for n in range(1, ETA_COMPLETIONS_MIN):
        tally.completed(float(n), None)
    assert tally.eta_seconds(19.0, 100) is None
    tally.completed(20.0, None)
    assert 100.0 == tally.eta_seconds(20.0, 100)


def test_the_rate_covers_five_minutes() -> None:
    """Completions of long ago no longer count, and an idle session has a rate of zero."""
    tally = SessionTally(0.0)
    assert tally.rate_per_minute(10.0) is None
    for n in range(60):
        tally.completed(float(n), None)
    assert 60.0 == tally.rate_per_minute(60.0)
    assert 0.0 == tally.rate_per_minute(1000.0)


def test_the_memory_of_a_tally_is_bounded() -> None:
    """A hundred thousand completions keep no more than the buckets of the window."""
    tally = SessionTally(0.0)
    for n in range(100_000):
        tally.completed(n / 10, "refusal")
    assert 61 >= len(tally._buckets)
    assert {"refusal": 100_000} == dict(tally.reasons)


def test_unknown_tokens_and_prices_are_called_unknown() -> None:
    """Calls that told nothing leave sums unknown, never zero."""
    usage = UsageTally()
    usage.add(call())
    assert "calls 1  tokens in unknown out unknown  cost unknown" == usage_line(
        UsageRecord.of(usage)
    )


def test_known_and_unknown_parts_are_told_apart() -> None:
    """A known price stands beside the number of calls without one."""
    usage = UsageTally()
    usage.add(call(tokens=10, cost="0.25"))
    usage.add(call("timeout"))
    line = usage_line(UsageRecord.of(usage))
    assert "tokens in 10 out 10 (1 calls unknown)" in line
    assert "0.2500 EUR known, 1 calls price unknown" in line


def test_a_call_that_reached_nobody_used_nothing() -> None:
    """A refused connection is a call, but no unknown cost."""
    usage = UsageTally()
    usage.add(call("connect_error", sent=False))
    assert (1, 0, 0) == (usage.calls, usage.calls_without_tokens, usage.calls_without_price)


def test_adopted_rounds_cost_but_are_no_calls_of_this_session() -> None:
    """What an earlier session paid for is in the sum, not among this session's calls."""
    tally = SessionTally(0.0)
    tally.round([call(tokens=5)], adopted=True)
    assert (0, 5) == (tally.calls, tally.usage.prompt_tokens)


def test_a_provider_is_told_by_its_latest_call() -> None:
    """Failures are counted, and the latest code says how it fares now."""
    tally = SessionTally(0.0)
    tally.round([call("http_429"), call()])
    provider = tally.providers["p"]
    assert (2, 1, None, 100.0) == (
        provider.calls,
        provider.failures,
        provider.last_code,
        provider.median_ms,
    )


def test_every_call_of_an_outcome_is_read() -> None:
    """Failed attempts come before the call that ended the round."""
    outcome = {
        "provider": "b",
        "model": "m",
        "error": None,
        "sent": True,
        "call_elapsed_ms": 7,
        "usage": {"prompt_tokens": 3, "completion_tokens": True},
        "cost": {"amount": "0.10", "currency": "USD"},
        "attempts": [{"provider": "a", "model": "m", "code": "timeout", "sent": False}],
    }
    first, last = calls_of(outcome)  # type: ignore[arg-type]
    assert ("a", "timeout", False) == (first.provider, first.code, first.sent)
    assert ("b", 3, None, Decimal("0.10")) == (
        last.provider,
        last.prompt_tokens,
        last.completion_tokens,
        last.cost,
    )


def test_lengths_of_time_are_told_in_two_units() -> None:
    """Seconds, minutes, hours and days; nothing known is unknown."""
    told = [phrases.duration(seconds) for seconds in (None, 41.0, 61.0, 5880.0, 187_200.0)]
    assert ["unknown", "41 s", "1 min 01 s", "1 h 38 min", "2 d 04 h"] == told


def test_rounds_cut_off_are_counted_beside_the_calls() -> None:
    """A call whose end nobody saw is not among the calls, and not forgotten either."""
    tally = SessionTally(0.0)
    tally.round([call(tokens=5)], cut_off=2)
    assert (1, 2) == (tally.usage.calls, tally.usage.cut_off)
    line = usage_line(UsageRecord.of(tally.usage))
    assert "calls 1  (and 2 rounds cut off" in line
