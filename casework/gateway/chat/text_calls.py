"""Chat in the words of an adapter of texts, and its texts in the words of chat."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NoReturn

from casework.gateway.chat.calls import ChatCall
from casework.gateway.chat.chunks import DONE
from casework.gateway.chat.json_members import (
    NOT_JSON,
    Members,
    Raw,
    is_list,
    is_null,
    is_object,
    is_text,
    items_of,
    members_of,
    says_something,
    text_or_none,
    written,
)
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.messages import (
    PARAMETERS,
    DataSpan,
    Finish,
    Message,
    ProviderCall,
    ProviderReply,
    Role,
    Usage,
)
from casework.strict_json import JSON, InvalidJSON, JSONObject, parse

_ROLES: Final[Mapping[str, Role]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
}
_TEXT_PARTS: Final = frozenset({"text", "input_text", "output_text"})
_FINISHES: Final = {
    Finish.STOP: "stop",
    Finish.LENGTH: "length",
    Finish.REFUSED: "content_filter",
    Finish.UNKNOWN: "stop",
}
_MAPPED: Final = frozenset({"messages", "response_format", "max_completion_tokens"}) | PARAMETERS
_AS_WITHOUT: Final = {"n": b"1", "tool_choice": b'"none"', "modalities": b'["text"]'}
"""Values that ask for what is done anyway."""
_SCHEMA_NAME: Final = "answer"


@dataclass(frozen=True, slots=True)
class TextCall:
    """A chat call in the words of an adapter of texts."""

    call: ProviderCall
    dropped: tuple[str, ...]
    """Members of the request that it cannot be told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """Writes a text in OpenAI's shapes."""

    id: str
    created: int
    model: str

    def body(self, reply: ProviderReply) -> bytes:
        """Write a whole answer."""
        message: JSONObject = {
            "role": "assistant",
            "content": reply.text,
            "refusal": None,
            "annotations": [],
        }
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": _FINISHES[reply.finish],
        }
        whole = self._head("chat.completion") | {"choices": [choice]} | _usage(reply.usage)
        return written(whole)

    def events(self, reply: ProviderReply) -> tuple[bytes, ...]:
        """Write the role, the text and the end as chunks, and the usage where it is known."""
        head = self._head("chat.completion.chunk")
        steps: tuple[tuple[dict[str, str], str | None], ...] = (
            ({"role": "assistant", "content": ""}, None),
            ({"content": reply.text}, None),
            ({}, _FINISHES[reply.finish]),
        )
        events = [
            head | {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
            for delta, finish in steps
        ]
        usage = _usage(reply.usage)
        if usage:
            events.append(head | {"choices": []} | usage)
        return (*(written(event) for event in events), DONE)

    def _head(self, kind: str) -> dict[str, object]:
        return {"id": self.id, "object": kind, "created": self.created, "model": self.model}


@dataclass(slots=True)
class ToldEvents:
    """A stream of which every event is known."""

    told: tuple[bytes, ...] = field(repr=False)
    dropped: tuple[str, ...] = ()

    async def events(self) -> AsyncIterator[list[bytes]]:
        """Yield all events at once."""
        yield list(self.told)

    def close(self) -> None:
        """Do nothing; there is no connection."""


def text_call(call: ChatCall) -> TextCall:
    """Turn a chat call into a call for a text.

    The last message of the user is the document, for adapters that search one.

    Raises:
        ProviderFailure: It holds what is no text and cannot be left out, such as an image, a tool
            or the result of one (``http_error`` with status 400). Nothing was sent.
    """
    members = {name: Raw(value) for name, value in call.members.items()}
    if _wants_more_than_text(members):
        _refuse()
    try:
        messages = tuple(_message(members_of(item)) for item in items_of(members["messages"]))
        parameters = _parameters(members)
        schema = _schema(members.get("response_format"))
    except (*NOT_JSON, InvalidJSON, KeyError):
        _refuse()
    dropped = tuple(
        name
        for name, value in members.items()
        if name not in _MAPPED and says_something(value) and bytes(value) != _AS_WITHOUT.get(name)
    )
    asked = ProviderCall(
        model=call.model,
        messages=messages,
        output_schema=schema,
        schema_name=_SCHEMA_NAME,
        parameters=parameters,
        data=_document(messages),
    )
    return TextCall(asked, dropped)


def _wants_more_than_text(members: Members) -> bool:
    """Tell whether the request needs tools or sound; tools that must not be used are none."""
    modalities = members.get("modalities")
    if says_something(members.get("audio")) or (
        modalities is not None and b'"audio"' in bytes(modalities)
    ):
        return True
    if text_or_none(members.get("tool_choice")) == "none":
        return False
    return says_something(members.get("tools")) or says_something(members.get("functions"))


def _refuse() -> NoReturn:
    raise ProviderFailure(FailureKind.HTTP_ERROR, http_status=400, sent=False) from None


def _message(message: Members) -> Message:
    role = _ROLES.get(text_or_none(message.get("role")) or "")
    if role is None or any(says_something(message.get(n)) for n in ("tool_calls", "audio")):
        _refuse()
    content = message.get("content")
    if content is None or is_null(content):
        return Message(role, "")
    if is_text(content):
        return Message(role, text_or_none(content) or "")
    if not is_list(content):
        _refuse()
    return Message(role, "\n".join(_part(part) for part in items_of(content)))


def _part(part: Raw) -> str:
    members = members_of(part)
    text = members.get("text")
    if text_or_none(members.get("type")) not in _TEXT_PARTS or not is_text(text):
        _refuse()
    return text_or_none(text) or ""


def _parameters(members: Members) -> dict[str, JSON]:
    parameters = {
        name: parse(bytes(value))
        for name, value in members.items()
        if name in PARAMETERS and not is_null(value)
    }
    limit = members.get("max_completion_tokens")
    if limit is not None and not is_null(limit):
        parameters["max_tokens"] = parse(bytes(limit))
    return parameters


def _schema(response_format: Raw | None) -> JSONObject:
    if response_format is None or not is_object(response_format):
        return {}
    members = members_of(response_format)
    kind = text_or_none(members.get("type"))
    if kind == "json_object":
        return {"type": "object"}
    wanted = members.get("json_schema")
    if kind != "json_schema" or wanted is None or not is_object(wanted):
        return {}
    schema = parse(bytes(members_of(wanted).get("schema", Raw(b"{}"))))
    return schema if isinstance(schema, dict) else {}


def _document(messages: tuple[Message, ...]) -> DataSpan | None:
    for position in reversed(range(len(messages))):
        if messages[position].role == "user":
            return DataSpan(position, 0, len(messages[position].content))
    return None


def _usage(usage: Usage | None) -> dict[str, object]:
    """Return the usage where it is known as far as OpenAI's schema demands."""
    if usage is None:
        return {}
    counts = usage.to_json()
    return {} if None in counts.values() else {"usage": counts}
