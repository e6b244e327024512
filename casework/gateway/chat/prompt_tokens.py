"""How many tokens a client's prompt will be, estimated; images, sound and files are not counted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from casework.gateway.chat.json_members import (
    NOT_JSON,
    value_of,
    without_lone_surrogates,
    written,
)
from casework.gateway.chat.refusals import wrong_type
from casework.gateway.token_estimate import estimate_tokens

MESSAGE_TOKENS: Final = 4
"""What a chat template adds to a message: its marks, and the role."""
ANSWER_TOKENS: Final = 3
"""What it adds to the whole, to begin the answer."""

_TOOLS: Final = ("tools", "functions")
_CALLS: Final = ("tool_calls", "function_call")


def chat_tokens(members: Mapping[str, bytes]) -> int:
    """Return about how many tokens the messages and tools of a request are.

    Args:
        members: JSON by the name of the member.

    Raises:
        InvalidRequest: The messages are no list of objects.
    """
    messages = _read(members["messages"], "messages")
    if not isinstance(messages, list) or not all(isinstance(one, dict) for one in messages):
        raise wrong_type("messages", "a list of messages")
    tokens = ANSWER_TOKENS + sum(MESSAGE_TOKENS + _of_message(message) for message in messages)
    tools = (_read(members[name], name) for name in _TOOLS if name in members)
    return tokens + sum(map(_as_json, tools))


def input_tokens(value: bytes, where: str = "input") -> int:
    """Return about how many tokens a text is, or a list of texts, or lists of token numbers.

    Args:
        value: JSON.
        where: Which member it is, for the error.

    Raises:
        InvalidRequest: It is something else.
    """
    tokens = _of_input(_read(value, where))
    if tokens is None:
        raise wrong_type(where, "a text, a list of texts, or token numbers")
    return tokens


def _read(value: bytes, where: str) -> Any:
    try:
        return value_of(without_lone_surrogates(bytes(value)))
    except NOT_JSON:
        raise wrong_type(where, "JSON that nests less") from None


def _of_input(value: Any) -> int | None:
    match value:
        case str():
            return estimate_tokens(value)
        case list():
            counts = [1 if type(item) is int else _of_input(item) for item in value]
            return None if None in counts else sum(count or 0 for count in counts)
    return None


def _of_message(message: dict[str, Any]) -> int:
    tokens = sum(_as_json(message[name]) for name in _CALLS if name in message)
    tokens += _of_text(message.get("name"))
    content = message.get("content")
    if isinstance(content, list):
        return tokens + sum(map(_of_part, content))
    return tokens + _of_text(content)


def _of_part(part: Any) -> int:
    return _of_text(part.get("text", part.get("refusal")) if isinstance(part, dict) else part)


def _of_text(text: Any) -> int:
    return estimate_tokens(text) if isinstance(text, str) else 0


def _as_json(value: Any) -> int:
    """Count what a model is shown as JSON, such as the description of a tool."""
    return estimate_tokens(written(value).decode("utf-8")) if value else 0
