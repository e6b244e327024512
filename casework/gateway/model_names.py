"""The names that a client may ask for, as :mod:`.routing` understands them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter

from casework.config.gateway_config import GatewayConfig
from casework.config.privacy_profile import PrivacyProfile
from casework.config.providers import ProviderConfig
from casework.gateway.privacy import EligibilityReason, judge
from casework.gateway.routing import AUTO, KnownModels, RefusalReason, survey
from casework.gateway.scope import Scope


@dataclass(frozen=True, slots=True)
class NamedModel:
    """One name."""

    id: str
    provider: str | None
    """Who answers; None where several may."""


def reachable_names(
    config: GatewayConfig,
    *,
    scope: Scope,
    known_models: KnownModels,
    objection: Callable[[ProviderConfig], RefusalReason | None],
) -> list[NamedModel]:
    """List each name under which somebody would be asked, once, in the order of the names.

    Names that work without standing here are ``provider/model`` with a model that the provider
    was not found to have.

    Args:
        config: Providers, aliases, and the ceiling of privacy.
        scope: What the client may reach.
        known_models: Models that providers were found to have.
        objection: Says why a provider cannot be asked although it is eligible, if so.
    """
    askable = {
        verdict.provider.id: verdict.provider
        for verdict in judge(config, scope.profile)
        if verdict.eligible and objection(verdict.provider) is None
    }
    names: dict[str, NamedModel | None] = {}
    """None for a name that is understood, and stands for nobody whom this client reaches."""
    for name in (*config.models.aliases, AUTO):
        found = survey(name, config, scope=scope, known_models=known_models, objection=objection)
        names[name] = _named(name, {choice.provider.id for choice in found.choices})
    for name, having in _by_model(config, known_models).items():
        if name not in names:
            allowed = (p for p in having if p in askable and scope.allows(name, f"{p}/{name}"))
            names[name] = _named(name, set(allowed))
    for provider in askable.values():
        for name, model in _prefixed(provider, known_models):
            if name not in names and scope.allows(name, f"{provider.id}/{model}"):
                names[name] = NamedModel(name, provider.id)
    return sorted((named for named in names.values() if named), key=attrgetter("id"))


def exclusion_note(config: GatewayConfig, profile: PrivacyProfile | None) -> str | None:
    """Say in one line that providers lie beyond the effective profile; None where none does."""
    verdicts = [v for v in judge(config, profile) if v.reason is not EligibilityReason.DISABLED]
    beyond = sum(v.reason is EligibilityReason.PRIVACY_PROFILE for v in verdicts)
    if not beyond:
        return None
    effective = config.privacy_profile.narrowed_by(profile)
    return (
        f"{beyond} of {len(verdicts)} providers "
        f"{'lies' if beyond == 1 else 'lie'} beyond the privacy profile {effective.value} "
        f"and {'is' if beyond == 1 else 'are'} not asked"
    )


def _named(name: str, providers: set[str]) -> NamedModel | None:
    if not providers:
        return None
    return NamedModel(name, providers.pop() if len(providers) == 1 else None)


def _by_model(config: GatewayConfig, known_models: KnownModels) -> dict[str, list[str]]:
    """Return the providers that have a model, by its bare name, eligible or not."""
    having: dict[str, list[str]] = {}
    for provider in config.providers:
        for model in {provider.model, *known_models.get(provider.id, ())}:
            having.setdefault(model, []).append(provider.id)
    return having


def _prefixed(provider: ProviderConfig, known_models: KnownModels) -> Iterator[tuple[str, str]]:
    """Yield the names with the provider's prefix, and the model that each stands for."""
    yield f"{provider.id}/{AUTO}", provider.model
    for model in {provider.model, *known_models.get(provider.id, ())} - {AUTO}:
        yield f"{provider.id}/{model}", model
