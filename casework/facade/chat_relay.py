"""Relaying a stream: begin when the first sound chunk is there, keep alive, end as it ended."""

from __future__ import annotations

import asyncio
from typing import Final

from casework.config.serving import InteractiveConfig
from casework.errors import StreamInterrupted
from casework.facade.disclosure import Disclosure
from casework.facade.endpoint import Visit
from casework.facade.errors import reply_to_failed_round, reply_to_interruption
from casework.facade.exchange import Exchange, Refused
from casework.facade.presence import Ended
from casework.gateway.chat.request import ChatRequest
from casework.gateway.chat.streams import ChatStream
from casework.gateway.errors import FailureKind
from casework.gateway.llm_gateway import LLMGateway
from casework.gateway.outcomes import Answered
from casework.gateway.scope import Scope

COMMENT: Final = b": keep-alive\n\n"
"""Says nothing; every reader of events passes over it."""


async def relay(
    visit: Visit,
    gateway: LLMGateway,
    request: ChatRequest,
    *,
    scope: Scope,
    disclosure: Disclosure,
) -> None:
    """Walk a round for a stream and pass it on, event by event, as fast as the client takes them.

    Raises:
        Refused: There is no stream, or it broke off.
    """
    exchange, begun = visit.exchange, gateway.clock.monotonic()
    heartbeat = Heartbeat(visit, gateway.config.interactive)
    try:
        walked = await gateway.stream(request, scope)
        visit.told.take(walked)
        if not isinstance(walked, Answered):
            raise Refused(reply_to_failed_round(walked))
        stream = walked.answer
        try:
            if not exchange.begun:
                withheld = (*request.withheld, *stream.dropped)
                headers = disclosure.headers(walked, withheld=withheld, begun=begun)
                await exchange.begin_events(headers)
            await _pass_on(stream, exchange, heartbeat)
            gateway.interactive.ended(walked.served, None)
        except StreamInterrupted as error:
            gateway.interactive.ended(walked.served, FailureKind(error.code))
            raise Refused(reply_to_interruption(error)) from None
        finally:
            visit.told.usage = stream.usage
            visit.told.cost = gateway.cost(walked.served, stream.usage)
            await stream.aclose()
    finally:
        heartbeat.stop()


async def _pass_on(stream: ChatStream, exchange: Exchange, heartbeat: Heartbeat) -> None:
    async for piece in stream.pieces():
        heartbeat.sending()
        if stream.finished:
            await exchange.end(piece)
        else:
            await exchange.piece(piece)
        heartbeat.sent()


class Heartbeat:
    """Sends a comment where nothing was sent for a while, and notices a client that takes nothing.

    Args:
        visit: Whose reply it is.
        config: How long a while is.
    """

    def __init__(self, visit: Visit, config: InteractiveConfig) -> None:
        self._visit = visit
        self._exchange = visit.exchange
        self._seconds = config.keepalive_seconds
        self._patience_seconds = config.first_keepalive_seconds
        """How long the silence may be now: longer, as long as nothing was sent."""
        self._stall_seconds = config.idle_seconds
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._sending_since: float | None = None
        self._comment: asyncio.Task[None] | None = None
        self._timer = self._loop.call_later(self._patience_seconds, self._beat)

    def sending(self) -> None:
        """Take note that a piece is offered to the client."""
        self._sending_since = self._loop.time()

    def sent(self) -> None:
        """Take note that a piece was taken by the client."""
        self._sending_since = None
        self._last = self._loop.time()
        if self._patience_seconds != self._seconds:
            self._patience_seconds = self._seconds
            self._timer.cancel()
            self._timer = self._loop.call_later(self._seconds, self._beat)

    def stop(self) -> None:
        """Send nothing more."""
        self._timer.cancel()
        if self._comment is not None:
            self._comment.cancel()

    def _beat(self) -> None:
        now, wait = self._loop.time(), self._seconds
        if self._sending_since is not None:
            stalled = now - self._sending_since >= self._stall_seconds
            if stalled and self._visit.presence is not None:
                self._visit.presence.end(Ended.CLIENT_STALLED)
        elif now - self._last >= self._patience_seconds:
            self._comment = self._loop.create_task(self._say())
            self._comment.add_done_callback(self._said)
        else:
            wait = self._last + self._patience_seconds - now
        self._timer = self._loop.call_later(wait, self._beat)

    async def _say(self) -> None:
        self.sending()
        if not self._exchange.begun:
            await self._exchange.begin_events([])
        await self._exchange.piece(COMMENT)
        self.sent()

    def _said(self, comment: asyncio.Task[None]) -> None:
        """End a reply that cannot be sent."""
        failed = not comment.cancelled() and comment.exception() is not None
        if failed and self._visit.presence is not None:
            self._visit.presence.end(Ended.CLIENT_LEFT)
