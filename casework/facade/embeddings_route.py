"""``POST /v1/embeddings``: vectors, asked for together with what others ask at the same time."""

from __future__ import annotations

from casework.errors import InvalidRequest
from casework.facade.disclosure import Disclosure
from casework.facade.durable_calls import KEY_HEADER
from casework.facade.endpoint import Visit
from casework.facade.errors import reply_to_failed_round
from casework.facade.exchange import Refused
from casework.facade.open_requests import OpenRequests
from casework.facade.request_scope import scope_of
from casework.gateway.embeddings.request import read_embedding_request
from casework.gateway.llm_gateway import LLMGateway
from casework.gateway.outcomes import Answered


class EmbeddingsRoute:
    """Answers requests for vectors by rounds of the gateway.

    Args:
        gateway: Who walks the rounds.
        open_requests: Under whose watch the work is done.
    """

    def __init__(self, gateway: LLMGateway, open_requests: OpenRequests) -> None:
        self._gateway = gateway
        self._open_requests = open_requests
        self._disclosure = Disclosure(shown=gateway.config.serve.disclose, clock=gateway.clock)

    async def serve(self, visit: Visit) -> None:
        """Serve one request.

        Raises:
            Refused: There is no answer, and the client is told why.
            CaseworkError: The request cannot be asked as it stands.
        """
        exchange, begun = visit.exchange, self._gateway.clock.monotonic()
        if KEY_HEADER in exchange.headers:
            raise InvalidRequest(
                "vectors are not kept",
                code="idempotency_unsupported",
                where=KEY_HEADER.decode(),
                remedy="send the request without the header",
            )
        body = await exchange.body(self._gateway.config.serve.request_bytes_max)
        request = read_embedding_request(body)
        scope = scope_of(visit, request.privacy_profile)
        route = self._gateway.interactive.route(request.model, scope, embeddings=True)
        visit.told.model, visit.told.policy = route.asked_for, route.policy
        visit.watched_by(self._open_requests)
        walked = await self._gateway.embed(request, scope, client=visit.client.label)
        visit.told.take(walked)
        if not isinstance(walked, Answered):
            raise Refused(reply_to_failed_round(walked))
        answer = walked.answer
        headers = self._disclosure.headers(
            walked, withheld=(*request.withheld, *answer.dropped), begun=begun
        )
        await exchange.reply(200, answer.body(request.model, request.encoding), headers)
