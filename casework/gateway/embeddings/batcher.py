"""Requests that come close together, gathered into one call, and its answer handed out again.

A batch is one request to whoever walks the round: one plan, one answer, one end for all of its
callers. What tells two callers apart tells their batches apart too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Protocol, TypeAlias

from casework.config.privacy_profile import PrivacyProfile
from casework.config.serving import EmbeddingsConfig
from casework.errors import DeadlineExceeded
from casework.gateway.clock import Deadline
from casework.gateway.embeddings.answers import EmbeddingAnswer
from casework.gateway.embeddings.request import EmbeddingRequest
from casework.gateway.embeddings.shares import parts_of
from casework.gateway.outcomes import Walked
from casework.gateway.scope import Scope

BATCH_BYTES_MAX: Final = 256 * 1024
"""Most bytes of texts that are gathered, so that together they stay below the limits of servers
that each of them stays below alone."""
WAITING_INPUTS_MAX: Final = 8192
"""Most texts that wait at once; where more come, the oldest are sent early."""


class AskForVectors(Protocol):
    """Walk one round."""

    def __call__(
        self, request: EmbeddingRequest, scope: Scope, /, *, deadline: Deadline
    ) -> Awaitable[Walked[EmbeddingAnswer]]:
        """Ask for the vectors of all inputs, and end by the deadline.

        Cancelled, it closes the call to the server.
        """


class Alarm(Protocol):
    """Something that is to happen later, unless it is called off."""

    def cancel(self) -> None:
        """Call it off; harmless once it has happened."""


CallLater: TypeAlias = Callable[[float, Callable[[], None]], Alarm]
"""Does something after so many seconds."""


def call_later(seconds: float, act: Callable[[], None]) -> Alarm:
    """Let the running event loop do something after so many seconds."""
    return asyncio.get_running_loop().call_later(seconds, act)


@dataclass(frozen=True, slots=True)
class _Key:
    """All that requests have in common whose inputs may stand in one call."""

    client: str | None
    scope: Scope
    model: str
    members: tuple[tuple[str, bytes], ...]
    privacy_profile: PrivacyProfile | None
    of_tokens: bool


@dataclass(slots=True, eq=False)
class _Caller:
    request: EmbeddingRequest
    deadline: Deadline
    reply: asyncio.Future[Walked[EmbeddingAnswer] | BaseException]
    """An exception too is a result here, for a caller who has left never looks at it."""
    size_bytes: int = field(init=False)

    def __post_init__(self) -> None:
        self.size_bytes = sum(map(len, self.request.inputs))

    def told(self, outcome: Walked[EmbeddingAnswer] | BaseException) -> None:
        """End the waiting, unless it has ended."""
        if not self.reply.done():
            self.reply.set_result(outcome)


@dataclass(slots=True, eq=False)
class _Batch:
    key: _Key
    callers: list[_Caller] = field(default_factory=list)
    """Who has not left."""
    inputs: int = 0
    size_bytes: int = 0
    window: Alarm | None = None
    """What sends it; None where it does not wait."""
    call: asyncio.Task[list[Walked[EmbeddingAnswer]]] | None = None
    """None until it is sent."""
    deadline: Deadline | None = None
    """Of the call."""

    def has_room_for(self, caller: _Caller, inputs_max: int) -> bool:
        """Tell whether a caller's inputs may be added."""
        return (
            self.inputs + len(caller.request.inputs) <= inputs_max
            and self.size_bytes + caller.size_bytes <= BATCH_BYTES_MAX
        )

    def add(self, caller: _Caller) -> None:
        """Take a caller in."""
        self.callers.append(caller)
        self.inputs += len(caller.request.inputs)
        self.size_bytes += caller.size_bytes

    def take_out(self, caller: _Caller) -> None:
        """Let a caller go before the call."""
        self.callers.remove(caller)
        self.inputs -= len(caller.request.inputs)
        self.size_bytes -= caller.size_bytes


class EmbeddingBatcher:
    """Gathers the inputs of concurrent requests.

    A request is never spread over two calls, so that all of its vectors come from one model; one
    that is longer than a batch is sent alone.

    Args:
        ask: Walks the round of a batch.
        config: How much is gathered, and how long.
        later: Measures the time; for tests.
    """

    def __init__(
        self, ask: AskForVectors, config: EmbeddingsConfig, *, later: CallLater = call_later
    ) -> None:
        self._ask, self._config, self._later = ask, config, later
        self._waiting: dict[_Key, _Batch] = {}
        """The oldest first."""
        self._inputs_waiting = 0

    async def embed(
        self, request: EmbeddingRequest, scope: Scope, *, client: str | None, deadline: Deadline
    ) -> Walked[EmbeddingAnswer]:
        """Return the request's own part of what the round of its batch came to.

        What was counted of each call is shared among its callers by the length of their inputs,
        and the shares add up. Cancelled, the caller leaves; the last one to leave a batch takes
        its call along, and waits until that has ended.

        Args:
            request: The inputs, and what is asked of them.
            scope: What narrows it.
            client: Whose it is; requests of two clients never stand in one call.
            deadline: When the caller is told, whatever came of it.

        Raises:
            DeadlineExceeded: The caller's time is over, while others have more.
            LimitReached: As the round says.
        """
        caller = _Caller(request, deadline, asyncio.get_running_loop().create_future())
        batch = self._joined(_key(request, scope, client), caller)
        alarm = self._later(deadline.remaining(), partial(_out_of_time, caller, batch))
        try:
            outcome = await caller.reply
        finally:
            alarm.cancel()
            await self._left(caller, batch)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    def _joined(self, key: _Key, caller: _Caller) -> _Batch:
        """Return the batch that the caller now is in."""
        inputs, inputs_max = len(caller.request.inputs), self._config.items_max
        alone = _Batch(key)
        if self._config.window_seconds == 0 or not alone.has_room_for(caller, inputs_max - 1):
            alone.add(caller)
            self._send(alone)
            return alone
        while self._inputs_waiting + inputs > WAITING_INPUTS_MAX:
            self._send(next(iter(self._waiting.values())))
        batch = self._waiting.get(key)
        if batch is not None and not batch.has_room_for(caller, inputs_max):
            self._send(batch)
            batch = None
        if batch is None:
            batch = self._waiting[key] = alone
            batch.window = self._later(self._config.window_seconds, partial(self._send, batch))
        batch.add(caller)
        self._inputs_waiting += inputs
        if batch.inputs == inputs_max:
            self._send(batch)
        return batch

    def _send(self, batch: _Batch) -> None:
        """Make the call for those who still wait for it."""
        self._taken_down(batch)
        batch.callers = [caller for caller in batch.callers if not caller.reply.done()]
        if not batch.callers:
            return
        callers = tuple(batch.callers)
        batch.deadline = max((c.deadline for c in callers), key=lambda d: d.at_monotonic)
        batch.call = asyncio.create_task(self._asked(batch.key.scope, callers, batch.deadline))
        batch.call.add_done_callback(partial(_hand_out, callers))

    def _taken_down(self, batch: _Batch) -> None:
        """Let a batch wait no longer."""
        if batch.window is not None:
            batch.window.cancel()
            batch.window = None
            del self._waiting[batch.key]
            self._inputs_waiting -= batch.inputs

    async def _asked(
        self, scope: Scope, callers: Sequence[_Caller], deadline: Deadline
    ) -> list[Walked[EmbeddingAnswer]]:
        walked = await self._ask(_gathered(callers), scope, deadline=deadline)
        return parts_of(walked, [caller.request for caller in callers])

    async def _left(self, caller: _Caller, batch: _Batch) -> None:
        """Let a caller go; its inputs go on with those of others, or else with nobody's."""
        if caller not in batch.callers:
            return
        if batch.call is not None:
            batch.callers.remove(caller)
            if not batch.callers:
                batch.call.cancel()
                await asyncio.wait({batch.call})
            return
        self._inputs_waiting -= len(caller.request.inputs)
        batch.take_out(caller)
        if not batch.callers:
            self._taken_down(batch)


def _key(request: EmbeddingRequest, scope: Scope, client: str | None) -> _Key:
    return _Key(
        client=client,
        scope=replace(scope, deadline_seconds=None),
        model=request.model,
        members=tuple(sorted(request.members.items())),
        privacy_profile=request.privacy_profile,
        of_tokens=request.of_tokens,
    )


def _gathered(callers: Sequence[_Caller]) -> EmbeddingRequest:
    """Return the one request that stands for those of all callers."""
    first = callers[0].request
    if len(callers) == 1:
        return first
    return replace(
        first,
        inputs=tuple(text for caller in callers for text in caller.request.inputs),
        body_bytes=sum(caller.request.body_bytes for caller in callers),
        withheld=(),
    )


def _out_of_time(caller: _Caller, batch: _Batch) -> None:
    """Let a caller leave at its deadline, unless the call has no more time than it either.

    Then the call itself is about to end, and tells how.
    """
    if batch.deadline is None or caller.deadline.at_monotonic < batch.deadline.at_monotonic:
        caller.told(DeadlineExceeded("the time for the request is over", remedy="ask again"))


def _hand_out(
    callers: Sequence[_Caller], call: asyncio.Task[list[Walked[EmbeddingAnswer]]]
) -> None:
    """Tell each caller its part of what came of the call."""
    failure = asyncio.CancelledError() if call.cancelled() else call.exception()
    outcomes = [failure] * len(callers) if failure is not None else call.result()
    for caller, outcome in zip(callers, outcomes, strict=True):
        caller.told(outcome)
