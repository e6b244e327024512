"""The most that calls can cost, before anybody is asked."""

from __future__ import annotations

from typing import Final

from casework.gateway.messages import Cost, Usage
from casework.gateway.prices import cost_of
from casework.gateway.round import Target
from casework.strict_json import canonical

ENVELOPE_TOKENS: Final = 256
"""What a server may add around the messages: marks of turns, names of roles."""


def call_cost_max(target: Target, request_bytes: int) -> Cost | None:
    """Return the most that one call can cost; None if the target's rates are unknown.

    A token is never shorter than one byte, sent or received. The schema counts as sent, since some
    servers put it into the prompt. A request without ``max_tokens`` may be answered with a token
    for every byte that is read.

    Args:
        target: Who is asked what.
        request_bytes: Size of the messages in UTF-8.
    """
    limit = target.call.parameters.get("max_tokens")
    if not isinstance(limit, int):
        limit = target.provider.response_bytes_max
    sent = request_bytes + len(canonical(target.call.output_schema)) + ENVELOPE_TOKENS
    usage = Usage(prompt_tokens=sent, completion_tokens=limit)
    return cost_of(usage, target.provider.rates, currency=target.currency)
