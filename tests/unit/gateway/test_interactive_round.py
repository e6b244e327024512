"""The same walk while a client waits: keys, repeats, one deadline, and whoever is at rest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.config.gateway_config import GatewayConfig
from casework.gateway.call_gate import OpenGate
from casework.gateway.clock import Deadline, ManualClock
from casework.gateway.errors import POLICY, FailureKind, ProviderFailure
from casework.gateway.health import ProviderHealth
from casework.gateway.messages import Credential
from casework.gateway.outcomes import Answered, RoundErred, RoundUnavailable, Walked
from casework.gateway.plan import Accepted, Plan, Rejected, Repeats, RoundPolicy, Target
from casework.gateway.round import walk_round

CONFIG = GatewayConfig.parse(
    "\n".join(
        f'[[providers]]\nid = "p{n}"\nadapter = "x"\nclass = "cloud"\nmodel = "m"' for n in range(3)
    )
)
DOWN = ProviderFailure(FailureKind.HTTP_5XX, http_status=503)
Step = str | ProviderFailure | float


@dataclass
class Fake:
    """Plays steps for each provider: an answer, a failure, or seconds that pass first."""

    scripts: dict[str, list[Step]]
    clock: ManualClock = field(default_factory=ManualClock)
    calls: list[str] = field(default_factory=list)
    asked_for: asyncio.Event = field(default_factory=asyncio.Event)
    hang: bool = False
    discarded: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.health = ProviderHealth(CONFIG.breaker, self.clock)

    def plan(
        self, policy: RoundPolicy, keys: int = 1, *, seconds: float = 30.0, keys_max: int = 3
    ) -> Plan[str, str, str]:
        """Plan a round over the scripted providers."""
        providers = [p for p in CONFIG.providers if p.id in self.scripts]
        return Plan(
            targets=tuple(
                Target(
                    provider=provider,
                    model="m",
                    ask=self.ask,
                    credential=Credential(f"k{key}", "secret"),
                    call=provider.id,
                    currency="USD",
                    timeout_seconds=30.0,
                    tokens_max=None,
                )
                for provider in providers
                for key in range(keys)
            ),
            policy=policy,
            judge=lambda reply: Accepted(reply, None),
            request_bytes=1,
            deadline=Deadline.after(seconds, self.clock) if policy.interactive else None,
            repeats=Repeats(3, keys_max, lambda failed: 2.0**failed),
            discard=self.discarded.append,
        )

    async def ask(self, call: str, /, *, credential: Credential | None, deadline: Deadline) -> str:
        """Play the next step of a provider."""
        self.calls.append(f"{call}/{credential.label if credential else None}")
        self.asked_for.set()
        if self.hang:
            await asyncio.Event().wait()
        steps = self.scripts[call]
        step = steps.pop(0) if len(steps) > 1 else steps[0]
        if isinstance(step, float):
            await self.clock.sleep(min(step, deadline.remaining()))
            raise ProviderFailure(FailureKind.TIMEOUT)
        if isinstance(step, ProviderFailure):
            raise step
        return step

    async def walk(self, policy: RoundPolicy, keys: int = 1, **changes: float) -> Walked[str]:
        """Walk one round."""
        plan = self.plan(policy, keys, **changes)  # type: ignore[arg-type]
        return await walk_round(plan, self.clock, gate=OpenGate(), health=self.health)


AUTO, STRICT = RoundPolicy.INTERACTIVE_AUTO, RoundPolicy.INTERACTIVE_STRICT


async def test_a_server_at_fault_is_asked_three_times_and_then_the_next_one() -> None:
    """The waits double; another key would not help, so none is tried."""
    fake = Fake({"p0": [DOWN], "p1": ["yes"]})
    walked = await fake.walk(AUTO, keys=2)
    assert isinstance(walked, Answered)
    assert ["p0/k0"] * 3 + ["p1/k0"] == fake.calls
    assert (3.0, 3) == (fake.clock.monotonic(), len(walked.attempts))


async def test_a_server_that_recovers_answers_under_the_same_key() -> None:
    """One bad moment costs a second, not the request."""
    fake = Fake({"p0": [DOWN, "yes"]})
    assert isinstance(await fake.walk(STRICT), Answered)
    assert ["p0/k0"] * 2 == fake.calls


@pytest.mark.parametrize("kind", [FailureKind.HTTP_429, FailureKind.AUTH_ERROR])
async def test_a_key_at_fault_leads_to_the_next_key_at_once(kind: FailureKind) -> None:
    """Three keys at most, then the next provider; no key is asked twice."""
    fake = Fake({"p0": [ProviderFailure(kind)], "p1": ["yes"]})
    assert isinstance(await fake.walk(AUTO, keys=5), Answered)
    assert ["p0/k0", "p0/k1", "p0/k2", "p1/k0"] == fake.calls
    assert 0.0 == fake.clock.monotonic()


async def test_a_key_that_rests_is_not_asked_and_the_fourth_gets_its_turn() -> None:
    """Only calls count towards the most keys of a request."""
    fake = Fake({"p0": [ProviderFailure(FailureKind.HTTP_429)]})
    await fake.walk(STRICT, keys=4)
    fake.scripts["p0"] = ["yes"]
    assert isinstance(await fake.walk(STRICT, keys=4), Answered)
    assert ["p0/k0", "p0/k1", "p0/k2", "p0/k3"] == fake.calls


async def test_the_fault_of_the_request_ends_the_round() -> None:
    """A refused request is refused everywhere: exactly one call."""
    for status in (400, 413, 422):
        fake = Fake({"p0": [ProviderFailure(FailureKind.HTTP_ERROR, http_status=status)]})
        fake.scripts["p1"] = ["yes"]
        assert isinstance(await fake.walk(AUTO, keys=2), RoundErred)
        assert ["p0/k0"] == fake.calls


@pytest.mark.parametrize("status", [402, 404, 409, 410, 451])
async def test_a_model_that_one_provider_lacks_another_may_have(status: int) -> None:
    """Other refusals are about this provider, and lead to the next."""
    fake = Fake({"p0": [ProviderFailure(FailureKind.HTTP_ERROR, http_status=status)]})
    fake.scripts["p1"] = ["yes"]
    assert isinstance(await fake.walk(AUTO), Answered)


async def test_three_slow_providers_end_by_the_deadline() -> None:
    """Two seconds are two seconds, whoever is asked how often."""
    slow: list[Step] = [1.5]
    fake = Fake({"p0": list(slow), "p1": list(slow), "p2": list(slow)})
    walked = await fake.walk(AUTO, seconds=2.0)
    assert isinstance(walked, RoundUnavailable)
    assert (2.0, ["p0/k0", "p1/k0"]) == (fake.clock.monotonic(), fake.calls)


async def test_a_wait_that_the_server_asks_for_is_not_waited_past_the_deadline() -> None:
    """Its next call would come too late, so the next provider is asked at once."""
    busy = ProviderFailure(FailureKind.HTTP_5XX, http_status=503, retry_after_seconds=60.0)
    fake = Fake({"p0": [busy], "p1": ["yes"]})
    assert isinstance(await fake.walk(AUTO), Answered)
    assert (0.0, ["p0/k0", "p1/k0"]) == (fake.clock.monotonic(), fake.calls)


async def test_a_dead_provider_is_passed_over_once_its_breaker_is_open() -> None:
    """After five failures nobody asks it, until its minute is over; then one probe does."""
    fake = Fake({"p0": [DOWN], "p1": ["yes"]})
    for _ in range(10):
        assert isinstance(await fake.walk(AUTO), Answered)
    assert 5 == fake.calls.count("p0/k0")
    fake.clock.advance(60.0)
    await fake.walk(AUTO)
    assert 6 == fake.calls.count("p0/k0")


async def test_a_limit_that_is_told_in_an_answer_lets_the_key_rest_too() -> None:
    """A server that says 200 and means 429 is believed."""
    fake = Fake({"p0": ["busy"]})
    plan = replace(fake.plan(STRICT), judge=lambda _: Rejected(FailureKind.HTTP_429))
    await walk_round(plan, fake.clock, gate=OpenGate(), health=fake.health)
    resting = fake.health.resting("p0", "k0", "m")
    assert resting is not None
    assert 60.0 == resting.seconds


async def test_a_deadline_that_a_client_shortened_is_not_held_against_the_server() -> None:
    """One impatient client does not take a slow provider from all others."""
    fake = Fake({"p0": [1.0]})
    for _ in range(9):
        plan = replace(fake.plan(STRICT, seconds=0.05), fair_seconds=12.0)
        await walk_round(plan, fake.clock, gate=OpenGate(), health=fake.health)
    assert not fake.health.is_open("p0")
    for _ in range(5):
        plan = replace(fake.plan(STRICT, seconds=30.0), fair_seconds=0.5)
        await walk_round(plan, fake.clock, gate=OpenGate(), health=fake.health)
    assert fake.health.is_open("p0")


async def test_a_wait_is_told_only_where_nobody_can_be_asked_before() -> None:
    """Of two providers the one that does not rest may answer at once."""
    refused = ProviderFailure(FailureKind.AUTH_ERROR, http_status=401)
    fake = Fake({"p0": [refused], "p1": [DOWN]})
    walked = await fake.walk(AUTO)
    assert isinstance(walked, RoundUnavailable)
    assert walked.retry_after_seconds is None


async def test_where_everybody_rests_nobody_is_called_and_the_first_recovery_is_told() -> None:
    """Zero calls, and the client learns when to come back."""
    fake = Fake({"p0": [ProviderFailure(FailureKind.HTTP_429, retry_after_seconds=40.0)]})
    fake.scripts["p1"] = [ProviderFailure(FailureKind.HTTP_429, retry_after_seconds=20.0)]
    await fake.walk(AUTO)
    fake.calls.clear()
    walked = await fake.walk(AUTO)
    assert isinstance(walked, RoundUnavailable)
    assert ([], 20.0, 2) == (fake.calls, walked.retry_after_seconds, len(walked.resting))


async def test_a_durable_round_asks_whoever_rests() -> None:
    """Its rounds are a minute apart already."""
    fake = Fake({"p0": [DOWN]})
    for _ in range(7):
        await fake.walk(RoundPolicy.DURABLE)
    assert 7 == len(fake.calls)


async def test_a_client_that_leaves_frees_the_probe() -> None:
    """The call is given up, and the very next request may try the provider."""
    fake = Fake({"p0": [DOWN]})
    for _ in range(2):
        await fake.walk(STRICT)
    assert fake.health.is_open("p0")
    fake.clock.advance(60.0)
    fake.hang, fake.asked_for = True, asyncio.Event()
    waiting = asyncio.ensure_future(fake.walk(STRICT))
    await fake.asked_for.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    fake.hang, fake.scripts["p0"] = False, ["yes"]
    assert isinstance(await fake.walk(STRICT), Answered)


async def test_what_comes_back_after_the_client_has_left_is_closed() -> None:
    """An opened stream that nobody waits for any more does not stay open."""
    fake = Fake({"p0": ["late"]})
    release, waiting_in_call = asyncio.Event(), asyncio.Event()

    async def stubborn(call: str, /, *, credential: object, deadline: object) -> str:
        waiting_in_call.set()
        try:
            await release.wait()
        except asyncio.CancelledError:
            return "late"
        return "never"

    plan = fake.plan(AUTO)
    plan = replace(plan, targets=(replace(plan.targets[0], ask=stubborn),))
    walking = asyncio.ensure_future(
        walk_round(plan, fake.clock, gate=OpenGate(), health=fake.health)
    )
    await waiting_in_call.wait()
    walking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await walking
    assert ["late"] == fake.discarded


async def test_an_answer_that_goes_on_keeps_the_slot() -> None:
    """The plan is handed the slot, and who closes it frees the provider."""
    fake = Fake({"p0": ["yes"]})
    kept: list[AsyncExitStack] = []
    keep: Callable[[str, AsyncExitStack], None] = lambda _, slot: kept.append(slot.pop_all())  # noqa: E731
    plan = replace(fake.plan(AUTO), keep_slot=keep)
    await walk_round(plan, fake.clock, gate=OpenGate(), health=fake.health)
    assert 1 == len(kept)


@given(
    st.lists(
        st.lists(
            st.sampled_from(["yes", *(ProviderFailure(kind) for kind in FailureKind)]),
            min_size=1,
            max_size=4,
        ),
        min_size=1,
        max_size=3,
    ),
    st.integers(1, 4),
)
async def test_calls_are_bounded_and_every_round_ends(scripts: list[list[Step]], keys: int) -> None:
    """Whatever fails however, a target's key is asked three times at most, and an end is told."""
    for policy in RoundPolicy:
        fake = Fake({f"p{n}": list(script) for n, script in enumerate(scripts)})
        try:
            walked = await fake.walk(policy, keys)
        except Exception as error:  # noqa: BLE001 - only the one that says so may come
            assert "limit_reached" == getattr(error, "code", None)  # noqa: PT017
            continue
        most = 1 if policy is RoundPolicy.DURABLE else 3
        assert all(most >= fake.calls.count(call) for call in set(fake.calls))
        assert isinstance(walked, Answered | RoundErred | RoundUnavailable)
        assert fake.clock.monotonic() <= 30.0


def test_only_what_may_pass_is_asked_again_under_the_same_key() -> None:
    """A repeat is for servers at fault; whatever spends money in vain is not repeated."""
    again = {kind for kind in FailureKind if POLICY[kind].same_key_again}
    assert {FailureKind.CONNECT_ERROR, FailureKind.HTTP_408, FailureKind.HTTP_5XX} == again
