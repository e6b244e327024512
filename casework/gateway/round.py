"""The round: one ordered walk through the eligible targets, ended by the first validated answer.

Nothing else in Casework asks a second target, or a target again, because a call failed.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, TypeAlias, assert_never

from casework.config.providers import ProviderConfig
from casework.errors import LimitReached
from casework.gateway.call_gate import AtLimit, CallGate
from casework.gateway.clock import Clock, Deadline
from casework.gateway.errors import POLICY, FailureKind, ProviderFailure
from casework.gateway.messages import (
    Credential,
    OnInvalidOutput,
    ProviderCall,
    ProviderReply,
    bytes_of,
)
from casework.gateway.outcomes import (
    Attempt,
    RoundErred,
    RoundOutcome,
    RoundSucceeded,
    RoundUnavailable,
    Served,
)
from casework.gateway.prices import cost_of
from casework.gateway.providers.provider import LLMProvider
from casework.gateway.reask import REASK_BYTES_MAX, asked_again
from casework.gateway.validation import (
    AcceptedAnswer,
    CompiledSchema,
    RejectedAnswer,
    judge_reply,
)
from casework.strict_json import JSONObject

_logger = logging.getLogger(__name__)

ABANDON_SECONDS: Final = 1.0
"""How long a cancelled adapter may take to let go before its round goes on without it."""


class RoundPolicy(StrEnum):
    """What a failure means for the walk."""

    DURABLE = "durable"
    """One call a target; only what may pass by itself leads to the next target."""

    def goes_on_after(self, kind: FailureKind) -> bool:
        """Tell whether the walk asks the next target after this failure."""
        match self:
            case RoundPolicy.DURABLE:
                return POLICY[kind].temporary
            case _:
                assert_never(self)


@dataclass(frozen=True, slots=True)
class Target:
    """One provider with one model and settings, and the call that it is to be asked."""

    provider: ProviderConfig
    adapter: LLMProvider
    credential: Credential | None
    call: ProviderCall
    currency: str
    """Currency of its prices, unless its own rates name another."""
    timeout_seconds: float
    """Longest time for one call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The targets that a round walks, in order, and what it asks of them."""

    targets: tuple[Target, ...]
    schema: CompiledSchema
    policy: RoundPolicy
    request_bytes: int
    """Size of the messages in UTF-8."""
    configuration: JSONObject
    """Everything of the configuration that may change the answer, without addresses or secrets."""
    rounds_max: int
    retry_delay_seconds: float
    on_invalid_output: OnInvalidOutput = OnInvalidOutput.ERROR

    @property
    def calls_of_a_target(self) -> tuple[int, ...]:
        """Return the most bytes of messages that each call to one target may send, in order."""
        if self.on_invalid_output is OnInvalidOutput.REASK:
            return self.request_bytes, self.request_bytes + REASK_BYTES_MAX
        return (self.request_bytes,)

    def asks_again_after(self, kind: FailureKind) -> bool:
        """Tell whether the same target is asked once more after this failure."""
        return self.on_invalid_output is OnInvalidOutput.REASK and POLICY[kind].reask

    def goes_on_after(self, kind: FailureKind) -> bool:
        """Tell whether the walk asks the next target after this failure."""
        passed_on = self.on_invalid_output is OnInvalidOutput.NEXT_PROVIDER
        return self.policy.goes_on_after(kind) or (passed_on and POLICY[kind].another_may_answer)


@dataclass(frozen=True, slots=True)
class _Answered:
    served: Served
    answer: AcceptedAnswer


@dataclass(frozen=True, slots=True)
class _Failed:
    attempt: Attempt
    retry_after_seconds: float | None

    @property
    def is_limit(self) -> bool:
        """Tell whether nobody was asked, because of a limit of calls."""
        return self.attempt.kind is FailureKind.LIMIT_REACHED and not self.attempt.served.sent


_Visit: TypeAlias = _Answered | _Failed


async def walk_round(plan: Plan, clock: Clock, *, gate: CallGate) -> RoundOutcome:
    """Ask the plan's targets in order until one gives a validated answer or a final error.

    Raises:
        LimitReached: Every target is at a limit of calls; none was asked.
    """
    walk = _Walk(clock)
    for target in plan.targets:
        visit = await _visit(plan, target, clock, gate=gate)
        if isinstance(visit, _Failed) and plan.asks_again_after(visit.attempt.kind):
            walk.note(visit)
            visit = await _visit(plan, target, clock, gate=gate, again_after=visit.attempt)
        match visit:
            case _Answered():
                return walk.succeeded(visit, plan.schema)
            case _Failed() if not plan.goes_on_after(visit.attempt.kind):
                return walk.erred(visit.attempt)
            case _Failed():
                walk.note(visit)
            case _:
                assert_never(visit)
    return walk.without_answer()


class _Walk:
    """What a round has come to so far, and its ends."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._started_at, self._begun = clock.now(), clock.monotonic()
        self._failed: list[_Failed] = []

    def note(self, failed: _Failed) -> None:
        """Take note of a failure after which the walk goes on."""
        self._failed.append(failed)

    def succeeded(self, answered: _Answered, schema: CompiledSchema) -> RoundSucceeded:
        """End with a validated answer."""
        return RoundSucceeded(
            started_at=self._started_at,
            elapsed_ms=_milliseconds_since(self._begun, self._clock),
            attempts=self._attempts(),
            served=answered.served,
            output=answered.answer.output,
            surrogates_replaced=answered.answer.surrogates_replaced,
            validator=schema.validator,
        )

    def erred(self, final: Attempt) -> RoundErred:
        """End with a failure that no other target is to mend."""
        return RoundErred(
            started_at=self._started_at,
            elapsed_ms=_milliseconds_since(self._begun, self._clock),
            attempts=self._attempts(),
            final=final,
        )

    def without_answer(self) -> RoundUnavailable | RoundErred:
        """End after the last target: for good where each gave an answer that cannot be used.

        Raises:
            LimitReached: Every target is at a limit of calls; none was asked.
        """
        failed = self._failed
        if failed and not any(POLICY[one.attempt.kind].temporary for one in failed):
            return self.erred(failed.pop().attempt)
        limits = [one.retry_after_seconds or 0.0 for one in failed if one.is_limit]
        if failed and len(limits) == len(failed):
            raise LimitReached(min(limits))
        waits = [one.retry_after_seconds for one in failed if not one.is_limit]
        return RoundUnavailable(
            started_at=self._started_at,
            elapsed_ms=_milliseconds_since(self._begun, self._clock),
            attempts=self._attempts(),
            retry_after_seconds=max((wait for wait in waits if wait is not None), default=None),
        )

    def _attempts(self) -> tuple[Attempt, ...]:
        return tuple(one.attempt for one in self._failed)


async def _visit(
    plan: Plan, target: Target, clock: Clock, *, gate: CallGate, again_after: Attempt | None = None
) -> _Visit:
    """Call one target once and judge what came back.

    Args:
        plan: What is asked.
        target: Whom.
        clock: The time.
        gate: What lets the call through.
        again_after: The refused answer that the target is told of, for a re-ask.
    """
    messages = target.call.messages
    if again_after is not None:
        messages = asked_again(
            messages,
            again_after.kind,
            schema_pointer=again_after.schema_pointer,
            schema=target.call.output_schema,
        )
        target = replace(target, call=replace(target.call, messages=messages))
    async with gate.call(target.provider) as at_limit:
        started_at, begun = clock.now(), clock.monotonic()
        result = await _call(target, clock) if at_limit is None else _not_asked(at_limit)
        elapsed_ms = _milliseconds_since(begun, clock)
    usage = result.usage if isinstance(result, ProviderReply) else None
    served = Served(
        provider=target.provider.id,
        model=target.provider.model,
        provider_class=target.provider.provider_class,
        key_label=target.credential.label if target.credential else None,
        started_at=started_at,
        elapsed_ms=elapsed_ms,
        sent=True if isinstance(result, ProviderReply) else result.sent,
        request_bytes=bytes_of(messages) if again_after else plan.request_bytes,
        usage=usage,
        cost=cost_of(usage, target.provider.rates, currency=target.currency),
        reask=again_after is not None,
    )
    if isinstance(result, ProviderFailure):
        attempt = Attempt(served=served, kind=result.kind, http_status=result.http_status)
        return _Failed(attempt, result.retry_after_seconds)
    verdict = judge_reply(result, plan.schema)
    match verdict:
        case AcceptedAnswer():
            return _Answered(served, verdict)
        case RejectedAnswer():
            rejected = Attempt(
                served=served, kind=verdict.kind, schema_pointer=verdict.schema_pointer
            )
            return _Failed(rejected, None)
        case _:
            assert_never(verdict)


def _not_asked(limit: AtLimit) -> ProviderFailure:
    return ProviderFailure(FailureKind.LIMIT_REACHED, retry_after_seconds=limit.seconds, sent=False)


async def _call(target: Target, clock: Clock) -> ProviderReply | ProviderFailure:
    """Make the call in a task of its own, so that its deadline holds whatever the adapter does."""
    deadline = Deadline.after(target.timeout_seconds, clock)
    task = asyncio.ensure_future(
        target.adapter.complete(target.call, credential=target.credential, deadline=deadline)
    )
    try:
        await asyncio.wait({task}, timeout=deadline.remaining())
    finally:
        in_time = task.done()
        if not in_time:
            await _abandon(task)
    if not in_time or task.cancelled():
        return ProviderFailure(FailureKind.TIMEOUT)
    failure = task.exception()
    if failure is None:
        return task.result()
    if isinstance(failure, ProviderFailure):
        return failure
    if not isinstance(failure, Exception):
        raise failure
    _logger.error(
        "adapter defect",
        extra={
            "action": "adapter_defect",
            "provider": target.provider.id,
            "exception": type(failure).__name__,
        },
    )
    return ProviderFailure(FailureKind.UNKNOWN)


async def _abandon(task: asyncio.Future[ProviderReply]) -> None:
    """Cancel a call and give it a moment to close its socket; a later answer is thrown away."""
    task.cancel()
    task.add_done_callback(_swallow)
    await asyncio.wait({task}, timeout=ABANDON_SECONDS)


def _swallow(task: asyncio.Future[ProviderReply]) -> None:
    if not task.cancelled():
        task.exception()


def _milliseconds_since(begun: float, clock: Clock) -> int:
    return round((clock.monotonic() - begun) * 1000)
