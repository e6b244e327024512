"""Rounds for clients who wait: understand the name they ask for, plan, walk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from casework.config.providers import ProviderConfig
from casework.errors import ConfigurationError
from casework.gateway.call_gate import CallGate
from casework.gateway.chat.answers import ChatAnswer
from casework.gateway.chat.calls import ChatCall, ChatProvider, ChatReply, EmbeddingProvider
from casework.gateway.chat.from_text import TextChat
from casework.gateway.chat.request import ChatRequest
from casework.gateway.chat.streams import ChatStream
from casework.gateway.clock import Deadline
from casework.gateway.embeddings.answers import EmbeddingAnswer
from casework.gateway.embeddings.batcher import EmbeddingBatcher
from casework.gateway.embeddings.request import EmbeddingRequest
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.health import ProviderHealth
from casework.gateway.interactive import Desk, chat_plan, embedding_plan, stream_plan
from casework.gateway.outcomes import Served, Walked
from casework.gateway.plan import Plan
from casework.gateway.providers.provider import LLMProvider
from casework.gateway.round import walk_round
from casework.gateway.routing import Choice, KnownModels, RefusalReason, Route, route
from casework.gateway.scope import Scope

ROUTES_MAX: Final = 1000
"""Most names kept understood."""


class InteractiveRounds:
    """Answers chat and embedding requests by rounds, each within one deadline.

    Args:
        desk: What plans are made with.
        adapter_of: Gives the adapter of a provider.
        gate: What lets calls through.
        health: Who is at rest.
    """

    def __init__(
        self,
        desk: Desk,
        adapter_of: Callable[[ProviderConfig], LLMProvider],
        *,
        gate: CallGate,
        health: ProviderHealth,
    ) -> None:
        self._desk = desk
        self._adapter_of = adapter_of
        self._gate = gate
        self._health = health
        self._known_models: KnownModels = {}
        self._routes: dict[tuple[str, Scope, bool], Route] = {}
        self._bridges: dict[str, ChatProvider] = {}
        self._batcher = EmbeddingBatcher(self._embed_all, desk.config.embeddings)

    def know(self, models: KnownModels) -> None:
        """Take over which models providers were found to have, by provider id."""
        self._known_models = models
        self._routes.clear()

    def route(self, asked_for: str, scope: Scope, *, embeddings: bool = False) -> Route:
        """Decide whom a model string stands for; contacts nobody.

        Raises:
            PrivacyViolation: See :func:`casework.gateway.routing.route`.
            InvalidRequest: The same.
            ConfigurationError: The same.
        """
        if scope.deadline_seconds is not None:
            scope = replace(scope, deadline_seconds=None)  # says nothing of whom
        key = (asked_for, scope, embeddings)
        known = self._routes.get(key)
        if known is None:
            known = route(
                asked_for,
                self._desk.config,
                scope=scope,
                known_models=self._known_models,
                objection=self.embedding_objection if embeddings else self.objection,
            )
            if len(self._routes) >= ROUTES_MAX:
                self._routes.clear()
            self._routes[key] = known
        return known

    def chat_plan(
        self, request: ChatRequest, scope: Scope
    ) -> Plan[ChatCall, ChatReply, ChatAnswer]:
        """Plan a round for a whole answer; contacts nobody.

        Raises:
            CaseworkError: As :meth:`route` does.
        """
        return chat_plan(
            self.route(request.model, scope),
            request,
            desk=self._desk,
            deadline=self._desk.deadline(scope),
            provider_of=self._chat_provider,
        )

    async def complete(self, request: ChatRequest, scope: Scope) -> Walked[ChatAnswer]:
        """Walk a round for a whole answer.

        Raises:
            CaseworkError: As :meth:`route` does.
            LimitReached: Every target is at a limit of calls; none was asked.
        """
        return await self.walk(self.chat_plan(request, scope))

    async def walk(self, plan: Plan[ChatCall, ChatReply, ChatAnswer]) -> Walked[ChatAnswer]:
        """Walk a round that :meth:`chat_plan` has planned.

        Raises:
            LimitReached: Every target is at a limit of calls; none was asked.
        """
        return await walk_round(plan, self._desk.clock, gate=self._gate, health=self._health)

    async def stream(self, request: ChatRequest, scope: Scope) -> Walked[ChatStream]:
        """Walk a round for a stream; its answer is to be closed by whoever gets it.

        Raises:
            CaseworkError: As :meth:`route` does.
            LimitReached: Every target is at a limit of calls; none was asked.
        """
        plan = stream_plan(
            self.route(request.model, scope),
            request,
            desk=self._desk,
            deadline=self._desk.deadline(scope),
            provider_of=self._chat_provider,
        )
        return await walk_round(plan, self._desk.clock, gate=self._gate, health=self._health)

    def ended(self, served: Served, kind: FailureKind | None) -> None:
        """Take note of how a stream ended: by itself, or broken off as by any failure.

        To be told of every stream but those that their client left.
        """
        target = served.provider, served.key_label, served.model
        if kind is None:
            self._health.succeeded(*target)
        else:
            self._health.failed(*target, failure=ProviderFailure(kind))

    async def embed(
        self, request: EmbeddingRequest, scope: Scope, *, client: str | None = None
    ) -> Walked[EmbeddingAnswer]:
        """Return vectors, gathered into one call with what others ask for at the same time.

        Args:
            request: The texts.
            scope: What narrows it.
            client: Whose it is; nothing is gathered over two clients.

        Raises:
            CaseworkError: As :meth:`route` does.
            DeadlineExceeded: The time is over.
            LimitReached: Every target is at a limit of calls; none was asked.
        """
        self.route(request.model, scope, embeddings=True)
        deadline = self._desk.deadline(scope)
        return await self._batcher.embed(request, scope, client=client, deadline=deadline)

    async def _embed_all(
        self, request: EmbeddingRequest, scope: Scope, /, *, deadline: Deadline
    ) -> Walked[EmbeddingAnswer]:
        plan = embedding_plan(
            self.route(request.model, scope, embeddings=True),
            request,
            desk=self._desk,
            deadline=deadline,
            provider_of=self._embedder,
        )
        return await walk_round(plan, self._desk.clock, gate=self._gate, health=self._health)

    def _chat_provider(self, choice: Choice) -> ChatProvider:
        """Return the adapter of a target, behind a bridge where it does not speak chat."""
        known = self._bridges.get(choice.provider.id)
        if known is None:
            adapter = self._adapter_of(choice.provider)
            known = adapter if isinstance(adapter, ChatProvider) else TextChat(adapter)
            self._bridges[choice.provider.id] = known
        return known

    def _embedder(self, choice: Choice) -> EmbeddingProvider:
        adapter = self._adapter_of(choice.provider)
        assert isinstance(adapter, EmbeddingProvider), "the route holds none that cannot embed"
        return adapter

    def complaint(self, provider: ProviderConfig) -> ConfigurationError | None:
        """Return what keeps a provider from being asked as it is configured, if anything does."""
        try:
            self._desk.keys_of(provider)
            self._adapter_of(provider)
        except ConfigurationError as error:
            return error
        return None

    def objection(self, provider: ProviderConfig) -> RefusalReason | None:
        """Say why a provider cannot be asked although it is eligible, if so."""
        complaint = self.complaint(provider)
        if complaint is None:
            return None
        if complaint.code == RefusalReason.MISSING_CREDENTIAL:
            return RefusalReason.MISSING_CREDENTIAL
        return RefusalReason.UNUSABLE

    def embedding_objection(self, provider: ProviderConfig) -> RefusalReason | None:
        """Say why a provider cannot be asked for vectors although it is eligible, if so."""
        against = self.objection(provider)
        if against is None and not isinstance(self._adapter_of(provider), EmbeddingProvider):
            return RefusalReason.NOT_CAPABLE
        return against
