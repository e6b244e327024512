"""What each of several requests has of one round: its vectors, and shares that add up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Context, Decimal
from typing import Final, assert_never

from casework.gateway.embeddings.answers import EmbeddingAnswer
from casework.gateway.embeddings.request import EmbeddingRequest
from casework.gateway.messages import Cost, Usage
from casework.gateway.outcomes import (
    Answered,
    Attempt,
    RoundErred,
    RoundUnavailable,
    Served,
    Walked,
)

_EXACT: Final = Context(prec=80)
"""Wide enough that no share of a price is ever rounded."""
_FINER_DIGITS: Final = 6
"""Digits that a share of a price may have beyond those of the price."""


def parts_of(
    walked: Walked[EmbeddingAnswer], requests: Sequence[EmbeddingRequest]
) -> list[Walked[EmbeddingAnswer]]:
    """Return what each request has of a round that was walked for all of them, in order.

    Each gets the vectors of its own inputs. Whatever was counted of a call, successful or not,
    is shared by the length of the inputs, so that the shares add up to it; what is not known of
    it is not known of a share.
    """
    if len(requests) == 1:
        return [walked]
    weights = [sum(map(len, request.inputs)) for request in requests]
    attempts = [_split_attempt(attempt, weights) for attempt in walked.attempts]
    own = [tuple(shares[i] for shares in attempts) for i in range(len(requests))]
    match walked:
        case Answered():
            return _split_answered(walked, requests, weights=weights, attempts=own)
        case RoundErred():
            finals = _split_attempt(walked.final, weights)
            return [
                replace(walked, attempts=earlier, final=final)
                for earlier, final in zip(own, finals, strict=True)
            ]
        case RoundUnavailable():
            return [replace(walked, attempts=earlier) for earlier in own]
        case _:
            assert_never(walked)


def split_count(count: int, weights: Sequence[int]) -> list[int]:
    """Split a count by weights, by the largest remainder; the shares add up to it.

    Args:
        count: At least 0.
        weights: Each at least 1.
    """
    total = sum(weights)
    shares = [count * weight // total for weight in weights]
    by_remainder = sorted(range(len(weights)), key=lambda i: -(count * weights[i] % total))
    for index in by_remainder[: count - sum(shares)]:
        shares[index] += 1
    return shares


def _split_answered(
    walked: Answered[EmbeddingAnswer],
    requests: Sequence[EmbeddingRequest],
    *,
    weights: Sequence[int],
    attempts: Sequence[tuple[Attempt, ...]],
) -> list[Walked[EmbeddingAnswer]]:
    served = _split_served(walked.served, weights)
    usages = _split_usage(walked.answer.usage, weights)
    vectors = iter(walked.answer.vectors)
    return [
        replace(
            walked,
            attempts=attempts[i],
            served=served[i],
            answer=replace(
                walked.answer,
                vectors=tuple(next(vectors) for _ in request.inputs),
                usage=usages[i],
            ),
        )
        for i, request in enumerate(requests)
    ]


def _split_attempt(attempt: Attempt, weights: Sequence[int]) -> list[Attempt]:
    return [replace(attempt, served=served) for served in _split_served(attempt.served, weights)]


def _split_served(served: Served, weights: Sequence[int]) -> list[Served]:
    shares = zip(
        _split_usage(served.usage, weights),
        _split_cost(served.cost, weights),
        split_count(served.request_bytes, weights),
        strict=True,
    )
    return [
        replace(served, usage=usage, cost=cost, request_bytes=size) for usage, cost, size in shares
    ]


def _split_usage(usage: Usage | None, weights: Sequence[int]) -> list[Usage | None]:
    unknown = [None] * len(weights)
    if usage is None:
        return [*unknown]
    counts = (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens)
    split = [unknown if count is None else split_count(count, weights) for count in counts]
    return [Usage(*shares) for shares in zip(*split, strict=True)]


def _split_cost(cost: Cost | None, weights: Sequence[int]) -> list[Cost | None]:
    if cost is None:
        return [None] * len(weights)
    _, digits, exponent = cost.amount.as_tuple()
    assert isinstance(exponent, int), "an amount of money is finite"
    units = int("".join(map(str, digits))) * 10**_FINER_DIGITS
    smallest = exponent - _FINER_DIGITS
    return [
        Cost(_EXACT.normalize(_EXACT.scaleb(Decimal(share), smallest)), cost.currency)
        for share in split_count(units, weights)
    ]
