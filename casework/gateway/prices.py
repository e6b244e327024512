"""Turn tokens into money, exactly, or into None where something is not known."""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Final

from casework.config.providers import ProviderConfig, Rates
from casework.gateway.messages import Cost, Usage

_EXACT: Final = Context(prec=60)
"""Wide enough that no product of a token count and a rate is ever rounded."""


def cost_of(usage: Usage | None, rates: Rates | None, *, currency: str) -> Cost | None:
    """Return what a call cost.

    None, and never zero, where the rates are unknown or the server counted only a part.

    Args:
        usage: What the server counted.
        rates: What it charges.
        currency: Currency of rates that name none.
    """
    if usage is None or rates is None:
        return None
    if usage.prompt_tokens is None or usage.completion_tokens is None:
        return None
    prompt = _EXACT.multiply(Decimal(usage.prompt_tokens), rates.input_per_million)
    completion = _EXACT.multiply(Decimal(usage.completion_tokens), rates.output_per_million)
    amount = _EXACT.scaleb(_EXACT.add(prompt, completion), Decimal(-6))
    return Cost(_EXACT.normalize(amount), rates.currency or currency)


def cost_of_call(
    usage: Usage | None, provider: ProviderConfig, *, model: str, currency: str
) -> Cost | None:
    """Return what a call to a provider cost; its rates are those of the model that its entry names.

    Args:
        usage: What the server counted.
        provider: Who was asked.
        model: Which of its models.
        currency: Currency of rates that name none.
    """
    if model != provider.model:
        return None
    return cost_of(usage, provider.rates, currency=currency)
