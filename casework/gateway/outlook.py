"""What a request would do, and who is there to answer it; nobody is ever contacted for it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from casework.config.privacy_profile import PrivacyProfile
from casework.config.providers import ProviderConfig
from casework.errors import ConfigurationError
from casework.gateway.catalogue import Catalogue, Found
from casework.gateway.health import ProviderHealth
from casework.gateway.interactive import Desk
from casework.gateway.interactive_rounds import InteractiveRounds
from casework.gateway.model_names import NamedModel, exclusion_note, reachable_names
from casework.gateway.outcomes import Resting
from casework.gateway.privacy import EligibilityReason, judge
from casework.gateway.routing import Choice, RefusalReason, Route, RouteReason, survey
from casework.gateway.scope import Scope


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """How one provider stands towards a client."""

    provider: ProviderConfig
    against: RefusalReason | None
    """Why it is not asked; None where it may be."""
    rest: Resting | None
    """None where it may be asked now."""
    models_known: int
    discovery_failure: str | None
    """Code of why its models could not be found out when it was asked last."""


class Outlook:
    """Answers what rounds would do by the very rules that they follow.

    Args:
        desk: What their plans are made with.
        rounds: Who walks them.
        health: Who is at rest.
        catalogue: Which models there are.
    """

    def __init__(
        self,
        desk: Desk,
        rounds: InteractiveRounds,
        *,
        health: ProviderHealth,
        catalogue: Catalogue,
    ) -> None:
        self._desk = desk
        self._rounds = rounds
        self._health = health
        self._catalogue = catalogue

    @property
    def discovered(self) -> bool:
        """Tell whether every provider has been asked once for its models."""
        return self._catalogue.discovered

    @property
    def edition(self) -> int:
        """Return a number that is another one whenever :meth:`names` may say something else."""
        return self._catalogue.edition

    def route(self, asked_for: str, scope: Scope, *, embeddings: bool = False) -> Route:
        """Decide whom a model string stands for.

        Raises:
            CaseworkError: As :meth:`.InteractiveRounds.route` does.
        """
        return self._rounds.route(asked_for, scope, embeddings=embeddings)

    def survey(self, asked_for: str, scope: Scope, *, embeddings: bool = False) -> Route:
        """Look whom a model string stands for, be it nobody.

        Raises:
            InvalidRequest: Nobody has such a model (``model_not_found``).
        """
        return survey(
            asked_for,
            self._desk.config,
            scope=scope,
            known_models=self._catalogue.known_models,
            objection=self._rounds.embedding_objection if embeddings else self._rounds.objection,
        )

    def names(self, scope: Scope) -> list[NamedModel]:
        """List the names under which somebody would be asked."""
        return reachable_names(
            self._desk.config,
            scope=scope,
            known_models=self._catalogue.known_models,
            objection=self._rounds.objection,
        )

    def standings(self, scope: Scope) -> list[Standing]:
        """Tell of every provider, in configured order, how it stands."""
        return [
            self._standing(verdict.provider, _AGAINST.get(verdict.reason))
            for verdict in judge(self._desk.config, scope.profile)
        ]

    def profile(self, scope: Scope) -> PrivacyProfile:
        """Return the narrowest profile of configuration and scope."""
        return self._desk.config.privacy_profile.narrowed_by(scope.profile)

    def exclusion_note(self, scope: Scope) -> str | None:
        """Say in one line that the profile excludes providers; None where it excludes none."""
        return exclusion_note(self._desk.config, scope.profile)

    def is_denied(self, route: Route) -> bool:
        """Tell whether a name is understood only by its prefix, and its provider does not list it.

        Such a model is asked for all the same: servers load models that they do not list.
        """
        if route.reason is not RouteReason.PROVIDER_MODEL:
            return False
        choice = route.choices[0]
        found = self._catalogue.found.get(choice.provider.id)
        return found is not None and found.complete and choice.model not in found.models

    def rest_of(self, choice: Choice) -> Resting | None:
        """Return how long every key of a target is at rest; None where one is not."""
        try:
            keys = self._desk.keys_of(choice.provider)
        except ConfigurationError:
            return None
        rests = [
            self._health.resting(choice.provider.id, key.label if key else None, choice.model)
            for key in keys
        ]
        resting = [rest for rest in rests if rest is not None]
        if len(resting) < len(rests):
            return None
        return min(resting, key=lambda rest: rest.seconds)

    def calls_max(self, route: Route) -> int:
        """Return the most calls that a round of this route can make."""
        repeats = self._desk.repeats()
        keys: Counter[str] = Counter()
        for choice in route.choices:
            keys[choice.provider.id] += len(self._desk.keys_of(choice.provider))
        return sum(min(count, repeats.keys_max) for count in keys.values()) * (
            repeats.calls_of_a_key_max
        )

    def deadline_seconds(self, scope: Scope) -> float:
        """Return how long a request may take to its answer, or to the first chunk of it."""
        return self._desk.deadline(scope).remaining()

    def _standing(self, provider: ProviderConfig, against: RefusalReason | None) -> Standing:
        found = self._catalogue.found.get(provider.id, Found())
        return Standing(
            provider=provider,
            against=against or self._rounds.objection(provider),
            rest=self.rest_of(Choice(provider, provider.model)),
            models_known=len(found.models) + (provider.model not in found.models),
            discovery_failure=found.failure,
        )


_AGAINST: Final = {
    EligibilityReason.DISABLED: RefusalReason.DISABLED,
    EligibilityReason.PRIVACY_PROFILE: RefusalReason.PRIVACY_PROFILE,
}
