"""What committed rounds cost under a budget: exact, or at its most, or said to be unknown."""

from __future__ import annotations

from decimal import Decimal

import pytest

from casework.config import GatewayConfig
from casework.gateway.cost_bounds import ENVELOPE_TOKENS
from casework.runtime.line.budget import Caps
from casework.runtime.line.spending import Pricing, RequestSize
from casework.strict_json import JSON, JSONObject

CONFIG = GatewayConfig.parse("""
[cost]
currency = "EUR"
[[providers]]
id = "a"
adapter = "mine"
model = "m"
max_response_bytes = 5000
rates = { input_per_million = 1000000, output_per_million = 1000000 }
[[providers]]
id = "b"
adapter = "mine"
model = "m"
""")
SIZE = RequestSize(schema_bytes=10, max_tokens=50)
MOST = Decimal(100 + 10 + ENVELOPE_TOKENS + 50)


def call(provider: str = "a", **members: JSON) -> JSONObject:
    """Return a failed call as an outcome records it."""
    return {"provider": provider, "sent": True, "request_bytes": 100, "cost": None, **members}


def priced(
    *attempts: JSONObject, ceiling: str | None = None, **members: JSON
) -> tuple[Decimal, int]:
    """Return what a round of these attempts cost, and how many calls have no price."""
    caps = Caps(
        currency="EUR", unknown_price_per_call=None if ceiling is None else Decimal(ceiling)
    )
    body: JSONObject = {
        "started_at": "2026-01-01T10:00:00Z",
        "attempts": [*attempts],
        "unconfirmed": [],
        "provider": None,
        **members,
    }
    spending = Pricing(CONFIG, caps).of_round(body, SIZE)
    return spending.amount, spending.unpriced


def money(amount: str, currency: str = "EUR") -> JSONObject:
    """Return a cost as an outcome records it."""
    return {"amount": amount, "currency": currency}


def test_every_call_of_a_round_counts() -> None:
    """Three failed calls and the answer are added up exactly."""
    failed = [call(cost=money("0.1")) for _ in range(3)]
    assert (Decimal("0.6"), 0) == priced(
        *failed, provider="a", sent=True, cost=money("0.3"), call_started_at="2026-01-01T10:00:00Z"
    )


@pytest.mark.parametrize(
    ("attempt", "cost"),
    [
        (call(sent=False), (Decimal(0), 0)),
        (call(http_status=503), (Decimal(0), 0)),
        (call(http_status=200), (MOST, 0)),
        (call(code="timeout"), (MOST, 0)),
        (call("b", code="timeout"), (Decimal(0), 1)),
        (call("gone", code="timeout"), (Decimal(0), 1)),
        (call(cost=money("0.1", "USD")), (Decimal(0), 1)),
        (call(cost=money("no number")), (Decimal(0), 1)),
    ],
)
def test_what_nobody_told_counts_its_most_or_is_unpriced(
    attempt: JSONObject, cost: tuple[Decimal, int]
) -> None:
    """Unknown is never taken for zero where a call may have been answered."""
    assert cost == priced(attempt)


def test_a_ceiling_prices_what_has_no_rates() -> None:
    """A provider without rates counts what was set for a call."""
    assert (Decimal("0.02"), 0) == priced(call("b", code="timeout"), ceiling="0.02")


def test_calls_that_a_crash_cut_off_count_their_most() -> None:
    """Each target of each start that nobody saw end."""
    targets: list[JSON] = [
        {"provider": "a", "model": "m", "cost_max": "0.25 EUR"},
        {"provider": "a", "model": "m", "cost_max": "0.5 USD"},
        {"provider": "b", "model": "m", "cost_max": None},
    ]
    start: JSON = {"started_at": "2026-01-01T09:00:00Z", "targets": targets}
    assert (Decimal("0.25"), 2) == priced(unconfirmed=[start])
    assert (Decimal("0.5"), 4) == priced(unconfirmed=[start, start])


def test_one_round_is_one_entry() -> None:
    """The same outcome has the same name, another one another."""
    pricing = Pricing(CONFIG, Caps(currency="EUR"))
    body: JSONObject = {"started_at": "2026-01-01T10:00:00Z", "attempts": [], "round": 1}
    first, again = (pricing.of_round(dict(body), SIZE) for _ in range(2))
    assert first == again
    assert first.round != pricing.of_round({**body, "round": 2}, SIZE).round
