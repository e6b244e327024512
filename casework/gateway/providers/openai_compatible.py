"""The adapter for every server that speaks the OpenAI chat protocol."""

from __future__ import annotations

from typing import Self

from casework.config.providers import ProviderConfig
from casework.errors import ConfigurationError
from casework.gateway.clock import Deadline
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
        )
        return reply_from(await self._transport.post_json(request, deadline=deadline))

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        await self._transport.aclose()
