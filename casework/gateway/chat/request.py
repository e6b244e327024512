"""A client's chat request: a typed head that is looked at, and a tail that is only passed on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from casework.config.privacy_profile import PrivacyProfile
from casework.errors import InvalidRequest
from casework.gateway.chat import request_schema
from casework.gateway.chat.json_members import (
    MISFIT,
    Members,
    Raw,
    integer_of,
    is_list,
    is_null,
    is_object,
    is_text,
    items_of,
    members_of,
    raw,
    text_of,
    written,
)
from casework.gateway.chat.refusals import missing, out_of_range, wrong_type
from casework.gateway.chat.request_head import (
    WITHHELD_TOLD_MAX,
    model_of,
    privacy_profile_of,
    top_of,
)
from casework.gateway.chat.wire_shapes import ROLES, read_messages
from casework.gateway.chat.withheld import FAMILIAR, is_withheld, shown
from casework.gateway.validation import CompiledSchema

CHOICES_MAX: Final = 128
"""Most answers that one request may ask for."""

_FLAGS: Final = {b"true": True, b"false": False, b"null": False}
_TOKEN_LIMITS: Final = ("max_completion_tokens", "max_tokens")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One request as a client sent it."""

    model: str
    """As the client wrote it; replies echo it."""
    members: Mapping[str, bytes] = field(repr=False)
    """What may be passed on, by member: each value is JSON, byte for byte as it came. Without
    ``model``, ``stream`` and ``stream_options``, and without what ``withheld`` names."""
    stream: bool = False
    include_usage: bool = False
    """Whether the client wants the usage at the end of a stream."""
    choices: int = 1
    """How many answers were asked for (``n``)."""
    schema: CompiledSchema | None = None
    """What each answer must satisfy, where ``response_format`` is a JSON schema."""
    privacy_profile: PrivacyProfile | None = None
    """Narrows the profile; a member of the body that is ours alone."""
    tokens_max: int | None = None
    """The request's own limit of the answer."""
    body_bytes: int = 0
    """Size of the body as it came."""
    withheld: tuple[str, ...] = ()
    """Members that are never passed on: addresses, credentials, and what is ours alone."""


def read_chat_request(body: bytes, *, engine: str) -> ChatRequest:
    """Read a client's request.

    Bare strings in a list of content become parts of text; then, and only then, ``messages`` is
    written anew. Of a member that stands twice the last counts, and it alone is passed on.

    Args:
        body: JSON, as it came.
        engine: What validates answers; see :func:`.validation.compile_schema`.

    Raises:
        InvalidRequest: The body is no such request. ``where`` names the member, ``code`` the kind
            of mistake; neither holds a value.
    """
    top = top_of(body)
    forwarded: dict[str, bytes] = {}
    withheld: list[str] = []
    for name, value in top.items():
        if name in FAMILIAR or not is_withheld(name):
            forwarded[name] = bytes(value)
        elif name not in _SEPARATE:
            withheld.append(shown(name))
    forwarded["messages"] = _messages(top)
    include_usage, unheard = _stream_options(top)
    form = forwarded.get("response_format")
    return ChatRequest(
        model=model_of(top),
        members=forwarded,
        stream=_flag(top.get("stream"), "stream"),
        include_usage=include_usage,
        choices=_choices(top),
        schema=request_schema.schema_of(form, engine) if form else None,
        privacy_profile=privacy_profile_of(top, body),
        tokens_max=_tokens_max(top),
        body_bytes=len(body),
        withheld=(*withheld, *unheard)[:WITHHELD_TOLD_MAX],
    )


_SEPARATE: Final = frozenset({"model", "stream", "stream_options"})
"""Members that each call says anew, in the words of its server."""


def _messages(top: Members) -> bytes:
    """Return the messages, with parts of text where a list of content holds bare strings."""
    value = top.get("messages")
    if value is None:
        raise missing("messages")
    if not is_list(value):
        raise wrong_type("messages", "a list")
    try:
        messages = read_messages(value)
    except MISFIT:
        messages = None
    if messages is None:
        raise _mistake_in(value)
    if not messages:
        raise InvalidRequest(
            "the list is empty", code="empty_array", where="messages", remedy="send a message"
        )
    bare = [
        position
        for position, message in enumerate(messages)
        if isinstance(message.content, list) and any(isinstance(p, str) for p in message.content)
    ]
    return _with_text_parts(value, bare) if bare else bytes(value)


def _with_text_parts(messages: Raw, positions: list[int]) -> bytes:
    items = items_of(messages)
    for position in positions:
        message = members_of(items[position])
        parts = [
            raw({"type": "text", "text": part}) if is_text(part) else part
            for part in items_of(message["content"])
        ]
        items[position] = raw(message | {"content": raw(parts)})
    return written(items)


def _mistake_in(messages: Raw) -> InvalidRequest:
    """Say which message is none."""
    for position, item in enumerate(items_of(messages)):
        where = f"messages[{position}]"
        if not is_object(item):
            return wrong_type(where, "an object")
        message = members_of(item)
        mistake = _mistake_in_role(message.get("role"), f"{where}.role")
        mistake = mistake or _mistake_in_content(message.get("content"), f"{where}.content")
        if mistake is not None:
            return mistake
    return wrong_type("messages", "a list of messages")


def _mistake_in_role(role: Raw | None, where: str) -> InvalidRequest | None:
    if role is None:
        return missing(where)
    if not is_text(role):
        return wrong_type(where, "a string")
    if text_of(role) not in ROLES:
        return out_of_range(where, f"use one of {', '.join(ROLES)}")
    return None


def _mistake_in_content(content: Raw | None, where: str) -> InvalidRequest | None:
    if content is None or is_text(content) or is_null(content):
        return None
    if not is_list(content):
        return wrong_type(where, "a string, null or a list of parts")
    for position, part in enumerate(items_of(content)):
        mistake = None if is_text(part) else _mistake_in_part(part, f"{where}[{position}]")
        if mistake is not None:
            return mistake
    return None


def _mistake_in_part(part: Raw, where: str) -> InvalidRequest | None:
    if not is_object(part):
        return wrong_type(where, "an object or a string")
    kind = members_of(part).get("type")
    if kind is None:
        return missing(f"{where}.type")
    return None if is_text(kind) else wrong_type(f"{where}.type", "a string")


def _flag(value: Raw | None, where: str) -> bool:
    if value is None:
        return False
    flag = _FLAGS.get(bytes(value))
    if flag is None:
        raise wrong_type(where, "true, false or null")
    return flag


def _stream_options(top: Members) -> tuple[bool, tuple[str, ...]]:
    """Return whether the usage is wanted, and the options that nobody is told."""
    value = top.get("stream_options")
    if value is None or is_null(value):
        return False, ()
    if not is_object(value):
        raise wrong_type("stream_options", "an object or null")
    options = members_of(value)
    wanted = _flag(options.pop("include_usage", None), "stream_options.include_usage")
    return wanted, tuple(f"stream_options.{shown(name)}" for name in options)


def _integer(top: Members, name: str) -> int | None:
    value = top.get(name)
    if value is None or is_null(value):
        return None
    try:
        return integer_of(value)
    except MISFIT:
        pass
    raise wrong_type(name, "a whole number or null")


def _choices(top: Members) -> int:
    count = _integer(top, "n")
    if count is None:
        return 1
    if not 1 <= count <= CHOICES_MAX:
        raise out_of_range("n", f"ask for 1 to {CHOICES_MAX} answers")
    return count


def _tokens_max(top: Members) -> int | None:
    """Return the limit of the answer; of two, the one that bounds it whichever a server heeds."""
    limits = [_integer(top, name) for name in _TOKEN_LIMITS]
    return max((limit for limit in limits if limit is not None and limit > 0), default=None)
