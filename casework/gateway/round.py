"""The round: one ordered walk through the eligible targets, ended by the first answer.

Nothing else in Casework asks a second target, or a target again, because a call failed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeAlias, assert_never

from casework.errors import LimitReached
from casework.gateway.call_gate import AtLimit, CallGate
from casework.gateway.clock import Clock, Deadline
from casework.gateway.errors import POLICY, FailureKind, ProviderFailure
from casework.gateway.health import Probe, ProviderHealth
from casework.gateway.messages import Cost, Usage
from casework.gateway.outcomes import (
    Answered,
    Attempt,
    Resting,
    RoundErred,
    RoundUnavailable,
    Served,
    Walked,
)
from casework.gateway.plan import A, Accepted, C, Plan, R, Rejected, Target
from casework.gateway.prices import cost_of_call

_logger = logging.getLogger(__name__)

ABANDON_SECONDS: Final = 1.0
"""How long a cancelled adapter may take to let go before its round goes on without it."""


@dataclass(frozen=True, slots=True)
class _Answered(Generic[A]):
    served: Served
    answer: A


@dataclass(frozen=True, slots=True)
class _Failed:
    attempt: Attempt
    retry_after_seconds: float | None

    @property
    def is_limit(self) -> bool:
        """Tell whether nobody was asked, because of a limit of calls."""
        return not self.attempt.made


_Visit: TypeAlias = _Answered[A] | _Failed


async def walk_round(
    plan: Plan[C, R, A], clock: Clock, *, gate: CallGate, health: ProviderHealth
) -> Walked[A]:
    """Ask the plan's targets in order until one gives an answer or a final error.

    Args:
        plan: Whom, and what.
        clock: The time.
        gate: What lets calls through.
        health: Who is at rest; a durable round adds to it and is never kept from a target by it.

    Raises:
        LimitReached: Every target is at a limit of calls; none was asked.
    """
    walk = _Walk(plan, clock, gate=gate, health=health)
    for target in plan.targets:
        if walk.passes_over(target):
            continue
        visit = await walk.visit(target)
        match visit:
            case _Answered():
                return walk.answered(visit)
            case _Failed() if not plan.goes_on_after(visit.attempt.kind, visit.attempt.http_status):
                return walk.erred(visit.attempt)
            case _Failed():
                walk.note(visit)
            case _:
                assert_never(visit)
    return walk.without_answer()


class _Walk(Generic[C, R, A]):
    """What a round has come to so far, and its ends."""

    def __init__(
        self, plan: Plan[C, R, A], clock: Clock, *, gate: CallGate, health: ProviderHealth
    ) -> None:
        self._plan, self._clock, self._gate, self._health = plan, clock, gate, health
        self._started_at, self._begun = clock.now(), clock.monotonic()
        self._failed: list[_Failed] = []
        self._resting: list[Resting] = []
        self._keys_tried: dict[str, int] = {}
        self._given_up: set[str] = set()
        """Providers whose server is at fault, so that another key would not help."""
        self._hurried = False
        """Whether the last call was left less time than is fair to its server."""
        self._probe: Probe | None = None
        """The right to the next call, where it is a probe."""

    def passes_over(self, target: Target[C, R]) -> bool:
        """Tell whether a target is not asked: it is at rest, given up, or no time is left."""
        if not self._plan.policy.interactive:
            return False
        provider = target.provider.id
        deadline = self._plan.deadline
        if provider in self._given_up or (deadline is not None and deadline.passed):
            return True
        if self._keys_tried.get(provider, 0) >= self._plan.repeats.keys_max:
            return True
        admitted = self._health.admit(provider, _label(target), target.model)
        if isinstance(admitted, Resting):
            self._resting.append(admitted)
            return True
        self._probe = admitted
        self._keys_tried[provider] = self._keys_tried.get(provider, 0) + 1
        return False

    async def visit(self, target: Target[C, R]) -> _Visit[A]:
        """Ask a target, again where the plan says so, until it answers or is left."""
        plan = self._plan
        visit = await self._asked(target)
        if isinstance(visit, _Failed) and plan.asks_again_after(visit.attempt.kind):
            self.note(visit)
            visit = await self._asked(target, again_after=visit.attempt)
        calls = 1
        while isinstance(visit, _Failed) and self._repeats(visit, calls):
            wait = visit.retry_after_seconds
            if wait is None:
                wait = plan.repeats.delay_seconds(calls - 1)
            if plan.deadline is None or wait >= plan.deadline.remaining():
                break
            await self._clock.sleep(wait)
            if self._health.is_open(target.provider.id):
                break
            self.note(visit)
            calls += 1
            visit = await self._asked(target)
        if isinstance(visit, _Failed) and POLICY[visit.attempt.kind].counts_for_breaker:
            self._given_up.add(target.provider.id)
        return visit

    def _repeats(self, failed: _Failed, calls: int) -> bool:
        return (
            calls < self._plan.repeats.calls_of_a_key_max
            and POLICY[failed.attempt.kind].same_key_again
            and not self._health.is_open(failed.attempt.served.provider)
        )

    def note(self, failed: _Failed) -> None:
        """Take note of a failure after which the walk goes on."""
        self._failed.append(failed)

    def answered(self, visit: _Answered[A]) -> Answered[A]:
        """End with an answer."""
        return Answered(
            started_at=self._started_at,
            elapsed_ms=_milliseconds_since(self._begun, self._clock),
            attempts=self._attempts(),
            served=visit.served,
            answer=visit.answer,
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
        failed, resting = self._failed, tuple(self._resting)
        if failed and not resting and not any(POLICY[f.attempt.kind].temporary for f in failed):
            return self.erred(failed.pop().attempt)
        limits = [one.retry_after_seconds or 0.0 for one in failed if one.is_limit]
        if failed and not resting and len(limits) == len(failed):
            raise LimitReached(min(limits))
        return RoundUnavailable(
            started_at=self._started_at,
            elapsed_ms=_milliseconds_since(self._begun, self._clock),
            attempts=self._attempts(),
            retry_after_seconds=self._retry_after_seconds(),
            resting=resting,
        )

    def _retry_after_seconds(self) -> float | None:
        if self._plan.policy.interactive:
            rests = [
                self._health.resting(target.provider.id, _label(target), target.model)
                for target in self._plan.targets
            ]
            seconds = [rest.seconds for rest in rests if rest]
            return min(seconds, default=None) if len(seconds) == len(rests) else None
        waits = [one.retry_after_seconds for one in self._failed if not one.is_limit]
        return max((wait for wait in waits if wait is not None), default=None)

    def _attempts(self) -> tuple[Attempt, ...]:
        return tuple(one.attempt for one in self._failed)

    async def _asked(
        self, target: Target[C, R], *, again_after: Attempt | None = None
    ) -> _Visit[A]:
        """Call one target once, or not where it is at a limit, and judge what came back.

        Args:
            target: Whom.
            again_after: The refused answer that the target is told of, for a re-ask.
        """
        plan, clock = self._plan, self._clock
        sent_bytes = plan.request_bytes
        if again_after is not None:
            assert plan.asked_again is not None, "a plan that re-asks says how"
            call, sent_bytes = plan.asked_again(target.call, again_after)
            target = replace(target, call=call)
        async with AsyncExitStack() as slot:
            at_limit = await self._entered(slot, target)
            started_at, begun = clock.now(), clock.monotonic()
            result = await self._called(target, at_limit)
            verdict = self._judged(target, result)
            failure = result if isinstance(result, ProviderFailure) else None
            served = Served(
                provider=target.provider.id,
                model=target.model,
                provider_class=target.provider.provider_class,
                key_label=_label(target),
                started_at=started_at,
                elapsed_ms=_milliseconds_since(begun, clock),
                sent=failure.sent if failure else True,
                request_bytes=sent_bytes,
                usage=verdict.usage,
                cost=_cost(target, verdict.usage),
                reask=again_after is not None,
            )
            if isinstance(verdict, Accepted):
                if plan.keep_slot is not None:
                    plan.keep_slot(verdict.answer, slot)
                return _Answered(served, verdict.answer)
        attempt = Attempt(
            served=served,
            kind=verdict.kind,
            http_status=failure.http_status if failure else None,
            schema_pointer=verdict.schema_pointer,
        )
        return _Failed(attempt, failure.retry_after_seconds if failure else None)

    async def _entered(self, slot: AsyncExitStack, target: Target[C, R]) -> AtLimit | None:
        """Take a slot of the provider; while a client waits, no longer than its deadline."""
        if not self._gate.bounds(target.provider):
            return None
        deadline = self._plan.deadline
        try:
            async with asyncio.timeout(deadline.remaining() if deadline else None):
                return await slot.enter_async_context(self._gate.call(target.provider))
        except TimeoutError:
            return AtLimit(0.0)
        except BaseException:
            self._abandoned(target)
            raise

    async def _called(self, target: Target[C, R], at_limit: AtLimit | None) -> R | ProviderFailure:
        if at_limit is not None:
            self._abandoned(target)
            return ProviderFailure(
                FailureKind.LIMIT_REACHED, retry_after_seconds=at_limit.seconds, sent=False
            )
        seconds = target.timeout_seconds
        if self._plan.deadline is not None:
            seconds = min(seconds, self._plan.deadline.remaining())
        self._hurried = seconds < min(target.timeout_seconds, self._plan.fair_seconds)
        try:
            return await _call(
                target, Deadline.after(seconds, self._clock), discard=self._plan.discard
            )
        except BaseException:
            self._abandoned(target)
            raise

    def _abandoned(self, target: Target[C, R]) -> None:
        """Hand the probe back, if the call was to be one: nobody was asked, or told."""
        if self._probe is not None:
            self._health.abandoned(target.provider.id, self._probe)

    def _judged(self, target: Target[C, R], result: R | ProviderFailure) -> Accepted[A] | Rejected:
        """Judge what came back, and take note of what it says of the provider's health."""
        provider, key, model = target.provider.id, _label(target), target.model
        if isinstance(result, ProviderFailure):
            verdict: Accepted[A] | Rejected = Rejected(result.kind)
            failure: ProviderFailure | None = result
        else:
            verdict = self._plan.judge(result)
            failure = _told(verdict)
        if failure is None and self._plan.keep_slot is not None:
            self._health.begun(provider)  # how it ends is told by whoever has it
        elif failure is None:
            self._health.succeeded(provider, key, model)
        elif failure.kind is FailureKind.LIMIT_REACHED or (
            failure.kind is FailureKind.TIMEOUT and self._hurried
        ):
            self._abandoned(target)
        else:
            self._health.failed(provider, key, model, failure=failure)
        return verdict


def _told(verdict: Accepted[A] | Rejected) -> ProviderFailure | None:
    """Return the failure that a server told of in what looked like an answer, if it did."""
    if isinstance(verdict, Rejected) and POLICY[verdict.kind].cooldown is not None:
        return ProviderFailure(verdict.kind)
    return None


def _label(target: Target[C, R]) -> str | None:
    return target.credential.label if target.credential else None


def _cost(target: Target[C, R], usage: Usage | None) -> Cost | None:
    return cost_of_call(usage, target.provider, model=target.model, currency=target.currency)


async def _call(
    target: Target[C, R], deadline: Deadline, *, discard: Callable[[R], None]
) -> R | ProviderFailure:
    """Make the call; in a task of its own, unless the adapter keeps deadlines by itself."""
    asked = target.ask(target.call, credential=target.credential, deadline=deadline)
    try:
        if target.keeps_deadlines:
            return await asked
        return await _guarded(asked, deadline, discard)
    except ProviderFailure as failure:
        return failure
    except Exception as error:  # noqa: BLE001 - the edge of foreign code
        _logger.error(  # noqa: TRY400 - a traceback may hold the text of a document
            "adapter defect",
            extra={
                "action": "adapter_defect",
                "provider": target.provider.id,
                "exception": type(error).__name__,
            },
        )
        return ProviderFailure(FailureKind.UNKNOWN)


async def _guarded(
    asked: Awaitable[R], deadline: Deadline, discard: Callable[[R], None]
) -> R | ProviderFailure:
    """Wait for a call until its deadline, whatever the adapter does about it."""
    task = asyncio.ensure_future(asked)
    in_time = False
    try:
        await asyncio.wait({task}, timeout=deadline.remaining())
        in_time = task.done()
    finally:
        if not in_time:
            await _abandon(task, discard)
    if not in_time or task.cancelled():
        return ProviderFailure(FailureKind.TIMEOUT)
    return task.result()


async def _abandon(task: asyncio.Future[R], discard: Callable[[R], None]) -> None:
    """Cancel a call and give it a moment to close its socket; a later answer is thrown away."""

    def throw_away(ended: asyncio.Future[R]) -> None:
        if not ended.cancelled() and ended.exception() is None:
            discard(ended.result())

    task.cancel()
    task.add_done_callback(throw_away)
    await asyncio.wait({task}, timeout=ABANDON_SECONDS)


def _milliseconds_since(begun: float, clock: Clock) -> int:
    return round((clock.monotonic() - begun) * 1000)
