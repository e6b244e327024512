"""What every route has in common: who asks, whether there is room, and one place for errors."""

from __future__ import annotations

import asyncio
import itertools
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Final, TypeAlias

from casework.errors import CaseworkError
from casework.facade.client_keys import ANONYMOUS, Client, ClientKeys
from casework.facade.client_limits import ClientLimits, OverLimit
from casework.facade.errors import (
    BUSY,
    CROSS_ORIGIN,
    DEFECT,
    FOREIGN_HOST,
    SHUTTING_DOWN,
    UNAUTHORISED,
    ErrorReply,
    over_limit,
    reply_to_error,
)
from casework.facade.exchange import ClientGone, Exchange, Refused, Send
from casework.facade.open_requests import OpenRequests
from casework.facade.presence import Ended, Presence, Receive
from casework.facade.request_line import RequestLine
from casework.facade.told import Told
from casework.gateway.clock import Clock

_logger = logging.getLogger(__name__)

CLIENT_LEFT_STATUS: Final = 499
"""Stands in the request log where nobody was left to reply to."""
LAST_WORD_SECONDS: Final = 10.0
"""How long a client may take to take the error that ends its stream."""

Journal: TypeAlias = Callable[[RequestLine], None]
"""Takes note of a request at its end; neither waits nor fails."""


@dataclass(frozen=True, slots=True)
class Door:
    """What requests pass before their route looks at them."""

    keys: ClientKeys
    limits: ClientLimits
    open_requests: OpenRequests
    journal: Journal
    clock: Clock


@dataclass(slots=True)
class Visit:
    """One request on its route: the exchange, the client, and what was found out."""

    exchange: Exchange
    client: Client
    told: Told
    """For the request's line in the log."""
    presence: Presence | None = None

    def watched_by(self, open_requests: OpenRequests) -> None:
        """End the work from now on when the client leaves, or the service ends."""
        self.presence = Presence(self.exchange.receive)
        open_requests.add(self.presence)


Work: TypeAlias = Callable[[Visit], Awaitable[None]]
"""Serves one visit: replies, or raises what the endpoint turns into a reply."""


class Endpoint:
    """An ASGI application for one route.

    Args:
        door: What requests pass first.
        work: What is done for those that pass.
        name: The route, for the request log; empty where requests do not stand in it.
    """

    def __init__(self, door: Door, work: Work, *, name: str = "") -> None:
        self._door = door
        self._work = work
        self._name = name

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request."""
        door = self._door
        at, begun = door.clock.now(), door.clock.monotonic()
        exchange = Exchange(scope, receive, send, fallback_id=new_request_id())
        told = Told()
        refusal: ErrorReply | None = None
        try:
            refusal = await self._admitted(exchange, told)
            if refusal is not None:
                await _tell(exchange, refusal)
        except ClientGone as error:
            told.gone = error.why
            if error.why is Ended.CLIENT_STALLED:
                exchange.hang_up()
                await asyncio.sleep(0)  # the server is to know before it is told that all is done
        finally:
            if self._name:
                elapsed = door.clock.monotonic() - begun
                door.journal(self._line(exchange, told, refusal, at=at, elapsed_seconds=elapsed))

    async def _admitted(self, exchange: Exchange, told: Told) -> ErrorReply | None:
        """Let the request in, if there is room and its client is known; return a refusal."""
        door = self._door
        if door.open_requests.shutting_down:
            return SHUTTING_DOWN
        if not door.open_requests.enter():
            return BUSY
        try:
            client = self._client(exchange)
            if isinstance(client, ErrorReply):
                return client
            told.client = client.label
            entered = door.limits.enter(client)
            if isinstance(entered, OverLimit):
                return over_limit(entered.seconds)
            try:
                return await self._served(Visit(exchange, client, told))
            finally:
                entered.leave()
        finally:
            door.open_requests.leave()

    def _client(self, exchange: Exchange) -> Client | ErrorReply:
        """Return who asks, or why nobody may."""
        headers = exchange.headers
        try:
            client = self._door.keys.identify(headers.get(b"authorization"))
        except CaseworkError as error:
            return reply_to_error(error)
        if client is None:
            return UNAUTHORISED
        if client is ANONYMOUS:
            if exchange.method == "POST" and _is_from_a_page(headers):
                return CROSS_ORIGIN
            if _may_be_anybodys(headers.get(b"host", b"")):
                return FOREIGN_HOST
        return client

    async def _served(self, visit: Visit) -> ErrorReply | None:
        """Do the route's work; return the refusal that it ends in, if it does.

        Raises:
            ClientGone: Nobody is left to reply to.
        """
        try:
            await self._work(visit)
        except Refused as error:
            return error.reply
        except CaseworkError as error:
            return reply_to_error(error)
        except asyncio.CancelledError:
            if visit.presence is None or not visit.presence.caught():
                raise
            if visit.presence.ended is Ended.SHUTTING_DOWN:
                return SHUTTING_DOWN
            raise ClientGone(visit.presence.ended or Ended.CLIENT_LEFT) from None
        except ClientGone:
            raise
        except Exception as error:  # noqa: BLE001 - the edge of the request's task
            return defect(error, visit.exchange)
        finally:
            if visit.presence is not None:
                visit.presence.close()
                self._door.open_requests.discard(visit.presence)
        return None

    def _line(
        self,
        exchange: Exchange,
        told: Told,
        refusal: ErrorReply | None,
        *,
        at: datetime,
        elapsed_seconds: float,
    ) -> RequestLine:
        status = CLIENT_LEFT_STATUS if told.gone else exchange.status
        return told.line(
            request_id=exchange.request_id,
            at=at,
            route=self._name,
            status=status,
            code=refusal.code if refusal else None,
            elapsed_ms=round(elapsed_seconds * 1000, 3),
        )


def defect(error: Exception, exchange: Exchange) -> ErrorReply:
    """Log what should not have happened by its type alone, and return what the client is told."""
    _logger.error(
        "facade defect",
        extra={
            "action": "facade_defect",
            "request_id": exchange.request_id,
            "exception": type(error).__name__,
        },
    )
    return DEFECT


def _is_from_a_page(headers: Mapping[bytes, bytes]) -> bool:
    """Tell whether a page in a browser asks, which anybody may have written.

    A browser sends its request, with a type of content that asks for no permission, before it
    keeps the reply from the page.
    """
    origin = headers.get(b"origin")
    return origin is not None and (
        origin == b"null" or origin.startswith((b"http://", b"https://"))
    )


@lru_cache(maxsize=64)
def _may_be_anybodys(host: bytes) -> bool:
    """Tell whether a request calls this service by a name that somebody may have registered.

    A page of such a name may let it lead to this machine later on; the browser then takes our
    replies for those of the page's own server, and gives them to the page.
    """
    name, _, port = host.rpartition(b":")
    if not port.isdigit() and not name.startswith(b"["):
        name = host
    _, dot, last = name.rstrip(b".").lower().rpartition(b".")
    is_address = last.isdigit() or name.startswith(b"[")
    return bool(dot) and not is_address and last not in _NEVER_REGISTERED


_NEVER_REGISTERED: Final = frozenset({b"internal", b"localhost"})


async def _tell(exchange: Exchange, refusal: ErrorReply) -> None:
    """Send an error: as a reply, or as the last event of a stream that has begun."""
    if not exchange.begun:
        await exchange.refuse(refusal)
        return
    try:
        async with asyncio.timeout(LAST_WORD_SECONDS):
            await exchange.end(refusal.event(exchange.request_id))
    except TimeoutError:
        raise ClientGone(Ended.CLIENT_STALLED) from None


_RUN: Final = secrets.token_hex(6)
_COUNTER: Final = itertools.count(1)


def new_request_id() -> str:
    """Return an id that no other request has: this process's mark, and a number."""
    return f"req_{_RUN}{next(_COUNTER):08x}"
