"""From a client's model string to the targets of a plan; pure, and explained."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from casework.config.gateway_config import GatewayConfig
from casework.config.privacy_profile import PrivacyProfile
from casework.config.providers import IN_PROCESS_ADAPTERS, ProviderConfig
from casework.errors import ConfigurationError, InvalidRequest, PrivacyViolation
from casework.gateway.plan import RoundPolicy
from casework.gateway.scope import Scope

AUTO: Final = "auto"
"""The name that stands for every provider."""

NAME_CHARACTERS_MAX: Final = 512
"""Longest name that is looked at; every provider and model that can be configured fits in."""

KnownModels: TypeAlias = Mapping[str, Collection[str]]
"""The models that each provider was found to have, by provider id."""


class RouteReason(StrEnum):
    """By which rule a model string was understood; the first that fits."""

    ALIAS = "alias"
    """A public name of ``[models.aliases]``."""
    PROVIDER_AUTO = "provider_auto"
    """``provider/auto``: the provider's own model."""
    PROVIDER_MODEL = "provider_model"
    """``provider/model``: this very target."""
    BARE_MODEL = "bare_model"
    """A model's name that providers are known to have."""
    AUTO = "auto"
    """Every provider, in configured order."""


class RefusalReason(StrEnum):
    """Why a target is not asked."""

    DISABLED = "disabled"
    PRIVACY_PROFILE = "privacy_profile"
    NOT_ALLOWED = "model_not_allowed"
    """The client's key does not allow it."""
    NOT_CAPABLE = "not_capable"
    """Its adapter cannot do this kind of call."""
    MISSING_CREDENTIAL = "missing_credential"
    UNUSABLE = "unusable"
    """A file that its adapter needs is missing or no such file."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One target."""

    provider: ProviderConfig
    model: str
    """As the server knows it."""

    @property
    def name(self) -> str:
        """Return the name by which a client asks for this very target."""
        return f"{self.provider.id}/{self.model}"


@dataclass(frozen=True, slots=True)
class Refusal:
    """One target that is not asked, and why."""

    choice: Choice
    reason: RefusalReason


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What a model string came to."""

    asked_for: str
    choices: tuple[Choice, ...]
    """In the order in which they are asked; at least one, unless it was only surveyed."""
    policy: RoundPolicy
    reason: RouteReason
    refused: tuple[Refusal, ...]
    profile: PrivacyProfile
    """The narrowest of all that were named."""


def route(
    asked_for: str,
    config: GatewayConfig,
    *,
    scope: Scope,
    known_models: KnownModels,
    objection: Callable[[ProviderConfig], RefusalReason | None],
) -> Route:
    """Decide whom a model string stands for.

    Args:
        asked_for: As the client wrote it.
        config: Providers, aliases, and the ceiling of privacy.
        scope: What the client may reach.
        known_models: Models that providers were found to have.
        objection: Says why a provider cannot be asked although it is eligible, if so.

    Raises:
        PrivacyViolation: The targets lie beyond the profile (``privacy_profile``).
        InvalidRequest: Nobody has such a model (``model_not_found``), or the client's key does
            not allow it (``model_not_allowed``).
        ConfigurationError: Nobody who is left can be asked (``no_eligible_provider``).
    """
    found = survey(asked_for, config, scope=scope, known_models=known_models, objection=objection)
    if not found.choices:
        raise _nobody(found.refused, found.profile)
    return found


def survey(
    asked_for: str,
    config: GatewayConfig,
    *,
    scope: Scope,
    known_models: KnownModels,
    objection: Callable[[ProviderConfig], RefusalReason | None],
) -> Route:
    """Look whom a model string stands for, as :func:`route` does, be it nobody.

    Raises:
        InvalidRequest: Nobody has such a model (``model_not_found``).
    """
    reason, named = _named(asked_for, config, known_models)
    profile = config.privacy_profile.narrowed_by(scope.profile)
    choices: list[Choice] = []
    refused: list[Refusal] = []
    for choice in named:
        against = _against(choice, asked_for, profile=profile, scope=scope)
        against = against or objection(choice.provider)
        if against is None:
            choices.append(choice)
        else:
            refused.append(Refusal(choice, against))
    strict = reason in {RouteReason.PROVIDER_AUTO, RouteReason.PROVIDER_MODEL}
    return Route(
        asked_for=asked_for,
        choices=tuple(choices),
        policy=RoundPolicy.INTERACTIVE_STRICT if strict else RoundPolicy.INTERACTIVE_AUTO,
        reason=reason,
        refused=tuple(refused),
        profile=profile,
    )


def _named(
    asked_for: str, config: GatewayConfig, known_models: KnownModels
) -> tuple[RouteReason, tuple[Choice, ...]]:
    """Understand a model string; a whole name goes before a name with a provider's prefix."""
    alias = config.models.aliases.get(asked_for)
    if alias is not None:
        return RouteReason.ALIAS, tuple(_member(name, config) for name in alias)
    if asked_for == AUTO:
        return RouteReason.AUTO, tuple(Choice(p, p.model) for p in config.providers)
    bare = tuple(_having(asked_for, config, known_models))
    if bare:
        return RouteReason.BARE_MODEL, bare
    head, slash, model = asked_for.partition("/")
    provider = _provider(head, config) if slash and model else None
    if provider is None or len(asked_for) > NAME_CHARACTERS_MAX:
        raise InvalidRequest(
            "no provider is known to have this model",
            code="model_not_found",
            remedy="ask for a name that /v1/models lists, or for provider/model",
        )
    if model == AUTO:
        return RouteReason.PROVIDER_AUTO, (Choice(provider, provider.model),)
    return RouteReason.PROVIDER_MODEL, (Choice(provider, model),)


def _having(name: str, config: GatewayConfig, known_models: KnownModels) -> Iterator[Choice]:
    for provider in config.providers:
        if name == provider.model or name in known_models.get(provider.id, ()):
            yield Choice(provider, name)


def _provider(name: str, config: GatewayConfig) -> ProviderConfig | None:
    """Find a provider by a client's prefix, in which case does not count where it is unique."""
    exact = [p for p in config.providers if p.id == name]
    alike = exact or [p for p in config.providers if p.id.lower() == name.lower()]
    return alike[0] if len(alike) == 1 else None


def _member(name: str, config: GatewayConfig) -> Choice:
    """Return whom an alias names, which was checked when the settings were read."""
    head, slash, model = name.partition("/")
    provider = next(p for p in config.providers if p.id == head)
    return Choice(provider, model if slash else provider.model)


def _against(
    choice: Choice, asked_for: str, *, profile: PrivacyProfile, scope: Scope
) -> RefusalReason | None:
    provider = choice.provider
    if not provider.enabled:
        return RefusalReason.DISABLED
    if not profile.permits(provider.provider_class):
        return RefusalReason.PRIVACY_PROFILE
    if not scope.allows(asked_for, choice.name):
        return RefusalReason.NOT_ALLOWED
    if provider.adapter in IN_PROCESS_ADAPTERS and choice.model != provider.model:
        return RefusalReason.NOT_CAPABLE
    return None


def _nobody(refused: tuple[Refusal, ...], profile: PrivacyProfile) -> Exception:
    """Say why nobody is left, by the reason that the client can do most about."""
    reasons = {refusal.reason for refusal in refused}
    if RefusalReason.NOT_ALLOWED in reasons:
        return InvalidRequest(
            "the client key does not allow this model",
            code="model_not_allowed",
            remedy="ask for one that the key allows, see /v1/models",
        )
    if RefusalReason.PRIVACY_PROFILE in reasons:
        return PrivacyViolation(
            f"no provider of this model is eligible under the profile {profile.value}",
            remedy="ask for another model, or have the profile widened where it is configured",
        )
    if reasons - {RefusalReason.DISABLED} == {RefusalReason.NOT_CAPABLE}:
        return InvalidRequest(
            "no provider of this model can answer this kind of request",
            code="model_not_capable",
            remedy="ask for another model",
        )
    return ConfigurationError(
        "no provider of this model can be asked: "
        + ", ".join(sorted(reason.value for reason in reasons)),
        code="no_eligible_provider",
        remedy="see `casework explain`",
    )
