"""What is answered where nothing is served: a path that is none, a method that a path lacks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias

from casework.facade.errors import ErrorReply
from casework.facade.exchange import Exchange, Refused, Send
from casework.facade.keyless_endpoint import KeylessEndpoint
from casework.facade.presence import Receive

ASGI: TypeAlias = Callable[[Mapping[str, Any], Receive, Send], Awaitable[None]]

METHOD_NOT_ALLOWED: Final = 405


class ByMethod:
    """An ASGI application for one path: each method has its endpoint, and others are refused.

    HEAD is served like GET, the server leaves out the body. OPTIONS tells the methods, and nothing
    of other origins: no page of a browser may call from another one.

    Args:
        endpoints: By method.
    """

    def __init__(self, endpoints: Mapping[str, ASGI]) -> None:
        self._endpoints = dict(endpoints)
        if "GET" in endpoints:
            self._endpoints["HEAD"] = endpoints["GET"]
        self.methods = frozenset(endpoints)
        """Those with an endpoint of their own."""
        allowed = ", ".join(sorted({*self._endpoints, "OPTIONS"}))
        self._allow = [(b"allow", allowed.encode())]
        self._refusal = ErrorReply(
            METHOD_NOT_ALLOWED, f"this path allows {allowed}", "method_not_allowed"
        )
        self._other = KeylessEndpoint(self._refuse)

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request."""
        method = scope["method"]
        endpoint = self._endpoints.get(method, self._other)
        if method == "OPTIONS" and endpoint is self._other:
            await send({"type": "http.response.start", "status": 204, "headers": self._allow})
            await send({"type": "http.response.body", "body": b""})
            return
        await endpoint(scope, receive, send)

    async def _refuse(self, exchange: Exchange) -> None:
        body = self._refusal.body(exchange.request_id)
        await exchange.reply(METHOD_NOT_ALLOWED, body, self._allow)


def unknown_route(served: Iterable[str]) -> KeylessEndpoint:
    """Return what answers every path that is none, and names those that are.

    Args:
        served: Methods and paths.
    """
    reply = ErrorReply(
        404, f"nothing is served at this path; served are {', '.join(served)}", "unknown_url"
    )

    async def refuse(_: Exchange) -> None:
        raise Refused(reply)

    return KeylessEndpoint(refuse)
