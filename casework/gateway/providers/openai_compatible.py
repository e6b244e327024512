"""The adapter for every server that speaks the OpenAI chat protocol."""

from __future__ import annotations

import json
from typing import Final, Self

from casework.config.providers import ProviderConfig
from casework.errors import ConfigurationError
from casework.gateway.chat.calls import ChatCall, ChatReply, EventStream
from casework.gateway.clock import Deadline
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.messages import Credential, ProviderCall, ProviderReply
from casework.gateway.openai_envelope import reply_from, request_body
from casework.gateway.transport import HTTPRequest, HTTPTransport


class OpenAICompatibleProvider:
    """Makes one ``POST {base_url}/chat/completions`` a call.

    Args:
        config: Formats and limits of the target.
        base_url: Where it is, ending in ``/v1``.
        transport: Over which connections.
    """

    def __init__(self, config: ProviderConfig, *, base_url: str, transport: HTTPTransport) -> None:
        self._config = config
        self._url = f"{base_url}/chat/completions"
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

    def _chat_request(self, call: ChatCall, credential: Credential | None) -> HTTPRequest:
        members = [_member("model", json.dumps(call.model).encode())]
        members += [_member(name, value) for name, value in call.members.items()]
        if call.stream:
            members += _STREAM
        return self._request(self._url, members, credential)

    def _request(
        self, url: str, members: list[bytes], credential: Credential | None
    ) -> HTTPRequest:
        body = b"{" + b",".join(members) + b"}"
        if len(body) > self._config.request_bytes_max:
            raise ProviderFailure(FailureKind.REQUEST_TOO_LARGE, sent=False)
        return HTTPRequest(url, body, credential, self._config.response_bytes_max)

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        await self._transport.aclose()


_STREAM: Final = (b'"stream":true', b'"stream_options":{"include_usage":true}')


def _member(name: str, value: bytes) -> bytes:
    return json.dumps(name).encode() + b":" + value
