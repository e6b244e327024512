"""The application: every route that is served, behind FastAPI."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from starlette.routing import Route

from casework.facade.chat_route import ChatRoute
from casework.facade.durable_calls import DurableCalls
from casework.facade.embeddings_route import EmbeddingsRoute
from casework.facade.endpoint import Door, Endpoint
from casework.facade.errors import DEFECT
from casework.facade.explain_route import ExplainRoute
from casework.facade.health_routes import HealthRoutes
from casework.facade.keyless_endpoint import KeylessEndpoint
from casework.facade.model_routes import ModelRoutes
from casework.facade.openapi_route import OpenAPIRoute
from casework.facade.provider_route import ProviderRoute
from casework.facade.token_count_route import TokenCountRoute
from casework.facade.unknown_routes import ASGI, ByMethod, unknown_route
from casework.gateway.llm_gateway import LLMGateway

_logger = logging.getLogger(__name__)

_SILENT: Final[Any] = {
    "auto_configure": False,
    "logs": False,
    "metrics": False,
    "operation_spans": False,
    "tracing": False,
}
"""FastAPI would send traces where variables of the environment point to."""


class _Application(FastAPI):
    """Goes straight to the endpoint of a plain path, without the layers in between.

    Hands no exception on to the server, which would log its words, maybe of a document.
    """

    plain: Mapping[str, ASGI] = MappingProxyType({})
    """Endpoints by path; other requests take the router's way."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve one request."""
        endpoint = self.plain.get(scope["path"]) if scope["type"] == "http" else None
        try:
            await (endpoint or super().__call__)(scope, receive, send)
        except Exception as error:  # noqa: BLE001 - the edge of the application
            kind = type(error).__name__
            _logger.error("facade defect", extra={"action": "facade_defect", "exception": kind})  # noqa: TRY400 - a traceback may hold the text of a document
            if endpoint is not None:
                with suppress(RuntimeError):  # a reply has begun
                    await _defect_reply()(scope, receive, send)


def create_app(gateway: LLMGateway, door: Door, *, durable: DurableCalls | None = None) -> FastAPI:
    """Make the application.

    Args:
        gateway: Who answers.
        door: What requests pass first.
        durable: Who keeps the calls that are to be kept; None refuses them.
    """
    served = _served(gateway, door, durable)
    names = [f"{method} {path}" for path, one in served.items() for method in sorted(one.methods)]
    app = _Application(
        openapi_url=None,
        redirect_slashes=False,
        telemetry=_SILENT,
        exception_handlers={Exception: _tell_defect},
    )
    # Plain ASGI endpoints: no model is built for a request, and no middleware of ours stands
    # between the server and a route, so that a client's leave is seen at once.
    app.router.routes[:] = [
        Route(path.replace("{id}", "{id:path}"), one) for path, one in served.items()
    ]
    # Not a route of its own: no pattern for paths fits one with a line feed in it.
    app.plain = {path: one for path, one in served.items() if "{" not in path}
    unknown: Any = unknown_route(names)
    app.router.default = unknown
    return app


def _served(gateway: LLMGateway, door: Door, durable: DurableCalls | None) -> dict[str, ByMethod]:
    """Return what is served, by path; what is asked most comes first."""
    config, outlook = gateway.config, gateway.outlook
    chat = ChatRoute(gateway, door.open_requests, durable)
    embeddings = EmbeddingsRoute(gateway, door.open_requests)
    models = ModelRoutes(outlook, gateway.clock)
    health = HealthRoutes(outlook, door.open_requests)
    works = {
        "/v1/chat/completions": ("POST", chat.serve),
        "/v1/embeddings": ("POST", embeddings.serve),
        "/v1/models": ("GET", models.several),
        "/v1/models/{id}": ("GET", models.one),
        "/v1/providers": ("GET", ProviderRoute(outlook).serve),
        "/v1/token-count": ("POST", TokenCountRoute(config.serve.request_bytes_max).serve),
        "/v1/explain": ("POST", ExplainRoute(outlook, config).serve),
    }
    keyless_works = {
        "/": health.about,
        "/healthz": health.alive,
        "/readyz": health.ready,
        "/openapi.json": OpenAPIRoute().describe,
    }
    endpoints: dict[str, tuple[str, ASGI]] = {
        path: (method, Endpoint(door, work, name=path)) for path, (method, work) in works.items()
    }
    endpoints |= {path: ("GET", KeylessEndpoint(work)) for path, work in keyless_works.items()}
    return {path: ByMethod({method: one}) for path, (method, one) in endpoints.items()}


async def _tell_defect(_request: Request, _error: Exception) -> Response:
    """Say no more than that something is wrong here."""
    return _defect_reply()


def _defect_reply() -> Response:
    return Response(DEFECT.body("unknown"), DEFECT.status, media_type="application/json")
