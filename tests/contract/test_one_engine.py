"""Cases and clients are served by one walk: the policy alone makes their rounds differ."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from casework.config.gateway_config import GatewayConfig
from casework.gateway.call_gate import OpenGate
from casework.gateway.chat.request import read_chat_request
from casework.gateway.clock import ManualClock
from casework.gateway.errors import FailureKind
from casework.gateway.llm_gateway import LLMGateway
from casework.gateway.messages import LLMRequest, Message
from casework.gateway.outcomes import Answered, Attempt, RoundErred, RoundSucceeded, Walked
from casework.gateway.plan import CasePlan, Plan, RoundPolicy
from casework.gateway.providers.scripted import Delay, Fail, Hang, Reply, ScriptedProvider, Step
from casework.gateway.round import walk_round
from casework.gateway.scope import UNBOUNDED
from casework.runner.outcome_files import attempt_to_json
from casework.strict_json import JSON, canonical

BODY = json.dumps({"model": "auto", "messages": [{"role": "user", "content": "Say 1."}]}).encode()
GOOD = Reply('{"a": 1}')
SCRIPTS: dict[str, list[list[Step]]] = {
    "the first answers": [[GOOD], [GOOD]],
    "the first is down": [[Fail(FailureKind.HTTP_5XX, 503)] * 3, [GOOD]],
    "the first recovers": [[Fail(FailureKind.HTTP_5XX, 500), GOOD], [GOOD]],
    "the first is at its limit": [[Fail(FailureKind.HTTP_429, 429, 7.0)] * 2, [GOOD]],
    "the first refuses both keys": [[Fail(FailureKind.AUTH_ERROR, 401)] * 2, [GOOD]],
    "the first refuses the request": [[Fail(FailureKind.HTTP_ERROR, 400)], [GOOD]],
    "the first lacks the model": [[Fail(FailureKind.HTTP_ERROR, 404)] * 2, [GOOD]],
    "the first is slow": [[Delay(2.5, GOOD)], [GOOD]],
    "the first hangs": [[Hang()], [GOOD]],
    "all are down": [[Fail(FailureKind.CONNECT_ERROR, sent=False)] * 3] * 2,
}


class Ward:
    """A gateway over two scripted providers, the first with two keys, on a manual clock."""

    def __init__(self, scripts: list[list[Step]]) -> None:
        self.clock = ManualClock()
        self.doubles = {
            f"p{n}": ScriptedProvider(steps, clock=self.clock) for n, steps in enumerate(scripts)
        }
        entry = '[[providers]]\nid = "{}"\nadapter = "double"\nclass = "cloud"\nmodel = "m"\n{}\n'
        keys = {"p0": 'api_key_env = ["KEY_A", "KEY_B"]\ntimeout_seconds = 5.0', "p1": ""}
        entries = "".join(entry.format(name, keys[name]) for name in self.doubles)
        self.gateway = LLMGateway(
            GatewayConfig.parse(f'privacy_profile = "cloud_allowed"\n{entries}'),
            adapters={"double": lambda config: self.doubles[config.id]},
            clock=self.clock,
            environ={"KEY_A": "secret-a", "KEY_B": "secret-b"},
            chance=lambda: 0.0,
        )

    def chat(self) -> Plan[object, object, object]:
        """Plan the round of a client's request."""
        request = read_chat_request(BODY, engine="jsonschema-rs")
        return self.gateway.interactive.chat_plan(request, UNBOUNDED)  # type: ignore[return-value]

    def case(self, like: Plan[object, object, object], policy: RoundPolicy) -> CasePlan:
        """Plan the round of a case's operation that is as long as a client's request."""
        plan = self.gateway.plan(
            LLMRequest(
                messages=(Message("user", "x" * len(BODY)),),
                output_schema={"type": "object"},
                prompt_version="test_v1",
                prompt_sha256="0" * 64,
            ),
            policy,
        )
        keys = {(t.provider.id, t.credential): t for t in plan.targets}
        targets = tuple(
            replace(
                keys.get((t.provider.id, t.credential))
                or next(own for own in plan.targets if own.provider.id == t.provider.id),
                credential=t.credential,
            )
            for t in like.targets
        )
        return replace(plan, targets=targets, deadline=like.deadline, repeats=like.repeats)

    async def walked(self, plan: Plan[object, object, object]) -> bytes:
        """Walk a plan and return its ledger: every attempt, and how it ended."""
        ended = await walk_round(plan, self.clock, gate=OpenGate(), health=self.gateway.health)
        return ledger(ended)


def ledger(ended: Walked[object] | RoundSucceeded) -> bytes:
    """Write down every attempt of a round and its end, as outcome files do."""
    attempts: list[JSON] = [attempt_to_json(attempt) for attempt in ended.attempts]
    match ended:
        case RoundErred(final=final):
            attempts.append(attempt_to_json(final))
        case Answered(served=served) | RoundSucceeded(served=served):
            answered = Attempt(served=served, kind=FailureKind.UNKNOWN)
            attempts.append({**attempt_to_json(answered), "code": None})
    return canonical({"ended": type(ended).__name__, "attempts": attempts})


@pytest.mark.parametrize("policy", list(RoundPolicy))
@pytest.mark.parametrize("script", SCRIPTS)
async def test_the_same_policy_gives_the_same_ledger(script: str, policy: RoundPolicy) -> None:
    """A client's request under the runner's policy leaves what the runner's own does."""
    ours, theirs = Ward(SCRIPTS[script]), Ward(SCRIPTS[script])
    chat = replace(ours.chat(), policy=policy)
    case = theirs.case(theirs.chat(), policy)
    assert await theirs.walked(case) == await ours.walked(chat)  # type: ignore[arg-type]


async def test_the_runners_own_verb_leaves_that_ledger_too() -> None:
    """``complete_round`` is that walk."""
    script = SCRIPTS["the first is down"]
    ours, theirs = Ward(script), Ward(script)
    durable = replace(ours.chat(), policy=RoundPolicy.DURABLE)
    plan = theirs.case(theirs.chat(), RoundPolicy.DURABLE)
    outcome = await theirs.gateway.complete_round(None, plan=plan)  # type: ignore[arg-type]
    expected = ledger(outcome).replace(b"RoundSucceeded", b"Answered")
    assert expected == await ours.walked(durable)
