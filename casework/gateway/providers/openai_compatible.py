"""The adapter for every server that speaks the OpenAI chat protocol."""

from __future__ import annotations

import json
from json.encoder import encode_basestring_ascii
from typing import Any, ClassVar, Final, Self

from casework.config.providers import MODEL_CHARACTERS_MAX, ProviderConfig
from casework.errors import ConfigurationError
from casework.gateway.chat.calls import (
    ChatCall,
    ChatReply,
    EmbeddingCall,
    EmbeddingReply,
    EventStream,
)
from casework.gateway.clock import Deadline
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.messages import Credential, ProviderCall, ProviderReply
from casework.gateway.openai_envelope import reply_from, request_body
from casework.gateway.transport import HTTPRequest, HTTPTransport

EMBEDDING_BYTES_MAX: Final = 128 * 1024
"""So much of an answer is read for each text, where the entry allows less for the whole."""

_STREAM: Final = b'"stream":true,"stream_options":{"include_usage":true}'


class OpenAICompatibleProvider:
    """Makes one request to ``{base_url}`` a call.

    A call whose answer is recorded has a connection of its own; all others share those that are
    kept.

    Args:
        config: Formats and limits of the target.
        base_url: Where it is, ending in ``/v1``.
        transport: Over which connections.
    """

    keeps_deadlines: ClassVar = True
    """Every call ends in time and lets go at once when cancelled; nobody need watch it."""

    def __init__(self, config: ProviderConfig, *, base_url: str, transport: HTTPTransport) -> None:
        self._config = config
        self._url = f"{base_url}/chat/completions"
        self._embeddings_url = f"{base_url}/embeddings"
        self._models_url = f"{base_url}/models"
        self._transport = transport

    @classmethod
    def from_config(cls, config: ProviderConfig) -> Self:
        """Make the adapter for a provider's entry; contacts nobody.

        Raises:
            ConfigurationError: The entry has no address, or its ``ca_file`` cannot be read.
        """
        if config.base_url is None:
            raise ConfigurationError(
                "base_url is missing", where=f'provider "{config.id}"', remedy="add base_url"
            )
        transport = HTTPTransport(ca_file=config.ca_file)
        return cls(config, base_url=config.base_url, transport=transport)

    async def complete(
        self, call: ProviderCall, *, credential: Credential | None, deadline: Deadline
    ) -> ProviderReply:
        """Ask the server, exactly once.

        Raises:
            ProviderFailure: The call failed.
            InvalidRequest: The call holds what cannot be sent.
        """
        request = HTTPRequest(
            self._url,
            request_body(call, self._config),
            credential,
            self._config.response_bytes_max,
            alone=True,
        )
        return reply_from(await self._transport.post_json(request, deadline=deadline))

    async def chat(
        self, call: ChatCall, /, *, credential: Credential | None, deadline: Deadline
    ) -> ChatReply:
        """Ask for a whole answer, with the client's own members as they came.

        Raises:
            ProviderFailure: The call failed.
        """
        request = self._chat_request(call, credential)
        return ChatReply(body=await self._transport.post_json(request, deadline=deadline))

    async def open_stream(
        self, call: ChatCall, /, *, credential: Credential | None, deadline: Deadline
    ) -> EventStream:
        """Ask for a stream; it is asked to end with the usage, whether the client wants it or not.

        Raises:
            ProviderFailure: The call failed.
        """
        request = self._chat_request(call, credential)
        return await self._transport.open_stream(request, deadline=deadline)

    async def embed(
        self, call: EmbeddingCall, /, *, credential: Credential | None, deadline: Deadline
    ) -> EmbeddingReply:
        """Ask for the vectors of all texts.

        No ``encoding_format`` is sent, since servers refuse it or pass over it; whatever form
        comes back is the caller's to read.

        Raises:
            ProviderFailure: The call failed.
        """
        members = [b'"model":' + _json(call.model), b'"input":[' + b",".join(call.inputs) + b"]"]
        members += [_json(name) + b":" + value for name, value in call.members.items()]
        bytes_max = max(self._config.response_bytes_max, len(call.inputs) * EMBEDDING_BYTES_MAX)
        request = HTTPRequest(self._embeddings_url, self._body(members), credential, bytes_max)
        return EmbeddingReply(body=await self._transport.post_json(request, deadline=deadline))

    async def models(self, *, credential: Credential | None, deadline: Deadline) -> tuple[str, ...]:
        """Return the names of the models, each once, as the server knows them.

        Raises:
            ProviderFailure: The call failed, or what came back is no list of models.
        """
        request = HTTPRequest(self._models_url, b"", credential, self._config.response_bytes_max)
        return _names(await self._transport.get_json(request, deadline=deadline))

    def _chat_request(self, call: ChatCall, credential: Credential | None) -> HTTPRequest:
        members = [b'"model":' + _json(call.model)]
        members += [_json(name) + b":" + value for name, value in call.members.items()]
        if call.stream:
            members.append(_STREAM)
        return HTTPRequest(
            self._url,
            self._body(members),
            credential,
            self._config.response_bytes_max,
            alone=call.alone,
        )

    def _body(self, members: list[bytes]) -> bytes:
        body = b"{" + b",".join(members) + b"}"
        if len(body) > self._config.request_bytes_max:
            raise ProviderFailure(FailureKind.REQUEST_TOO_LARGE, sent=False)
        return body

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        await self._transport.aclose()


def _json(text: str) -> bytes:
    return encode_basestring_ascii(text).encode("ascii")


def _names(body: bytes) -> tuple[str, ...]:
    """Read a list of models; some servers send it without the object around it."""
    try:
        listed: Any = json.loads(body)
    except (ValueError, RecursionError):
        listed = None
    models = listed.get("data") if isinstance(listed, dict) else listed
    if not isinstance(models, list):
        raise ProviderFailure(FailureKind.MALFORMED_RESPONSE)
    names = (model.get("id") for model in models if isinstance(model, dict))
    return tuple(
        dict.fromkeys(
            name for name in names if isinstance(name, str) and len(name) <= MODEL_CHARACTERS_MAX
        )
    )
