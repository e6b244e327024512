"""A provider at a limit is passed over without a call, and nobody asked means no round."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import pytest

from casework.config import GatewayConfig
from casework.config.providers import ProviderConfig
from casework.errors import LimitReached
from casework.gateway.call_gate import AtLimit
from casework.gateway.clock import ManualClock
from casework.gateway.errors import FailureKind
from casework.gateway.llm_gateway import LLMGateway
from casework.gateway.messages import LLMRequest, Message
from casework.gateway.outcomes import RoundSucceeded, RoundUnavailable
from casework.gateway.providers.scripted import Fail, Reply, ScriptedProvider, Step


class FixedGate:
    """Refuses some providers for a fixed time, and notes who passed."""

    def __init__(self, closed: Mapping[str, float]) -> None:
        self.closed = closed
        self.passed: list[str] = []
        self.inside = 0

    def bounds(self, provider: ProviderConfig) -> bool:
        """Tell that every provider is looked at."""
        return True

    @asynccontextmanager
    async def call(self, provider: ProviderConfig) -> AsyncIterator[AtLimit | None]:
        """Refuse or let through."""
        if provider.id in self.closed:
            yield AtLimit(self.closed[provider.id])
            return
        self.passed.append(provider.id)
        self.inside += 1
        try:
            yield None
        finally:
            self.inside -= 1


GOOD = Reply('{"a": 1}')
REQUEST = LLMRequest(
    messages=(Message("user", "A document."),),
    output_schema={"type": "object"},
    prompt_version="test_v1",
    prompt_sha256="0" * 64,
)


class Bench:
    """A gateway over scripted providers behind a gate."""

    def __init__(self, gate: FixedGate, *scripts: list[Step]) -> None:
        clock = ManualClock()
        self.providers = [ScriptedProvider(steps, clock=clock) for steps in scripts]
        entries = "".join(
            f'[[providers]]\nid = "p{index}"\nadapter = "double"\nclass = "cloud"\nmodel = "m"\n'
            for index in range(len(scripts))
        )
        self.gateway = LLMGateway(
            GatewayConfig.parse(f'privacy_profile = "cloud_allowed"\n{entries}'),
            adapters={"double": lambda config: self.providers[int(config.id[1:])]},
            clock=clock,
            gate=gate,
        )

    def calls(self) -> list[int]:
        """Return how often each provider was called."""
        return [len(provider.calls) for provider in self.providers]


async def test_a_provider_at_its_limit_is_passed_over() -> None:
    """The next one is asked; the outcome says that the first was not."""
    gate = FixedGate({"p0": 30.0})
    bench = Bench(gate, [GOOD], [GOOD])
    outcome = await bench.gateway.complete_round(REQUEST)
    assert isinstance(outcome, RoundSucceeded)
    (passed_over,) = outcome.attempts
    assert (FailureKind.LIMIT_REACHED, False) == (passed_over.kind, passed_over.served.sent)
    assert (["p1"], [0, 1], 0) == (gate.passed, bench.calls(), gate.inside)


async def test_nobody_asked_is_no_round() -> None:
    """Where every target is at a limit, the earliest one says when to come back."""
    bench = Bench(FixedGate({"p0": 30.0, "p1": 20.0}), [GOOD], [GOOD])
    with pytest.raises(LimitReached) as caught:
        await bench.gateway.complete_round(REQUEST)
    assert (20.0, "limit_reached", [0, 0]) == (
        caught.value.seconds,
        caught.value.code,
        bench.calls(),
    )


async def test_a_limit_of_one_does_not_lengthen_the_wait_for_another() -> None:
    """A round that asked somebody is a round, and its wait is that of who was asked."""
    gate = FixedGate({"p0": 86_400.0})
    down = Fail(FailureKind.HTTP_5XX, http_status=503, retry_after_seconds=7.0)
    bench = Bench(gate, [GOOD], [down])
    outcome = await bench.gateway.complete_round(REQUEST)
    assert isinstance(outcome, RoundUnavailable)
    assert 7.0 == outcome.retry_after_seconds
    assert [FailureKind.LIMIT_REACHED, FailureKind.HTTP_5XX] == [a.kind for a in outcome.attempts]
    assert 0 == gate.inside
