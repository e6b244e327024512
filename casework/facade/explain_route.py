"""``POST /v1/explain``: what a chat or embedding request would do; nobody is contacted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from casework.config.gateway_config import GatewayConfig
from casework.config.privacy_profile import PrivacyProfile
from casework.errors import CaseworkError
from casework.facade.aside import read_aside
from casework.facade.endpoint import Visit
from casework.facade.errors import reply_to_error
from casework.facade.provider_route import rest_told
from casework.facade.request_scope import PRIVACY_HEADER, scope_of
from casework.gateway.chat.json_members import NOT_JSON, members_of
from casework.gateway.chat.prompt_tokens import chat_tokens, input_tokens
from casework.gateway.chat.request import ChatRequest, read_chat_request
from casework.gateway.embeddings.request import EmbeddingRequest, read_embedding_request
from casework.gateway.outlook import Outlook
from casework.gateway.routing import Choice, Route
from casework.gateway.scope import Scope

Asked: TypeAlias = ChatRequest | EmbeddingRequest

_KINDS: Final = {True: "embeddings", False: "chat.completions"}


@dataclass(frozen=True, slots=True)
class _Read:
    """A request that was read, and its size."""

    request: Asked
    tokens: int


class ExplainRoute:
    """Explains requests by the very rules that rounds follow.

    Args:
        outlook: What rounds would do.
        config: The settings.
    """

    def __init__(self, outlook: Outlook, config: GatewayConfig) -> None:
        self._outlook = outlook
        self._config = config

    async def serve(self, visit: Visit) -> None:
        """Explain one request; a refusal is explained too.

        Raises:
            InvalidRequest: The body is no request that could be explained.
        """
        body = await visit.exchange.body(self._config.serve.request_bytes_max)
        read = await read_aside(self._read, body)
        explained = self._explained(visit, read)
        if explained["rule"] is not None:
            visit.told.model = read.request.model
        await visit.exchange.reply_json(explained)

    def _read(self, body: bytes) -> _Read:
        if _is_embedding(body):
            vectors = read_embedding_request(body)
            return _Read(vectors, sum(map(input_tokens, vectors.inputs)))
        chat = read_chat_request(body, engine=self._config.validation.engine)
        return _Read(chat, chat_tokens(chat.members))

    def _explained(self, visit: Visit, read: _Read) -> dict[str, object]:
        request = read.request
        embeddings = isinstance(request, EmbeddingRequest)
        scope = scope_of(visit, request.privacy_profile)
        head = {
            "object": "explanation",
            "request": _KINDS[embeddings],
            "model": request.model,
            "privacy_profile": self._profiles(visit, request.privacy_profile, scope),
            "deadline_seconds": round(self._outlook.deadline_seconds(scope), 3),
            "estimated_prompt_tokens": read.tokens,
            "withheld": list(request.withheld),
        }
        return head | self._route(request.model, scope, embeddings=embeddings)

    def _route(self, model: str, scope: Scope, *, embeddings: bool) -> dict[str, object]:
        try:
            seen = self._outlook.survey(model, scope, embeddings=embeddings)
        except CaseworkError as error:
            return _refused(error) | _NO_ROUTE
        try:
            self._outlook.route(model, scope, embeddings=embeddings)
        except CaseworkError as error:
            return _refused(error) | self._told(seen)
        return {"outcome": "asked", "error": None} | self._told(seen)

    def _told(self, route: Route) -> dict[str, object]:
        return {
            "rule": route.reason.value,
            "policy": route.policy.value,
            "calls_max": self._outlook.calls_max(route),
            "targets": [
                _target(choice) | {"rest": rest_told(self._outlook.rest_of(choice))}
                for choice in route.choices
            ],
            "passed_over": [
                _target(refusal.choice) | {"reason": refusal.reason.value}
                for refusal in route.refused
            ],
        }

    def _profiles(
        self, visit: Visit, body: PrivacyProfile | None, scope: Scope
    ) -> dict[str, object]:
        header = visit.exchange.headers.get(PRIVACY_HEADER)
        return {
            "effective": self._outlook.profile(scope).value,
            "configuration": self._config.privacy_profile.value,
            "client_key": visit.client.scope.profile,
            "header": header and header.decode().strip(),
            "body": body,
        }


_NO_ROUTE: Final[dict[str, object]] = {
    "rule": None,
    "policy": None,
    "calls_max": 0,
    "targets": [],
    "passed_over": [],
}


def _is_embedding(body: bytes) -> bool:
    """Tell whether a body is meant for embeddings; one that cannot be read is taken for chat."""
    try:
        members = members_of(body)
    except NOT_JSON:
        return False
    return "input" in members and "messages" not in members


def _refused(error: CaseworkError) -> dict[str, object]:
    reply = reply_to_error(error)
    return {
        "outcome": "refused",
        "error": {"status": reply.status, "code": reply.code, "message": reply.message},
    }


def _target(choice: Choice) -> dict[str, object]:
    provider = choice.provider
    return {
        "provider": provider.id,
        "class": provider.provider_class.value,
        "adapter": provider.adapter,
        "model": choice.model,
    }
