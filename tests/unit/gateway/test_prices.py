"""Money is exact or unknown."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.config import Rates
from casework.gateway.messages import Usage
from casework.gateway.prices import cost_of

RATES = Rates(input_per_million=Decimal("0.15"), output_per_million=Decimal("0.60"))


def test_a_price_is_exact_and_plainly_written() -> None:
    """The cost of a call has no binary rounding and no exponent."""
    cost = cost_of(Usage(1000, 100, 1100), RATES, currency="USD")
    assert cost is not None
    assert {"amount": "0.00021", "currency": "USD"} == cost.to_json()


def test_rates_may_name_their_own_currency() -> None:
    """A provider's currency wins over the common one."""
    rates = RATES.model_copy(update={"currency": "EUR"})
    cost = cost_of(Usage(1, 1, 2), rates, currency="USD")
    assert cost is not None
    assert "EUR" == cost.currency


@pytest.mark.parametrize(
    "usage", [None, Usage(), Usage(None, 5, None), Usage(5, None, None), Usage(None, None, 10)]
)
def test_what_is_not_known_costs_null(usage: Usage | None) -> None:
    """A part of the count, or only the total, gives no price at all."""
    assert cost_of(usage, RATES, currency="USD") is None


def test_no_rates_no_price() -> None:
    """Without rates the cost is unknown, not zero."""
    assert cost_of(Usage(1, 1, 2), None, currency="USD") is None


def test_counted_zero_is_zero() -> None:
    """Zero tokens that the server did count cost nothing, which is known."""
    cost = cost_of(Usage(0, 0, 0), RATES, currency="USD")
    assert cost is not None
    assert "0" == cost.to_json()["amount"]


COUNTS = st.integers(0, 10**12)
PRICES = st.decimals(0, 1_000_000, places=12)


@given(COUNTS, COUNTS, PRICES, PRICES)
def test_no_digit_is_ever_lost(prompt: int, completion: int, one: Decimal, other: Decimal) -> None:
    """For every count and rate the amount equals the sum in whole numbers."""
    rates = Rates(input_per_million=one, output_per_million=other)
    cost = cost_of(Usage(prompt, completion), rates, currency="USD")
    assert cost is not None
    scale = 10**12
    whole = prompt * int(one * scale) + completion * int(other * scale)
    assert Fraction(whole, 10**18) == Fraction(cost.amount)
    assert cost.amount == Decimal(str(cost.to_json()["amount"]))
