"""Shares of one round among several requests add up to what was counted."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from casework.config.privacy_profile import ProviderClass
from casework.gateway.clock import MANUAL_START
from casework.gateway.embeddings.answers import EmbeddingAnswer
from casework.gateway.embeddings.request import EmbeddingRequest
from casework.gateway.embeddings.shares import parts_of, split_count
from casework.gateway.embeddings.vectors import Vector
from casework.gateway.errors import FailureKind
from casework.gateway.messages import Cost, Usage
from casework.gateway.outcomes import Answered, Attempt, RoundErred, RoundUnavailable, Served

_WEIGHTS = st.lists(st.integers(1, 10_000), min_size=1, max_size=64)


def served(usage: Usage | None = None, cost: Cost | None = None) -> Served:
    """Return one call with what was counted of it."""
    return Served(
        provider="p",
        model="m",
        provider_class=ProviderClass.CLOUD,
        key_label=None,
        started_at=MANUAL_START,
        elapsed_ms=5,
        sent=True,
        request_bytes=100,
        usage=usage,
        cost=cost,
    )


def request(*inputs: bytes) -> EmbeddingRequest:
    """Return a request of these inputs."""
    return EmbeddingRequest(model="m", inputs=inputs, members={})


@given(st.integers(0, 10**12), _WEIGHTS)
def test_shares_of_a_count_add_up_and_follow_the_weights(count: int, weights: list[int]) -> None:
    """Each share is its exact part, up or down by less than one."""
    shares = split_count(count, weights)
    assert count == sum(shares)
    total = sum(weights)
    for share, weight in zip(shares, weights, strict=True):
        assert abs(share * total - count * weight) < total


def test_the_largest_remainders_get_what_is_left() -> None:
    """Of equal remainders the first gets it."""
    assert [4, 3, 3] == split_count(10, [1, 1, 1])
    assert [0, 1, 9] == split_count(10, [4, 6, 90])


def test_each_request_has_its_vectors_and_its_share() -> None:
    """Vectors go by order; counts and price of the call go by the length of the inputs."""
    vectors = tuple(Vector(bytes([n] * 4)) for n in range(3))
    usage = Usage(10, None, 10)
    walked = Answered(
        started_at=MANUAL_START,
        elapsed_ms=9,
        attempts=(),
        served=served(usage, Cost(Decimal("0.10"), "EUR")),
        answer=EmbeddingAnswer(vectors=vectors, usage=usage),
    )
    first, second = parts_of(walked, [request(b'"abc"'), request(b'"a"', b'"bcde"')])
    assert isinstance(first, Answered)
    assert isinstance(second, Answered)
    assert (vectors[:1], vectors[1:]) == (first.answer.vectors, second.answer.vectors)
    assert Usage(4, None, 4) == first.answer.usage == first.served.usage
    assert Usage(6, None, 6) == second.answer.usage == second.served.usage
    assert Cost(Decimal("0.03571429"), "EUR") == first.served.cost
    assert Cost(Decimal("0.06428571"), "EUR") == second.served.cost
    assert (36, 64) == (first.served.request_bytes, second.served.request_bytes)


def test_what_is_unknown_of_a_call_is_unknown_of_a_share() -> None:
    """No count is made up."""
    walked = Answered(
        started_at=MANUAL_START,
        elapsed_ms=9,
        attempts=(),
        served=served(),
        answer=EmbeddingAnswer(vectors=(Vector(b""),) * 2, usage=None),
    )
    for part in parts_of(walked, [request(b'"a"')] * 2):
        assert isinstance(part, Answered)
        assert (None, None, None) == (part.answer.usage, part.served.usage, part.served.cost)


def test_calls_that_failed_are_shared_too() -> None:
    """What a useless answer cost is counted once, whether the round went on or not."""
    attempt = Attempt(
        served=served(Usage(5, None, 5)), kind=FailureKind.MALFORMED_RESPONSE, http_status=None
    )
    erred = RoundErred(started_at=MANUAL_START, elapsed_ms=1, attempts=(attempt,), final=attempt)
    unavailable = RoundUnavailable(
        started_at=MANUAL_START, elapsed_ms=1, attempts=(attempt,), retry_after_seconds=3
    )
    requests = [request(b'"a"'), request(b'"b"')]
    for part, count in zip(parts_of(erred, requests), (3, 2), strict=True):
        assert isinstance(part, RoundErred)
        assert Usage(count, None, count) == part.final.served.usage
        assert Usage(count, None, count) == part.attempts[0].served.usage
    for part, count in zip(parts_of(unavailable, requests), (3, 2), strict=True):
        assert isinstance(part, RoundUnavailable)
        assert Usage(count, None, count) == part.attempts[0].served.usage


def test_a_request_alone_has_the_whole_round() -> None:
    """Nothing of it is touched."""
    walked = RoundUnavailable(
        started_at=MANUAL_START, elapsed_ms=1, attempts=(), retry_after_seconds=None
    )
    assert [walked] == parts_of(walked, [request(b'"a"')])
