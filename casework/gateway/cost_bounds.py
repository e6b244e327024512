"""The most that calls can cost, before anybody is asked."""

from __future__ import annotations

from typing import Final

from casework.config.providers import ProviderConfig
from casework.gateway.messages import Cost, ProviderCall, ProviderReply, Usage
from casework.gateway.plan import Target
from casework.gateway.prices import cost_of
from casework.strict_json import canonical

ENVELOPE_TOKENS: Final = 256
"""What a server may add around the messages: marks of turns, names of roles."""


def call_cost_max(target: Target[ProviderCall, ProviderReply], request_bytes: int) -> Cost | None:
    """Return the most that one call can cost; None if the target's rates are unknown.

    A token is never shorter than one byte, sent or received. The schema counts as sent, since some
    servers put it into the prompt. A request without ``max_tokens`` may be answered with a token
    for every byte that is read.

    Args:
        target: Who is asked what.
        request_bytes: Size of the messages in UTF-8.
    """
    return cost_bound(
        target.provider,
        sent_bytes=request_bytes + len(canonical(target.call.output_schema)),
        max_tokens=target.tokens_max,
        currency=target.currency,
    )


def cost_bound(
    provider: ProviderConfig, *, sent_bytes: int, max_tokens: int | None, currency: str
) -> Cost | None:
    """Return the most that a call to a provider can cost; None if its rates are unknown.

    Args:
        provider: Who is asked.
        sent_bytes: Size of messages and schema.
        max_tokens: The request's own limit of the answer.
        currency: Currency of rates that name none.
    """
    limit = provider.response_bytes_max if max_tokens is None else max_tokens
    usage = Usage(prompt_tokens=sent_bytes + ENVELOPE_TOKENS, completion_tokens=limit)
    return cost_of(usage, provider.rates, currency=currency)
