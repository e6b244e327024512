"""``GET /v1/providers``: who may answer this client, and who is at rest."""

from __future__ import annotations

import math

from casework.facade.endpoint import Visit
from casework.facade.request_scope import scope_of
from casework.gateway.outcomes import Resting
from casework.gateway.outlook import Outlook, Standing


class ProviderRoute:
    """Lists the providers without addresses and keys.

    Args:
        outlook: How they stand.
    """

    def __init__(self, outlook: Outlook) -> None:
        self._outlook = outlook

    async def serve(self, visit: Visit) -> None:
        """List them in the order in which they are asked.

        Raises:
            InvalidRequest: A header cannot be read.
        """
        scope = scope_of(visit, None)
        providers = [_told(standing) for standing in self._outlook.standings(scope)]
        profile = self._outlook.profile(scope).value
        await visit.exchange.reply_json(
            {"object": "list", "privacy_profile": profile, "data": providers}
        )


def _told(standing: Standing) -> dict[str, object]:
    provider, against = standing.provider, standing.against
    return {
        "id": provider.id,
        "object": "provider",
        "class": provider.provider_class.value,
        "adapter": provider.adapter,
        "model": provider.model,
        "eligible": against is None,
        "reason": "eligible" if against is None else against.value,
        "state": "ok" if standing.rest is None else "resting",
        "rest": rest_told(standing.rest),
        "models_known": standing.models_known,
        "discovery_failure": standing.discovery_failure,
    }


def rest_told(rest: Resting | None) -> dict[str, object] | None:
    """Return for how long somebody rests, and after which failure."""
    if rest is None:
        return None
    return {"seconds": math.ceil(rest.seconds), "kind": rest.kind.value}
