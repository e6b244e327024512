"""What a round does after an answer that cannot be used, and how many calls that takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.config.gateway_config import GatewayConfig
from casework.gateway.clock import ManualClock
from casework.gateway.errors import POLICY, FailureKind
from casework.gateway.llm_gateway import LLMGateway
from casework.gateway.messages import (
    Finish,
    LLMRequest,
    Message,
    OnInvalidOutput,
    RequestLimits,
    Usage,
)
from casework.gateway.outcomes import RoundErred, RoundSucceeded, RoundUnavailable
from casework.gateway.providers.scripted import Fail, Hang, Reply, ScriptedProvider, Step
from casework.gateway.reask import REASK_BYTES_MAX, asked_again
from casework.strict_json import JSONObject, digest

SCHEMA: JSONObject = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
}
GOOD = Reply('{"a": 1}', usage=Usage(10, 5, 15))
WRONG = Reply('{"a": "one"}', usage=Usage(10, 7, 17))
DOWN = Fail(FailureKind.HTTP_5XX, http_status=503)
REFUSED = Reply("no", Finish.REFUSED)


def ask(**limits: object) -> LLMRequest:
    """Return a small request with these limits."""
    return LLMRequest(
        messages=(Message("system", "Be exact."), Message("user", "A document.")),
        output_schema=SCHEMA,
        prompt_version="test_v1",
        prompt_sha256="0" * 64,
        limits=RequestLimits(**limits),  # type: ignore[arg-type]
    )


REASK = ask(on_invalid_output=OnInvalidOutput.REASK)
NEXT = ask(on_invalid_output=OnInvalidOutput.NEXT_PROVIDER)


class Bench:
    """A gateway over scripted providers, each call of which costs a cent a token."""

    def __init__(self, *scripts: list[Step]) -> None:
        clock = ManualClock()
        self.providers = [ScriptedProvider(steps, clock=clock) for steps in scripts]
        entries = "".join(
            f'[[providers]]\nid = "p{index}"\nadapter = "double"\nclass = "cloud"\nmodel = "m"\n'
            "rates = { input_per_million = 10000, output_per_million = 10000 }\n"
            for index in range(len(scripts))
        )
        self.gateway = LLMGateway(
            GatewayConfig.parse(f'privacy_profile = "cloud_allowed"\n{entries}'),
            adapters={"double": lambda config: self.providers[int(config.id[1:])]},
            clock=clock,
        )

    def calls(self) -> list[int]:
        """Return how often each provider was called."""
        return [len(provider.calls) for provider in self.providers]


async def test_a_broken_rule_is_told_to_the_same_target_once() -> None:
    """The second call repeats the messages and names the rule; both calls have their price."""
    bench = Bench([WRONG, GOOD], [GOOD])
    outcome = await bench.gateway.complete_round(REASK)
    assert isinstance(outcome, RoundSucceeded)
    assert [2, 0] == bench.calls()
    first, second = (call.messages for call in bench.providers[0].calls)
    assert (first[0], first[1].content) == (second[0], second[1].content[: len(first[1].content)])
    assert 'the rule at /properties/a/type of the schema, "integer"' in second[1].content
    assert "one" not in second[1].content.split("refused")[1].split("integer")[0]
    (refused,) = outcome.attempts
    assert (FailureKind.SCHEMA_VIOLATION, False, True) == (
        refused.kind,
        refused.served.reask,
        outcome.served.reask,
    )
    assert ["0.17", "0.15"] == [
        str(served.cost.amount) if served.cost else None
        for served in (refused.served, outcome.served)
    ]
    assert outcome.served.request_bytes == sum(len(m.content.encode()) for m in second)


async def test_the_words_of_a_reask_can_be_told_from_the_records() -> None:
    """Request, code and pointer give the very messages that were sent."""
    bench = Bench([WRONG, GOOD])
    outcome = await bench.gateway.complete_round(REASK)
    refused = outcome.attempts[0]
    assert bench.providers[0].calls[1].messages == asked_again(
        REASK.messages, refused.kind, schema_pointer=refused.schema_pointer, schema=SCHEMA
    )


async def test_a_second_unusable_answer_is_the_error() -> None:
    """There is no third call, and the first failure stands before the final one."""
    bench = Bench([WRONG, Reply("")], [GOOD])
    outcome = await bench.gateway.complete_round(REASK)
    assert isinstance(outcome, RoundErred)
    assert (FailureKind.EMPTY_RESPONSE, [FailureKind.SCHEMA_VIOLATION]) == (
        outcome.final.kind,
        [attempt.kind for attempt in outcome.attempts],
    )
    assert [2, 0] == bench.calls()


@pytest.mark.parametrize("kind", [kind for kind in FailureKind if not POLICY[kind].reask])
async def test_only_what_the_model_can_mend_is_asked_again(kind: FailureKind) -> None:
    """A refusal, a server's fault or an outage is not asked again."""
    bench = Bench([Fail(kind), GOOD])
    await bench.gateway.complete_round(REASK)
    assert [1] == bench.calls()


async def test_an_outage_after_a_reask_leads_to_the_next_target() -> None:
    """The re-ask is a call like any other."""
    bench = Bench([WRONG, DOWN], [DOWN])
    outcome = await bench.gateway.complete_round(REASK)
    assert isinstance(outcome, RoundUnavailable)
    assert [False, True, False] == [attempt.served.reask for attempt in outcome.attempts]


async def test_the_next_provider_may_answer_what_the_first_could_not() -> None:
    """Each target is asked once, in order."""
    bench = Bench([WRONG], [Fail(FailureKind.NO_EVIDENCE)], [GOOD])
    outcome = await bench.gateway.complete_round(NEXT)
    assert isinstance(outcome, RoundSucceeded)
    assert (["p0", "p1"], [1, 1, 1]) == (
        [attempt.served.provider for attempt in outcome.attempts],
        bench.calls(),
    )


async def test_where_no_provider_gives_a_usable_answer_the_last_one_is_the_error() -> None:
    """Nobody is unavailable, so nothing is left pending."""
    bench = Bench([WRONG], [Reply("no JSON")])
    outcome = await bench.gateway.complete_round(NEXT)
    assert isinstance(outcome, RoundErred)
    assert (FailureKind.INVALID_JSON, ["p0"]) == (
        outcome.final.kind,
        [attempt.served.provider for attempt in outcome.attempts],
    )


@pytest.mark.parametrize("scripts", [([WRONG], [DOWN]), ([DOWN], [WRONG])])
async def test_a_provider_that_was_down_is_waited_for(
    scripts: tuple[list[Step], list[Step]],
) -> None:
    """It may still give the answer that the other could not."""
    outcome = await Bench(*scripts).gateway.complete_round(NEXT)
    assert isinstance(outcome, RoundUnavailable)


async def test_a_refusal_is_carried_to_nobody_else() -> None:
    """What one provider refuses on principle is not shopped around."""
    bench = Bench([REFUSED], [GOOD])
    outcome = await bench.gateway.complete_round(NEXT)
    assert isinstance(outcome, RoundErred)
    assert [1, 0] == bench.calls()


@given(
    st.lists(st.lists(st.sampled_from([GOOD, WRONG, DOWN, REFUSED, Reply("")])), max_size=3),
    st.sampled_from(list(OnInvalidOutput)),
)
async def test_no_target_is_asked_more_than_twice_or_after_a_success(
    scripts: list[list[Step]], on_invalid_output: OnInvalidOutput
) -> None:
    """Whatever the targets do: the bounds of a round hold, and each call is recorded."""
    bench = Bench(*(script or [DOWN] for script in scripts), [GOOD])
    outcome = await bench.gateway.complete_round(ask(on_invalid_output=on_invalid_output))
    most = 2 if on_invalid_output is OnInvalidOutput.REASK else 1
    assert all(calls <= most for calls in bench.calls())
    ended = not isinstance(outcome, RoundUnavailable)
    assert sum(bench.calls()) == len(outcome.attempts) + ended


@pytest.mark.parametrize(
    ("kind", "pointer", "words"),
    [
        (FailureKind.INVALID_JSON, None, "not one strict JSON value"),
        (FailureKind.TRUNCATED, None, "cut off at the limit of tokens"),
        (FailureKind.EMPTY_RESPONSE, None, "it was empty"),
        (FailureKind.SCHEMA_VIOLATION, "", "broke a rule of the schema."),
        (FailureKind.SCHEMA_VIOLATION, "/gone", "the rule at /gone of the schema."),
        (FailureKind.SCHEMA_VIOLATION, "/" + "x" * 300, "broke a rule of the schema."),
        (FailureKind.SCHEMA_VIOLATION, "/properties/long/enum", "/long/enum of the schema."),
    ],
)
def test_a_reask_says_in_few_words_what_was_wrong(
    kind: FailureKind, pointer: str | None, words: str
) -> None:
    """However long the schema's own rule is."""
    schema: JSONObject = {"properties": {"long": {"enum": ["y" * 5000]}}}
    before = (Message("user", "Text."),)
    (after,) = asked_again(before, kind, schema_pointer=pointer, schema=schema)
    assert words in after.content
    assert REASK_BYTES_MAX > len(after.content.encode()) - len(b"Text.")


def test_limits_belong_to_the_configuration_and_their_absence_leaves_no_trace() -> None:
    """Another limit is another configuration; the default has today's fingerprint."""
    gateway = Bench([GOOD]).gateway
    plain = gateway.configuration(ask())
    assert {
        "providers",
        "privacy_profile",
        "validation_engine",
        "max_attempts",
        "retry_delay_seconds",
        "blocked_retry_seconds",
    } == set(plain)
    changed = [
        gateway.configuration(request)
        for request in (
            REASK,
            NEXT,
            ask(rounds_max=2),
            ask(retry_delay_seconds=5.0),
            ask(timeout_seconds=9.0),
        )
    ]
    assert 6 == len({digest(configuration) for configuration in (plain, *changed)})
    assert plain == gateway.plan(ask()).configuration


async def test_a_limit_of_time_holds_for_every_target_of_the_request() -> None:
    """The request's own limit takes the place of the configured one."""
    bench = Bench([Hang()])
    clock = bench.gateway.clock
    await bench.gateway.complete_round(ask(timeout_seconds=4.0))
    assert 4.0 == clock.monotonic()
