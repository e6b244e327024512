"""``POST /v1/token-count``: about how many tokens a prompt or a text will be."""

from __future__ import annotations

from typing import Final

from casework.errors import InvalidRequest
from casework.facade.aside import read_aside
from casework.facade.endpoint import Visit
from casework.gateway.chat.json_members import Members, is_null, is_text
from casework.gateway.chat.prompt_tokens import chat_tokens, input_tokens
from casework.gateway.chat.refusals import wrong_type
from casework.gateway.chat.request_head import top_of

_COUNTED: Final = ("messages", "text", "input")


class TokenCountRoute:
    """Estimates by the kinds of characters, whichever model is named; nobody is asked.

    Args:
        request_bytes_max: Longest body that is read.
    """

    def __init__(self, request_bytes_max: int) -> None:
        self._request_bytes_max = request_bytes_max

    async def serve(self, visit: Visit) -> None:
        """Estimate one prompt.

        Raises:
            InvalidRequest: The body holds nothing that can be counted, or more than one of it.
        """
        body = await visit.exchange.body(self._request_bytes_max)
        tokens = await read_aside(_count, body)
        await visit.exchange.reply_json({"token_count": tokens, "estimated": True})


def _count(body: bytes) -> int:
    members = _read(body)
    counted = [name for name in _COUNTED if name in members]
    if len(counted) != 1:
        raise InvalidRequest(
            "exactly one member is counted",
            code="invalid_value" if counted else "missing_required_parameter",
            where=None if counted else "messages",
            remedy="send one of messages, text and input",
        )
    (name,) = counted
    if name == "messages":
        return chat_tokens(members)
    if name == "text" and not is_text(members[name]):
        raise wrong_type("text", "a string")
    return input_tokens(members[name], name)


def _read(body: bytes) -> Members:
    members = top_of(body)
    model = members.get("model")
    if model is not None and not is_text(model) and not is_null(model):
        raise wrong_type("model", "a string or null")
    return members
