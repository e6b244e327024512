"""Routes that ask for no key: what they tell is the same for everybody, and holds nobody's data."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from casework.facade.endpoint import defect, new_request_id
from casework.facade.exchange import Exchange, Refused, Send
from casework.facade.presence import Receive

KeylessWork: TypeAlias = Callable[[Exchange], Awaitable[None]]
"""Replies, or raises Refused."""


class KeylessEndpoint:
    """An ASGI application for one such route; it reads no body and stands in no log.

    Args:
        work: What is done for a request.
    """

    def __init__(self, work: KeylessWork) -> None:
        self._work = work

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request."""
        exchange = Exchange(scope, receive, send, fallback_id=new_request_id())
        try:
            await self._work(exchange)
        except Refused as error:
            await exchange.refuse(error.reply)
        except Exception as error:  # noqa: BLE001 - the edge of the request's task
            await exchange.refuse(defect(error, exchange))
