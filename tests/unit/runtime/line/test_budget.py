"""No round begins that could cross the budget, and no money is made up."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.config import GatewayConfig
from casework.gateway.cost_bounds import ENVELOPE_TOKENS
from casework.gateway.llm_gateway import LLMGateway
from casework.gateway.messages import LLMRequest, Message
from casework.gateway.plan import AnyOperationPlan
from casework.runtime.line.budget import (
    Cap,
    Caps,
    Standing,
    Unpriced,
    add_up,
    dearest_course,
    judge_next,
    plain,
)

PRICED = """[[providers]]
id = "{id}"
adapter = "openai_compatible"
base_url = "http://127.0.0.1:8080/v1"
model = "m"
max_response_bytes = 1000
[providers.rates]
input_per_million = {rate}
output_per_million = {rate}
currency = "{currency}"
"""
UNPRICED = PRICED.split("[providers.rates]", maxsplit=1)[0]
SCHEMA_BYTES = len(b'{"type":"object"}')


def plan(config: str, *, max_tokens: int | None = None, text: str = "x" * 100) -> AnyOperationPlan:
    """Return the plan of a request of so many bytes."""
    request = LLMRequest(
        messages=(Message("user", text),),
        output_schema={"type": "object"},
        prompt_version="v1",
        prompt_sha256="0" * 64,
        parameters={} if max_tokens is None else {"max_tokens": max_tokens},
    )
    return LLMGateway(GatewayConfig.parse(config)).plan(request)


def priced(name: str = "a", *, rate: str = "1000000", currency: str = "EUR") -> str:
    """Return the entry of a provider at which a token costs one (or so many millionths)."""
    return PRICED.format(id=name, rate=rate, currency=currency)


def test_the_dearest_course_asks_every_target() -> None:
    """Each target's bytes and tokens are counted, at one unit each."""
    caps = Caps(currency="EUR")
    one = Decimal(100 + SCHEMA_BYTES + ENVELOPE_TOKENS + 50)
    assert one == dearest_course(plan(priced(), max_tokens=50), caps)
    assert one * 2 == dearest_course(plan(priced() + priced("b"), max_tokens=50), caps)


def test_without_a_token_limit_the_answer_may_fill_the_response() -> None:
    """Where the request bounds no answer, the response cap does."""
    found = dearest_course(plan(priced()), Caps(currency="EUR"))
    assert Decimal(100 + SCHEMA_BYTES + ENVELOPE_TOKENS + 1000) == found


def test_bytes_count_not_characters() -> None:
    """A character of three bytes may become three tokens."""
    ascii_only = dearest_course(plan(priced(), text="x" * 99), Caps(currency="EUR"))
    hangul = dearest_course(plan(priced(), text="가" * 33), Caps(currency="EUR"))
    assert ascii_only == hangul


def test_an_unknown_price_has_no_bound() -> None:
    """It blocks, or counts what was set for it, and never nothing."""
    config = priced() + UNPRICED.format(id="b")
    blocked = dearest_course(plan(config, max_tokens=1), Caps(currency="EUR"))
    assert isinstance(blocked, Unpriced)
    assert "'b' has no rates" in blocked.sentence()
    ceiling = Caps(currency="EUR", unknown_price_per_call=Decimal("0.02"))
    known = dearest_course(plan(priced(), max_tokens=1), ceiling)
    assert isinstance(known, Decimal)
    assert known + Decimal("0.02") == dearest_course(plan(config, max_tokens=1), ceiling)


def test_currencies_are_not_mixed() -> None:
    """A rate in another currency blocks, whatever a call of unknown price counts."""
    caps = Caps(currency="USD", unknown_price_per_call=Decimal("0.02"))
    blocked = dearest_course(plan(priced(currency="EUR")), caps)
    assert isinstance(blocked, Unpriced)
    assert "another currency" in blocked.sentence()


def test_the_last_round_that_does_not_fit_is_named_with_its_numbers() -> None:
    """Spent 0.4412, next 0.0628, cap 0.50: one sentence tells all three."""
    caps = Caps(currency="USD", total=Decimal("0.50"))
    standings = {Cap.TOTAL: Standing(spent=Decimal("0.4412"))}
    over = judge_next(Decimal("0.0628"), standings, caps=caps)
    assert over is not None
    assert (
        "the budget of the project is 0.5 USD: 0.4412 spent, the next round may cost 0.0628"
        == over.sentence()
    )
    assert judge_next(Decimal("0.0588"), standings, caps=caps) is None


@pytest.mark.parametrize("cap", list(Cap))
def test_every_bound_holds(cap: Cap) -> None:
    """The project's, the day's and the run's bound each stop the round that crosses it."""
    caps = Caps(
        currency="USD",
        **{cap.value: Decimal(1)},
    )
    standings = {other: Standing(spent=Decimal("0.6")) for other in Cap}
    over = judge_next(Decimal("0.5"), standings, caps=caps)
    assert over is not None
    assert cap is over.cap
    assert judge_next(Decimal("0.4"), standings, caps=caps) is None


def test_running_rounds_count() -> None:
    """What is set aside is as good as spent."""
    caps = Caps(currency="USD", total=Decimal(1))
    standings = {Cap.TOTAL: Standing(spent=Decimal("0.5"), set_aside=Decimal("0.4"))}
    over = judge_next(Decimal("0.2"), standings, caps=caps)
    assert over is not None
    assert "0.4 set aside" in over.sentence()


AMOUNTS = st.decimals(min_value=0, max_value=10**9, places=12)


@given(
    bound=AMOUNTS,
    rounds=st.lists(st.tuples(AMOUNTS, st.fractions(0, 1)), max_size=30),
)
def test_no_course_of_events_crosses_the_bound(
    bound: Decimal, rounds: list[tuple[Decimal, object]]
) -> None:
    """However much of its set-aside each round uses, the sum stays within the bound."""
    caps = Caps(currency="USD", total=bound)
    spent: list[Decimal] = []
    for most, share in rounds:
        standing = {Cap.TOTAL: Standing(spent=add_up(spent))}
        if judge_next(most, standing, caps=caps) is None:
            spent.append(most if share else Decimal(0))
    assert add_up(spent) <= bound


@given(st.lists(AMOUNTS, max_size=200))
def test_sums_are_exact(amounts: list[Decimal]) -> None:
    """The order of adding changes nothing, and no digit is lost."""
    assert add_up(amounts) == add_up(reversed(amounts))
    assert add_up(amounts) * 10**12 == sum(int(amount * 10**12) for amount in amounts)


def test_amounts_are_written_plainly() -> None:
    """No exponent and no needless zeros."""
    assert ["0", "0.5", "100", "0.000000000001"] == [
        plain(Decimal(text)) for text in ("0.000", "0.50", "1E+2", "1E-12")
    ]
