"""``POST /v1/chat/completions``: a whole answer, or a stream of chunks."""

from __future__ import annotations

from functools import partial
from typing import assert_never

from casework.config.gateway_config import GatewayConfig
from casework.errors import InvalidRequest
from casework.facade.aside import read_aside
from casework.facade.chat_relay import relay
from casework.facade.disclosure import Disclosure
from casework.facade.durable_calls import (
    KEY_HEADER,
    DurableCalls,
    DurableKey,
    KeptAnswer,
    KeptRefusal,
    durable_key,
)
from casework.facade.endpoint import Visit
from casework.facade.errors import reply_to_failed_round
from casework.facade.exchange import Refused
from casework.facade.open_requests import OpenRequests
from casework.facade.request_scope import scope_of
from casework.gateway.chat.request import ChatRequest, read_chat_request
from casework.gateway.llm_gateway import LLMGateway
from casework.gateway.outcomes import Answered
from casework.gateway.scope import Scope


class ChatRoute:
    """Answers chat requests by rounds of the gateway.

    Args:
        gateway: Who walks the rounds.
        open_requests: Under whose watch the work is done.
        durable: Who keeps the calls that are to be kept; None refuses them.
    """

    def __init__(
        self, gateway: LLMGateway, open_requests: OpenRequests, durable: DurableCalls | None = None
    ) -> None:
        self._gateway = gateway
        self._config: GatewayConfig = gateway.config
        self._open_requests = open_requests
        self._durable = durable
        self._disclosure = Disclosure(shown=gateway.config.serve.disclose, clock=gateway.clock)

    async def serve(self, visit: Visit) -> None:
        """Serve one request.

        Raises:
            Refused: There is no answer, and the client is told why.
            CaseworkError: The request cannot be asked as it stands.
        """
        exchange, begun = visit.exchange, self._gateway.clock.monotonic()
        body = await exchange.body(self._config.serve.request_bytes_max)
        read = partial(read_chat_request, engine=self._config.validation.engine)
        request = await read_aside(read, body)
        scope = scope_of(visit, request.privacy_profile)
        key = durable_key(exchange.headers, client=visit.client.label, stream=request.stream)
        visit.told.stream = request.stream
        visit.watched_by(self._open_requests)
        if key is not None:
            await self._kept(visit, request, scope=scope, key=key, begun=begun)
            return
        route = self._gateway.interactive.route(request.model, scope)
        visit.told.model, visit.told.policy = route.asked_for, route.policy
        if request.stream:
            await relay(visit, self._gateway, request, scope=scope, disclosure=self._disclosure)
            return
        walked = await self._gateway.complete(request, scope)
        visit.told.take(walked)
        if not isinstance(walked, Answered):
            raise Refused(reply_to_failed_round(walked))
        headers = self._disclosure.headers(
            walked, withheld=(*request.withheld, *walked.answer.dropped), begun=begun
        )
        await exchange.reply(200, walked.answer.body(request.model), headers)

    async def _kept(
        self, visit: Visit, request: ChatRequest, *, scope: Scope, key: DurableKey, begun: float
    ) -> None:
        """Answer a call that is kept: from the record, or by a round that is recorded."""
        if self._durable is None:
            raise InvalidRequest(
                "this service keeps no calls",
                code="idempotency_unsupported",
                where=KEY_HEADER.decode(),
                remedy="send the request without the header",
            )
        kept = await self._durable.answer(request, scope=scope, key=key)
        visit.told.model = request.model
        if kept.walked is not None:
            visit.told.take(kept.walked)
        match kept:
            case KeptRefusal(reply=reply):
                raise Refused(reply)
            case KeptAnswer():
                headers = self._disclosure.kept(kept, withheld=request.withheld, begun=begun)
                await visit.exchange.reply(200, kept.body, headers)
            case _:
                assert_never(kept)
