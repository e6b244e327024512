"""Chat for adapters that only complete texts, such as rules, replays and a user's own."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from casework.gateway.chat.calls import ChatCall, ChatReply, EventStream
from casework.gateway.chat.text_calls import Told, ToldEvents, text_call
from casework.gateway.clock import Deadline
from casework.gateway.messages import Credential
from casework.gateway.providers.provider import LLMProvider


class TextChat:
    """Lets an adapter of texts answer chat; satisfies :class:`.calls.ChatProvider`.

    Args:
        adapter: Who completes texts.
        new_id: Names an answer.
    """

    def __init__(
        self, adapter: LLMProvider, *, new_id: Callable[[], str] = lambda: secrets.token_hex(12)
    ) -> None:
        self._adapter = adapter
        self._new_id = new_id

    async def chat(
        self, call: ChatCall, /, *, credential: Credential | None, deadline: Deadline
    ) -> ChatReply:
        """Ask for a whole answer.

        Raises:
            ProviderFailure: The call failed, or holds what is no text (HTTP 400).
        """
        wanted = text_call(call)
        reply = await self._adapter.complete(wanted.call, credential=credential, deadline=deadline)
        return ChatReply(body=self._told(call, deadline).body(reply), dropped=wanted.dropped)

    async def open_stream(
        self, call: ChatCall, /, *, credential: Credential | None, deadline: Deadline
    ) -> EventStream:
        """Ask for an answer, and tell it as a stream of three chunks and the usage.

        Raises:
            ProviderFailure: The call failed, or holds what is no text (HTTP 400).
        """
        wanted = text_call(call)
        reply = await self._adapter.complete(wanted.call, credential=credential, deadline=deadline)
        return ToldEvents(self._told(call, deadline).events(reply), wanted.dropped)

    def _told(self, call: ChatCall, deadline: Deadline) -> Told:
        created = int(deadline.clock.now().timestamp())
        return Told(id=f"chatcmpl-{self._new_id()}", created=created, model=call.model)
