"""``GET /v1/models`` and ``GET /v1/models/{id}``: the names that this client may ask for."""

from __future__ import annotations

import json
from typing import Final

from casework.config.privacy_profile import PrivacyProfile
from casework.errors import InvalidRequest
from casework.facade.endpoint import Visit
from casework.facade.request_scope import scope_of
from casework.gateway.clock import Clock
from casework.gateway.outlook import Outlook
from casework.gateway.scope import Scope

PATH: Final = "/v1/models"

LISTS_MAX: Final = 16
"""Most lists that are kept as they were sent; clients differ by what their keys allow."""

SEVERAL: Final = "casework"
"""Owner of a name for which one of several providers answers."""


class ModelRoutes:
    """Lists models in OpenAI's shape.

    Args:
        outlook: Which names there are.
        clock: The time; all models are as old as the process.
    """

    def __init__(self, outlook: Outlook, clock: Clock) -> None:
        self._outlook = outlook
        self._created = int(clock.now().timestamp())
        self._lists: dict[tuple[PrivacyProfile, tuple[str, ...] | None], bytes] = {}
        self._edition = outlook.edition

    async def several(self, visit: Visit) -> None:
        """List every name once, and say in a line whom the profile excludes.

        Raises:
            InvalidRequest: A header cannot be read.
        """
        await visit.exchange.reply(200, self._list(scope_of(visit, None)))

    async def one(self, visit: Visit) -> None:
        """Tell of one name, which may hold slashes, colons and spaces.

        Raises:
            InvalidRequest: Nobody has it, or the client's key does not allow it.
            PrivacyViolation: It lies beyond the profile.
            ConfigurationError: Nobody who has it can be asked.
        """
        name = visit.exchange.path.removeprefix(f"{PATH}/")
        route = self._outlook.route(name, scope_of(visit, None))
        if self._outlook.is_denied(route):
            raise InvalidRequest(
                "the provider does not list this model",
                code="model_not_found",
                remedy=f"ask for a name that {PATH} lists",
            )
        providers = {choice.provider.id for choice in route.choices}
        owner = providers.pop() if len(providers) == 1 else None
        await visit.exchange.reply_json(self._model(name, owner))

    def _list(self, scope: Scope) -> bytes:
        if self._edition != self._outlook.edition:
            self._edition = self._outlook.edition
            self._lists.clear()
        reach = self._outlook.profile(scope), scope.models
        known = self._lists.get(reach)
        if known is None:
            if len(self._lists) >= LISTS_MAX:
                self._lists.clear()
            known = self._lists[reach] = self._listed(scope)
        return known

    def _listed(self, scope: Scope) -> bytes:
        models = [self._model(named.id, named.provider) for named in self._outlook.names(scope)]
        note = self._outlook.exclusion_note(scope)
        told = {"note": note} if note else {}
        return json.dumps({"object": "list", "data": models, **told}).encode()

    def _model(self, name: str, provider: str | None) -> dict[str, object]:
        return {
            "id": name,
            "object": "model",
            "created": self._created,
            "owned_by": provider or SEVERAL,
        }
