"""The face of the gateway: plan a round, explain it, walk it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from random import random
from types import TracebackType
from typing import Final, Self, TypeVar

from casework.config.gateway_config import GatewayConfig
from casework.config.privacy_profile import PrivacyProfile
from casework.config.providers import ProviderConfig
from casework.errors import ConfigurationError, InvalidRequest
from casework.gateway.call_gate import CallGate, OpenGate
from casework.gateway.catalogue import Catalogue
from casework.gateway.chat.answers import ChatAnswer
from casework.gateway.chat.request import ChatRequest
from casework.gateway.chat.streams import ChatStream
from casework.gateway.clock import Clock, SystemClock
from casework.gateway.credentials import credentials_for
from casework.gateway.embeddings.answers import EmbeddingAnswer
from casework.gateway.embeddings.request import EmbeddingRequest
from casework.gateway.health import ProviderHealth
from casework.gateway.interactive import Desk
from casework.gateway.interactive_rounds import InteractiveRounds
from casework.gateway.messages import (
    PARAMETERS,
    Cost,
    Credential,
    LLMRequest,
    OnInvalidOutput,
    ProviderCall,
    ProviderReply,
    Usage,
    bytes_of,
)
from casework.gateway.outcomes import (
    Answered,
    Attempt,
    RoundOutcome,
    RoundSucceeded,
    Served,
    Walked,
)
from casework.gateway.outlook import Outlook
from casework.gateway.plan import (
    Accepted,
    CasePlan,
    OperationPlan,
    Rejected,
    RoundPolicy,
    Target,
    Verdict,
)
from casework.gateway.prices import cost_of_call
from casework.gateway.privacy import Eligibility, judge
from casework.gateway.providers import BUILT_IN
from casework.gateway.providers.provider import LLMProvider, ProviderFactory
from casework.gateway.reask import asked_again
from casework.gateway.round import walk_round
from casework.gateway.scope import Scope
from casework.gateway.validation import AcceptedAnswer, CompiledSchema, compile_schema, judge_reply
from casework.strict_json import JSON, JSONObject, sha256_hex

_Number = TypeVar("_Number", int, float)

ANSWERING_FILES: Final = frozenset({"rules", "llamacpp"})
"""Adapters whose file decides the answer, so that its digest belongs to the configuration."""


class LLMGateway:
    """Ask the configured providers, in order, under a privacy profile.

    The gateway keeps no state of a request. It may be used from several event loops, one after
    another; ``aclose`` lets go of what belongs to the running one.

    Args:
        config: The providers and settings.
        adapters: Factories for adapters that Casework does not ship, by adapter name.
        clock: The time; another one in tests.
        environ: Where ``api_key_env`` names are looked up; the process environment by default.
        gate: What lets calls through; without one there are no limits.
        chance: From 0 to 1, to spread repeats.

    Raises:
        ConfigurationError: An enabled provider names an adapter that nobody registered.
    """

    def __init__(
        self,
        config: GatewayConfig,
        *,
        adapters: Mapping[str, ProviderFactory] | None = None,
        clock: Clock | None = None,
        environ: Mapping[str, str] | None = None,
        gate: CallGate | None = None,
        chance: Callable[[], float] = random,
    ) -> None:
        self.config = config
        self.clock: Clock = clock or SystemClock()
        self.health = ProviderHealth(config.breaker, self.clock)
        self._environ = os.environ if environ is None else environ
        self._gate: CallGate = gate or OpenGate()
        self._factories = {**BUILT_IN, **(adapters or {})}
        self._adapters: dict[str, LLMProvider] = {}
        self._file_digests: dict[str, str] = {}
        self._turns: dict[str, int] = {}
        self.interactive = InteractiveRounds(
            Desk(config, self.clock, chance, self._keys_in_turn),
            self._adapter,
            gate=self._gate,
            health=self.health,
        )
        """Rounds for clients who wait."""
        self.catalogue = Catalogue(config, self.clock, adapter_of=self._adapter, keys_of=self._keys)
        """Which models the providers have."""
        self.outlook = Outlook(
            Desk(config, self.clock, chance, self._keys),
            self.interactive,
            health=self.health,
            catalogue=self.catalogue,
        )
        """What rounds would do."""
        for provider in config.enabled_providers:
            if provider.adapter not in self._factories:
                raise ConfigurationError(
                    f"provider {provider.id!r} names the unknown adapter {provider.adapter!r}",
                    code="unknown_adapter",
                    remedy=f"use one of {', '.join(sorted(self._factories))}, or register it",
                )

    def explain(self, profile: PrivacyProfile | None = None) -> tuple[Eligibility, ...]:
        """List every provider in order with the verdict that a real call would act on.

        Contacts nobody and reads no key.
        """
        return judge(self.config, profile)

    def plan(self, request: LLMRequest, policy: RoundPolicy = RoundPolicy.DURABLE) -> CasePlan:
        """Decide whom a round for this request would ask, without contacting anybody.

        Raises:
            ConfigurationError: No provider is eligible, or a needed key is missing.
            InvalidRequest: The parameters or the output schema are not allowed.
        """
        _check_parameters(request)
        schema = compile_schema(request.output_schema, engine=self.config.validation.engine)
        eligible = self._eligible(request)
        credentials = {p.id: self._keys_in_turn(p)[0] for p in eligible}
        limits, retry = request.limits, self.config.retry
        return OperationPlan(
            targets=tuple(self._target(p, credentials[p.id], request) for p in eligible),
            policy=policy,
            judge=lambda reply: _verdict(reply, schema),
            asked_again=_asked_again,
            validator=schema.validator,
            request_bytes=bytes_of(request.messages),
            configuration=self._configuration(eligible, request),
            rounds_max=_given(limits.rounds_max, retry.rounds_max),
            retry_delay_seconds=_given(
                limits.retry_delay_seconds, float(retry.retry_delay_seconds)
            ),
            on_invalid_output=limits.on_invalid_output,
        )

    def configuration(self, request: LLMRequest) -> JSONObject:
        """Return the configuration that a round for this request is planned under.

        Reads no key, so that stored results can be compared with it anywhere.

        Raises:
            ConfigurationError: No provider is eligible.
        """
        return self._configuration(self._eligible(request), request)

    async def complete_round(
        self,
        request: LLMRequest,
        policy: RoundPolicy = RoundPolicy.DURABLE,
        *,
        plan: CasePlan | None = None,
    ) -> RoundOutcome:
        """Walk one round for a request and return what it came to.

        Args:
            request: What to ask.
            policy: What a failure means for the walk.
            plan: A plan already made by :meth:`plan` for the same request and policy.

        Raises:
            ConfigurationError: See :meth:`plan`.
            InvalidRequest: See :meth:`plan`.
            LimitReached: Every target is at a limit of calls; none was asked.
        """
        chosen = plan or self.plan(request, policy)
        walked = await walk_round(chosen, self.clock, gate=self._gate, health=self.health)
        if not isinstance(walked, Answered):
            return walked
        return RoundSucceeded(
            started_at=walked.started_at,
            elapsed_ms=walked.elapsed_ms,
            attempts=walked.attempts,
            served=walked.served,
            output=walked.answer.output,
            surrogates_replaced=walked.answer.surrogates_replaced,
            validator=chosen.validator,
        )

    async def complete(self, request: ChatRequest, scope: Scope) -> Walked[ChatAnswer]:
        """Walk one round for a client who waits; see :meth:`InteractiveRounds.complete`."""
        return await self.interactive.complete(request, scope)

    async def stream(self, request: ChatRequest, scope: Scope) -> Walked[ChatStream]:
        """Walk one round for a stream; see :meth:`InteractiveRounds.stream`."""
        return await self.interactive.stream(request, scope)

    async def embed(
        self, request: EmbeddingRequest, scope: Scope, *, client: str | None = None
    ) -> Walked[EmbeddingAnswer]:
        """Return vectors; see :meth:`InteractiveRounds.embed`."""
        return await self.interactive.embed(request, scope, client=client)

    def cost(self, served: Served, usage: Usage | None) -> Cost | None:
        """Return what a call cost whose usage was told after its round, as a stream's is."""
        provider = next(p for p in self.config.providers if p.id == served.provider)
        return cost_of_call(usage, provider, model=served.model, currency=self.config.cost.currency)

    async def maintain(self) -> None:
        """Ask the providers which models they have, once; whoever does not say is left as known."""
        await self.catalogue.discover(self.interactive.know)

    def effective_profile(self, request: LLMRequest) -> PrivacyProfile:
        """Return the narrower of the configured profile and the request's own."""
        return self.config.privacy_profile.narrowed_by(request.privacy_profile)

    async def aclose(self) -> None:
        """Let go of every connection and process that the running loop opened."""
        for adapter in self._adapters.values():
            await adapter.aclose()

    async def __aenter__(self) -> Self:
        """Return the gateway itself."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let go, as :meth:`aclose` does."""
        await self.aclose()

    def _eligible(self, request: LLMRequest) -> tuple[ProviderConfig, ...]:
        profile = self.effective_profile(request)
        eligible = tuple(v.provider for v in judge(self.config, profile) if v.eligible)
        if not eligible:
            raise ConfigurationError(
                f"no enabled provider is eligible under the profile {profile.value}",
                code="no_eligible_provider",
                remedy="see `casework explain`",
            )
        return eligible

    def _target(
        self, provider: ProviderConfig, credential: Credential | None, request: LLMRequest
    ) -> Target[ProviderCall, ProviderReply]:
        call = ProviderCall(
            model=provider.model,
            messages=request.messages,
            output_schema=request.output_schema,
            schema_name=request.schema_name,
            parameters=request.parameters,
            data=request.data,
        )
        tokens_max = request.parameters.get("max_tokens")
        return Target(
            provider=provider,
            model=provider.model,
            ask=self._adapter(provider).complete,
            credential=credential,
            call=call,
            currency=self.config.cost.currency,
            timeout_seconds=_given(request.limits.timeout_seconds, float(provider.timeout_seconds)),
            tokens_max=tokens_max if isinstance(tokens_max, int) else None,
        )

    def _adapter(self, provider: ProviderConfig) -> LLMProvider:
        adapter = self._adapters.get(provider.id)
        if adapter is None:
            adapter = self._adapters[provider.id] = self._factories[provider.adapter](provider)
        return adapter

    def _keys(self, provider: ProviderConfig) -> tuple[Credential | None, ...]:
        """Return the provider's keys in configured order; one None where it needs none."""
        return credentials_for(provider, self._environ) or (None,)

    def _keys_in_turn(self, provider: ProviderConfig) -> tuple[Credential | None, ...]:
        """Return the provider's keys, each time another one first, so that all are used alike."""
        if not provider.api_key_env:
            return (None,)
        keys = self._keys(provider)
        turn = self._turns.get(provider.id, 0) % len(keys)
        self._turns[provider.id] = turn + 1
        return keys[turn:] + keys[:turn]

    def _configuration(
        self, eligible: tuple[ProviderConfig, ...], request: LLMRequest
    ) -> JSONObject:
        retry, limits = self.config.retry, request.limits
        providers: list[JSON] = [
            self._describe(provider, limits.timeout_seconds) for provider in eligible
        ]
        configuration: JSONObject = {
            "providers": providers,
            "privacy_profile": self.effective_profile(request).value,
            "validation_engine": self.config.validation.engine,
            "max_attempts": _given(limits.rounds_max, retry.rounds_max),
            "retry_delay_seconds": float(
                _given(limits.retry_delay_seconds, retry.retry_delay_seconds)
            ),
            "blocked_retry_seconds": float(retry.blocked_retry_seconds),
        }
        if limits.on_invalid_output is not OnInvalidOutput.ERROR:
            configuration["on_invalid_output"] = limits.on_invalid_output.value
        return configuration

    def _describe(self, provider: ProviderConfig, timeout_seconds: float | None) -> JSONObject:
        rates = provider.rates
        described: JSONObject = {
            "id": provider.id,
            "adapter": provider.adapter,
            "model": provider.model,
            "url_sha256": sha256_hex(provider.base_url.encode()) if provider.base_url else None,
            "class": provider.provider_class.value,
            "response_format": provider.response_format,
            "token_parameter": provider.token_parameter,
            "max_request_bytes": provider.request_bytes_max,
            "max_response_bytes": provider.response_bytes_max,
            "timeout_seconds": float(_given(timeout_seconds, provider.timeout_seconds)),
            "rates": None
            if rates is None
            else {
                "input_per_million": _plain(rates.input_per_million),
                "output_per_million": _plain(rates.output_per_million),
            },
            "cost_currency": (rates and rates.currency) or self.config.cost.currency,
        }
        if provider.adapter in ANSWERING_FILES and provider.file is not None:
            described["file_sha256"] = self._file_digest(provider)
        return described

    def _file_digest(self, provider: ProviderConfig) -> str:
        known = self._file_digests.get(provider.id)
        if known is None:
            try:
                content = provider.file.read_bytes() if provider.file else b""
            except OSError as error:
                raise ConfigurationError(
                    f"the file of provider {provider.id!r} cannot be read",
                    code="provider_file_unreadable",
                    remedy="check the provider's `file` setting",
                ) from error
            known = self._file_digests[provider.id] = sha256_hex(content)
        return known


def _verdict(reply: ProviderReply, schema: CompiledSchema) -> Verdict[AcceptedAnswer]:
    judged = judge_reply(reply, schema)
    if isinstance(judged, AcceptedAnswer):
        return Accepted(judged, reply.usage)
    return Rejected(judged.kind, reply.usage, judged.schema_pointer)


def _asked_again(call: ProviderCall, attempt: Attempt) -> tuple[ProviderCall, int]:
    messages = asked_again(
        call.messages,
        attempt.kind,
        schema_pointer=attempt.schema_pointer,
        schema=call.output_schema,
    )
    return replace(call, messages=messages), bytes_of(messages)


def _given(own: _Number | None, configured: _Number) -> _Number:
    """Return a request's own limit, or else the configured one."""
    return configured if own is None else own


def _plain(amount: Decimal) -> str:
    """Write equal amounts in one way, so that 0.15 and 0.150 are the same price."""
    return format(amount.normalize(), "f")


def _check_parameters(request: LLMRequest) -> None:
    for name in request.parameters:
        if name not in PARAMETERS:
            raise InvalidRequest(
                f"the parameter {name!r} is not one that a request may set",
                code="parameter_not_allowed",
                remedy=f"use only {', '.join(sorted(PARAMETERS))}",
            )
