"""``GET /``, ``/healthz`` and ``/readyz``: what this is, whether it lives, whether it serves."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Final

from casework.errors import CaseworkError
from casework.facade.errors import SHUTTING_DOWN, ErrorReply
from casework.facade.exchange import Exchange, Refused
from casework.facade.open_requests import OpenRequests
from casework.gateway.outlook import Outlook
from casework.gateway.routing import AUTO
from casework.gateway.scope import UNBOUNDED

_FRESH: Final = [(b"cache-control", b"no-store")]


class HealthRoutes:
    """Tells whoever watches over the process how it is; nothing of clients or providers.

    Args:
        outlook: Who could be asked.
        open_requests: Whether the service is ending.
    """

    def __init__(self, outlook: Outlook, open_requests: OpenRequests) -> None:
        self._outlook = outlook
        self._open_requests = open_requests
        self._about = {
            "name": "casework",
            "version": _version(),
            "links": {
                "api": "/v1",
                "description": "/openapi.json",
                "health": "/healthz",
                "readiness": "/readyz",
            },
        }

    async def about(self, exchange: Exchange) -> None:
        """Say what this is."""
        await exchange.reply_json(self._about)

    async def alive(self, exchange: Exchange) -> None:
        """Say that the process lives."""
        await exchange.reply_json({"status": "ok"}, _FRESH)

    async def ready(self, exchange: Exchange) -> None:
        """Say whether requests are served, and whether the models of all providers are known yet.

        Providers that are at rest count as ready: that passes, and clients are told when.

        Raises:
            Refused: The service is ending, or as configured nobody can be asked.
        """
        if self._open_requests.shutting_down:
            raise Refused(SHUTTING_DOWN)
        try:
            self._outlook.route(AUTO, UNBOUNDED)
        except CaseworkError as error:
            reply = ErrorReply(503, "nobody can be asked, as configured", error.code)
            raise Refused(reply) from None
        discovery = "done" if self._outlook.discovered else "running"
        await exchange.reply_json({"status": "ready", "discovery": discovery}, _FRESH)


def _version() -> str:
    try:
        return version("casework")
    except PackageNotFoundError:
        return "unknown"
