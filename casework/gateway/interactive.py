"""Plans of rounds for clients who wait: the same walk, with a deadline, keys and repeats."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from casework.config.gateway_config import GatewayConfig
from casework.config.providers import ProviderConfig
from casework.gateway.chat.answers import ChatAnswer, judge_chat
from casework.gateway.chat.calls import (
    ChatCall,
    ChatProvider,
    ChatReply,
    EmbeddingCall,
    EmbeddingProvider,
    EmbeddingReply,
)
from casework.gateway.chat.request import ChatRequest
from casework.gateway.chat.streams import ChatStream, opened_stream
from casework.gateway.clock import Clock, Deadline
from casework.gateway.embeddings.answers import EmbeddingAnswer, judge_embeddings
from casework.gateway.embeddings.request import EmbeddingRequest
from casework.gateway.messages import Credential
from casework.gateway.plan import Accepted, Ask, Plan, Repeats, Target
from casework.gateway.routing import Choice, Route
from casework.gateway.scope import Scope

_C = TypeVar("_C")
_R = TypeVar("_R")
_P = TypeVar("_P")

FIRST_CHUNK_SHARE: Final = 0.5
"""How much of the deadline a target may let pass before its first chunk, where others are left."""
FAIR_SHARE: Final = 0.4
"""How much of the configured deadline a call must have had, to be held against its server."""


@dataclass(frozen=True, slots=True)
class Desk:
    """What plans are made with: the settings, the time, chance, and the keys of providers."""

    config: GatewayConfig
    clock: Clock
    chance: Callable[[], float]
    """From 0 to 1."""
    keys_of: Callable[[ProviderConfig], tuple[Credential | None, ...]]
    """The provider's keys, in the order in which they are to be tried."""

    def deadline(self, scope: Scope) -> Deadline:
        """Return when a client with this scope is told, whatever came of it."""
        seconds = self.config.interactive.deadline_seconds
        if scope.deadline_seconds is not None:
            seconds = min(seconds, scope.deadline_seconds)
        return Deadline.after(seconds, self.clock)

    @property
    def fair_seconds(self) -> float:
        """Return how long a server must have been waited for, to be blamed for being late.

        A deadline that a client shortened, or that others have used up, says nothing of it.
        """
        return self.config.interactive.deadline_seconds * FAIR_SHARE

    def repeats(self) -> Repeats:
        """Return how often a target may be asked."""
        interactive = self.config.interactive
        return Repeats(
            calls_of_a_key_max=interactive.retries_max + 1,
            keys_max=interactive.keys_max,
            delay_seconds=lambda failed: 2.0**failed + self.chance(),
        )


def chat_plan(
    route: Route,
    request: ChatRequest,
    *,
    desk: Desk,
    deadline: Deadline,
    provider_of: Callable[[Choice], ChatProvider],
) -> Plan[ChatCall, ChatReply, ChatAnswer]:
    """Plan a round for a whole answer."""
    return Plan(
        targets=tuple(
            _targets(
                route,
                desk,
                call_of=lambda choice: ChatCall(model=choice.model, members=request.members),
                adapter_of=provider_of,
                ask_of=lambda adapter: adapter.chat,
                tokens_max=request.tokens_max,
            )
        ),
        policy=route.policy,
        judge=lambda reply: judge_chat(reply, request, created=int(desk.clock.now().timestamp())),
        request_bytes=request.body_bytes,
        deadline=deadline,
        fair_seconds=desk.fair_seconds,
        repeats=desk.repeats(),
    )


def stream_plan(
    route: Route,
    request: ChatRequest,
    *,
    desk: Desk,
    deadline: Deadline,
    provider_of: Callable[[Choice], ChatProvider],
) -> Plan[ChatCall, ChatStream, ChatStream]:
    """Plan a round for a stream, which ends with the first sound chunk."""

    def ask_of(adapter: ChatProvider) -> Ask[ChatCall, ChatStream]:
        return partial(
            opened_stream,
            adapter,
            request=request,
            idle_seconds=desk.config.interactive.idle_seconds,
            clock=desk.clock,
        )

    last = route.choices[-1].provider
    share = deadline.remaining() * FIRST_CHUNK_SHARE
    return Plan(
        targets=tuple(
            _targets(
                route,
                desk,
                call_of=lambda choice: ChatCall(
                    model=choice.model, members=request.members, stream=True
                ),
                adapter_of=provider_of,
                ask_of=ask_of,
                tokens_max=request.tokens_max,
                seconds_of=lambda provider: (
                    provider.timeout_seconds
                    if provider is last
                    else min(provider.timeout_seconds, share)
                ),
            )
        ),
        policy=route.policy,
        judge=lambda stream: Accepted(stream, None),
        request_bytes=request.body_bytes,
        deadline=deadline,
        fair_seconds=desk.fair_seconds,
        repeats=desk.repeats(),
        keep_slot=lambda stream, slot: stream.hold(slot.pop_all()),
        discard=ChatStream.close,
    )


def embedding_plan(
    route: Route,
    request: EmbeddingRequest,
    *,
    desk: Desk,
    deadline: Deadline,
    provider_of: Callable[[Choice], EmbeddingProvider],
) -> Plan[EmbeddingCall, EmbeddingReply, EmbeddingAnswer]:
    """Plan a round for the vectors of some texts."""
    return Plan(
        targets=tuple(
            _targets(
                route,
                desk,
                call_of=lambda choice: EmbeddingCall(
                    model=choice.model, inputs=request.inputs, members=request.members
                ),
                adapter_of=provider_of,
                ask_of=lambda adapter: adapter.embed,
                tokens_max=None,
            )
        ),
        policy=route.policy,
        judge=lambda reply: judge_embeddings(reply, len(request.inputs)),
        request_bytes=sum(map(len, request.inputs)),
        deadline=deadline,
        fair_seconds=desk.fair_seconds,
        repeats=desk.repeats(),
    )


def _own_seconds(provider: ProviderConfig) -> float:
    return provider.timeout_seconds


def _targets(
    route: Route,
    desk: Desk,
    *,
    call_of: Callable[[Choice], _C],
    adapter_of: Callable[[Choice], _P],
    ask_of: Callable[[_P], Ask[_C, _R]],
    tokens_max: int | None,
    seconds_of: Callable[[ProviderConfig], float] = _own_seconds,
) -> Iterator[Target[_C, _R]]:
    """Yield each choice once for each key of its provider."""
    for choice in route.choices:
        call, adapter = call_of(choice), adapter_of(choice)
        ask, keeps_deadlines = ask_of(adapter), getattr(adapter, "keeps_deadlines", False)
        for credential in desk.keys_of(choice.provider):
            yield Target(
                provider=choice.provider,
                model=choice.model,
                ask=ask,
                credential=credential,
                call=call,
                currency=desk.config.cost.currency,
                timeout_seconds=seconds_of(choice.provider),
                tokens_max=tokens_max,
                keeps_deadlines=keeps_deadlines,
            )
