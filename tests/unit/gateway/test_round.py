"""One walk through the targets: order, ends, deadlines and exact call counts."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.config.gateway_config import GatewayConfig
from casework.errors import ConfigurationError, InvalidRequest
from casework.gateway.clock import MANUAL_START, Deadline, ManualClock
from casework.gateway.errors import POLICY, FailureKind
from casework.gateway.llm_gateway import LLMGateway
from casework.gateway.messages import (
    Credential,
    Finish,
    LLMRequest,
    Message,
    ProviderCall,
    ProviderReply,
    Usage,
)
from casework.gateway.outcomes import RoundErred, RoundSucceeded, RoundUnavailable
from casework.gateway.providers.scripted import Delay, Fail, Hang, Reply, ScriptedProvider, Step

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
GOOD = Reply('{"a": 1}', usage=Usage(10, 5, 15))
DOWN = Fail(FailureKind.HTTP_5XX, http_status=503)


def ask(**changes: object) -> LLMRequest:
    """Return a small request."""
    fields: dict[str, object] = {
        "messages": (Message("user", "A document."),),
        "output_schema": SCHEMA,
        "prompt_version": "test_v1",
        "prompt_sha256": "0" * 64,
    }
    return LLMRequest(**{**fields, **changes})  # type: ignore[arg-type]


class Bench:
    """A gateway over scripted providers on a manual clock."""

    def __init__(self, *scripts: Sequence[Step], extra: str = "") -> None:
        self.clock = ManualClock()
        self.providers = {
            f"p{index}": ScriptedProvider(steps, clock=self.clock)
            for index, steps in enumerate(scripts)
        }
        entries = "".join(
            f'[[providers]]\nid = "{name}"\nadapter = "double"\nclass = "cloud"\n'
            f'model = "m"\n{extra}'
            for name in self.providers
        )
        self.config = GatewayConfig.parse(f'privacy_profile = "cloud_allowed"\n{entries}')
        self.gateway = LLMGateway(
            self.config,
            adapters={"double": lambda config: self.providers[config.id]},
            clock=self.clock,
            environ={"KEY_A": "secret-a", "KEY_B": "secret-b"},
        )

    def calls(self) -> list[int]:
        """Return how often each provider was called."""
        return [len(provider.calls) for provider in self.providers.values()]


async def test_the_first_validated_answer_ends_the_round() -> None:
    """A good first target means the second is never asked."""
    bench = Bench([GOOD], [GOOD])
    outcome = await bench.gateway.complete_round(ask())
    assert isinstance(outcome, RoundSucceeded)
    assert ({"a": 1}, "p0", ()) == (outcome.output, outcome.served.provider, outcome.attempts)
    assert [1, 0] == bench.calls()


@pytest.mark.parametrize("kind", [kind for kind in FailureKind if POLICY[kind].temporary])
async def test_what_may_pass_leads_to_the_next_target_at_once(kind: FailureKind) -> None:
    """Each temporary failure moves on and stands in the outcome of the later success."""
    bench = Bench([Fail(kind, http_status=429)], [GOOD])
    outcome = await bench.gateway.complete_round(ask())
    assert isinstance(outcome, RoundSucceeded)
    assert [(kind, 429, "p0")] == [
        (a.kind, a.http_status, a.served.provider) for a in outcome.attempts
    ]
    assert [1, 1] == bench.calls()


@pytest.mark.parametrize("kind", [kind for kind in FailureKind if not POLICY[kind].temporary])
async def test_a_controlled_error_ends_the_round(kind: FailureKind) -> None:
    """No final failure is ever carried to the next target."""
    bench = Bench([Fail(kind)], [GOOD])
    outcome = await bench.gateway.complete_round(ask())
    assert isinstance(outcome, RoundErred)
    assert kind is outcome.final.kind
    assert [1, 0] == bench.calls()


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Reply('{"a": 1}', Finish.LENGTH), FailureKind.TRUNCATED),
        (Reply("no", Finish.REFUSED), FailureKind.REFUSAL),
        (Reply(""), FailureKind.EMPTY_RESPONSE),
        (Reply("```json\n{}\n```"), FailureKind.INVALID_JSON),
        (Reply('{"a": 1, "a": 2}'), FailureKind.INVALID_JSON),
        (Reply('{"a": NaN}'), FailureKind.INVALID_JSON),
        (Reply('{"a": "1"}'), FailureKind.SCHEMA_VIOLATION),
    ],
)
async def test_an_answer_that_does_not_validate_is_a_controlled_error(
    reply: Reply, kind: FailureKind
) -> None:
    """Nothing is repaired, and its price is not forgotten."""
    bench = Bench([Reply(reply.text, reply.finish, Usage(10, 5, 15))], [GOOD])
    outcome = await bench.gateway.complete_round(ask())
    assert isinstance(outcome, RoundErred)
    assert kind is outcome.final.kind
    assert Usage(10, 5, 15) == outcome.final.served.usage
    assert [1, 0] == bench.calls()


async def test_when_nobody_answers_the_longest_wait_asked_for_is_kept() -> None:
    """An unavailable round remembers every target and the longest Retry-After."""
    bench = Bench(
        [Fail(FailureKind.HTTP_429, http_status=429, retry_after_seconds=30)],
        [Fail(FailureKind.HTTP_429, http_status=429, retry_after_seconds=90)],
        [DOWN],
    )
    outcome = await bench.gateway.complete_round(ask())
    assert isinstance(outcome, RoundUnavailable)
    assert 90 == outcome.retry_after_seconds
    assert ["p0", "p1", "p2"] == [a.served.provider for a in outcome.attempts]


async def test_a_silent_target_times_out_and_the_next_one_answers() -> None:
    """The deadline of each target is its own."""
    bench = Bench([Hang()], [Delay(2.0, GOOD)], extra="timeout_seconds = 5.0\n")
    outcome = await bench.gateway.complete_round(ask())
    assert isinstance(outcome, RoundSucceeded)
    assert [(FailureKind.TIMEOUT, 5000)] == [
        (a.kind, a.served.elapsed_ms) for a in outcome.attempts
    ]
    assert 7000 == outcome.elapsed_ms
    assert MANUAL_START + timedelta(seconds=5) == outcome.served.started_at


class _Stubborn:
    """An adapter that ignores its deadline and answers when it is cancelled."""

    def __init__(self) -> None:
        self.cancelled = asyncio.Event()

    async def complete(
        self, call: ProviderCall, *, credential: Credential | None, deadline: Deadline
    ) -> ProviderReply:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
        return ProviderReply(text='{"a": 1}', finish=Finish.STOP)

    async def aclose(self) -> None: ...


def _gateway_over(adapter: _Stubborn | ScriptedProvider, *, timeout: float) -> LLMGateway:
    config = GatewayConfig.parse(
        'privacy_profile = "cloud_allowed"\n[[providers]]\nid = "p"\nadapter = "double"\n'
        f'model = "m"\ntimeout_seconds = {timeout}\n'
    )
    return LLMGateway(config, adapters={"double": lambda _: adapter})


async def test_an_answer_after_the_deadline_is_thrown_away() -> None:
    """A late answer changes nothing, even if the adapter holds on to it."""
    adapter = _Stubborn()
    outcome = await _gateway_over(adapter, timeout=0.01).complete_round(ask())
    assert isinstance(outcome, RoundUnavailable)
    assert [FailureKind.TIMEOUT] == [a.kind for a in outcome.attempts]
    assert adapter.cancelled.is_set()


async def test_cancelling_the_round_cancels_the_call() -> None:
    """Nobody waits for a call whose caller has gone."""
    adapter = _Stubborn()
    task = asyncio.create_task(_gateway_over(adapter, timeout=600.0).complete_round(ask()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert adapter.cancelled.is_set()


async def test_an_adapter_that_raises_something_else_is_a_defect_not_a_crash(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The kind is ``unknown``, and the exception's text goes nowhere."""

    class Broken(ScriptedProvider):
        async def complete(
            self, call: ProviderCall, *, credential: Credential | None, deadline: Deadline
        ) -> ProviderReply:
            raise KeyError("CANARY document text")

    outcome = await _gateway_over(Broken([]), timeout=1.0).complete_round(ask())
    assert isinstance(outcome, RoundErred)
    assert FailureKind.UNKNOWN is outcome.final.kind
    assert "CANARY" not in caplog.text
    assert "adapter_defect" == caplog.records[0].__dict__["action"]


async def test_keys_are_lent_in_turn_and_only_their_labels_are_recorded() -> None:
    """Several keys share the calls; the secret is nowhere in the outcome."""
    bench = Bench([GOOD, GOOD], extra='api_key_env = ["KEY_A", "KEY_B"]\n')
    labels = []
    for _ in range(2):
        outcome = await bench.gateway.complete_round(ask())
        assert isinstance(outcome, RoundSucceeded)
        labels.append(outcome.served.key_label)
        assert "secret" not in repr(outcome)
    assert 2 == len({*labels})
    assert all(label and label.startswith("KEY_") for label in labels)


def test_a_missing_key_is_a_configuration_error_before_any_call() -> None:
    """The variable is named, nobody is called."""
    bench = Bench([GOOD], extra='api_key_env = "KEY_MISSING"\n')
    with pytest.raises(ConfigurationError, match="KEY_MISSING") as caught:
        bench.gateway.plan(ask())
    assert "missing_credential" == caught.value.code
    assert [0] == bench.calls()


def test_a_parameter_that_could_redirect_the_call_is_refused() -> None:
    """A request sets sampling parameters and nothing else."""
    bench = Bench([GOOD])
    for name in ("api_base", "base_url", "model", "messages", "stream", "headers"):
        with pytest.raises(InvalidRequest, match=name):
            bench.gateway.plan(ask(parameters={name: "x"}))
    assert [0] == bench.calls()


def test_no_eligible_provider_is_a_configuration_error() -> None:
    """A profile that admits nobody ends before any call, with its own code."""
    bench = Bench([GOOD])
    narrow = GatewayConfig.model_copy(
        bench.config, update={"privacy_profile": type(bench.config.privacy_profile).LOCAL_ONLY}
    )
    gateway = LLMGateway(narrow, adapters={"double": lambda c: bench.providers[c.id]})
    with pytest.raises(ConfigurationError) as caught:
        gateway.plan(ask())
    assert "no_eligible_provider" == caught.value.code


_STEPS = st.sampled_from([GOOD, *(Fail(kind) for kind in FailureKind)])


@given(st.lists(_STEPS, min_size=1, max_size=6))
def test_any_script_ends_in_one_outcome_with_one_call_a_target(steps: list[Step]) -> None:
    """The walk is a prefix of the order: each target once, none after the end."""
    bench = Bench(*([step] for step in steps))
    outcome = asyncio.run(bench.gateway.complete_round(ask()))
    ends = [
        index
        for index, step in enumerate(steps)
        if step == GOOD or (isinstance(step, Fail) and not POLICY[step.kind].temporary)
    ]
    asked = ends[0] + 1 if ends else len(steps)
    assert [1] * asked + [0] * (len(steps) - asked) == bench.calls()
    expected = RoundUnavailable if not ends else type(outcome)
    assert isinstance(outcome, expected)
    assert isinstance(outcome, RoundSucceeded) == bool(ends and steps[ends[0]] == GOOD)
