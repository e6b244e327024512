"""Complete what servers leave out of OpenAI's shapes, alike for whole answers and for chunks.

Nothing that is there in OpenAI's form is touched. What a schema demands and a server forgot is
added; null stands where null may stand, and is left out where it may not. What cannot be put right
without a guess at what the model said is a malformed response.
"""

from __future__ import annotations

from typing import Final, get_args

from casework.gateway.chat.json_members import (
    MISFIT,
    NULL,
    Members,
    Raw,
    digest_of,
    integer_or_none,
    is_list,
    is_null,
    is_object,
    is_text,
    items_of,
    members_of,
    raw,
    says_something,
    text_or_none,
)
from casework.gateway.chat.wire_shapes import (
    FinishReason,
    ServiceTier,
    UsageShape,
    read_audio,
    read_logprobs,
    read_usage,
)
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.messages import Usage
from casework.gateway.openai_envelope import TOKENS_MAX

FINISH_REASONS: Final = frozenset(get_args(FinishReason))
_SERVICE_TIERS: Final = frozenset(get_args(ServiceTier))
_FINISHES: Final = {
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",
    "tool_call": "tool_calls",
    "tool_use": "tool_calls",
    "safety": "content_filter",
    "refusal": "content_filter",
    "recitation": "content_filter",
}
"""Other servers' words for why a model stopped; any further word means that it had ended."""

_DETAILS: Final = ("prompt_tokens_details", "completion_tokens_details")
_NO_ARGUMENTS: Final = Raw(b'"{}"')


def malformed() -> ProviderFailure:
    """Make the failure for a body that is not what the protocol promises."""
    return ProviderFailure(FailureKind.MALFORMED_RESPONSE)


def object_in(value: Raw | None) -> Members:
    """Take an object apart.

    Raises:
        ProviderFailure: It is none.
    """
    if value is None or not is_object(value):
        raise malformed()
    return members_of(value)


def put_head_right(top: Members) -> None:
    """Leave out what an answer and a chunk need not have, and have in a form that they must not."""
    if "system_fingerprint" in top and not is_text(top["system_fingerprint"]):
        del top["system_fingerprint"]
    if "service_tier" in top and text_or_none(top["service_tier"]) not in _SERVICE_TIERS:
        del top["service_tier"]


def finish_of(value: Raw | None, *, otherwise: str) -> Raw:
    """Return a reason for ending in OpenAI's words.

    One of those words is kept whatever stands beside it: OpenAI too says ``stop`` of an answer
    that holds tool calls.

    Args:
        value: As the server wrote it.
        otherwise: What any other word, or none, means here.

    Raises:
        ProviderFailure: The server says by it that it failed.
    """
    word = text_or_none(value)
    if word in FINISH_REASONS and value is not None:
        return value
    word = (word or "").lower()
    if word == "error":
        raise ProviderFailure(FailureKind.HTTP_5XX)
    return raw(_FINISHES.get(word, word if word in FINISH_REASONS else otherwise))


def logprobs_of(value: Raw | None) -> Raw:
    """Return log probabilities in OpenAI's form; null where they are in another."""
    if value is None or not is_object(value):
        return NULL
    for candidate in (value, raw({"content": NULL, "refusal": NULL} | members_of(value))):
        try:
            read_logprobs(candidate)
        except MISFIT:
            continue
        return candidate
    return NULL


def usage_of(value: Raw | None) -> tuple[Raw | None, Usage | None]:
    """Return the usage as a client may see it, and as it is recorded.

    A client sees it where all three counts are there; what else is null is left out of it. Zero
    stays zero, and unknown is never made of anything.
    """
    if value is None or not is_object(value):
        return None, None
    members = members_of(value)
    record = Usage(*(_count(members.get(name)) for name in _COUNTS))
    return _visible_usage(value, members), None if record == Usage() else record


def usage_read(shape: UsageShape) -> Usage:
    """Return a usage in OpenAI's form as it is recorded."""
    return Usage(
        _believed(shape.prompt_tokens),
        _believed(shape.completion_tokens),
        _believed(shape.total_tokens),
    )


_COUNTS: Final = ("prompt_tokens", "completion_tokens", "total_tokens")


def _visible_usage(value: Raw, members: Members) -> Raw | None:
    try:
        read_usage(value)
    except MISFIT:
        pass
    else:
        return value
    for name in _DETAILS:
        details = members.pop(name, None)
        if details is not None and is_object(details):
            known = members_of(details).items()
            members[name] = raw({word: count for word, count in known if not is_null(count)})
    put_right = raw(members)
    try:
        read_usage(put_right)
    except MISFIT:
        return None
    return put_right


def _count(value: Raw | None) -> int | None:
    count = integer_or_none(value)
    return None if count is None else _believed(count)


def _believed(count: int) -> int | None:
    return count if 0 <= count <= TOKENS_MAX else None


def put_text_right(message: Members) -> None:
    """Make content of parts one text; what a part holds of the model's thoughts moves beside it.

    Raises:
        ProviderFailure: The content is neither text nor parts of text, or absent.
    """
    content = message.get("content")
    if content is not None and is_list(content):
        _join_parts(message, content)
    elif content is not None and not is_text(content) and not is_null(content):
        raise malformed()
    if "refusal" in message and not is_text(message["refusal"]):
        message["refusal"] = NULL
    if "audio" in message and not is_null(message["audio"]):
        _put_audio_right(message)
    for name in ("tool_calls", "function_call"):
        if name in message and is_null(message[name]):
            del message[name]


def _put_audio_right(message: Members) -> None:
    try:
        read_audio(message["audio"])
    except MISFIT:
        del message["audio"]


def _join_parts(message: Members, content: Raw) -> None:
    texts: dict[str, list[str]] = {"text": [], "thinking": [], "refusal": []}
    for part in items_of(content):
        members = object_in(part)
        kind = text_or_none(members.get("type")) or ""
        kind = "text" if kind == "output_text" else kind
        if kind not in texts:
            raise malformed()
        texts[kind].append(_part_text(members.get(kind)))
    message["content"] = raw("".join(texts["text"]))
    if texts["thinking"] and "reasoning_content" not in message:
        message["reasoning_content"] = raw("".join(texts["thinking"]))
    if texts["refusal"] and not says_something(message.get("refusal")):
        message["refusal"] = raw("".join(texts["refusal"]))


def _part_text(value: Raw | None) -> str:
    if value is not None and is_list(value):
        return "".join(text_or_none(object_in(p).get("text")) or "" for p in items_of(value))
    return text_or_none(value) or ""


def put_function_right(function: Members, *, missing_arguments: Raw) -> None:
    """See that a call's arguments are a text, which holds JSON, and not the JSON itself."""
    arguments = function.get("arguments")
    if arguments is None or is_null(arguments):
        function["arguments"] = missing_arguments
    elif not is_text(arguments):
        function["arguments"] = raw(bytes(arguments).decode())


def calls_of(value: Raw, seed: str) -> list[dict[str, object]]:
    """Return whole tool calls, each with an id, a type, and arguments that are a text.

    Args:
        value: The calls, as the server sent them.
        seed: What ids are made of that the server forgot to give; short, as there may be many.

    Raises:
        ProviderFailure: One of them names no tool.
    """
    if not is_list(value):
        raise malformed()
    calls: list[dict[str, object]] = []
    for position, item in enumerate(items_of(value)):
        call = object_in(item)
        told: dict[str, object] = {**call}
        if not text_or_none(call.get("id")):
            told["id"] = f"call_{digest_of(f'{seed}{position}'.encode())}"
        if text_or_none(call.get("type")) != "custom":
            told["type"] = "function"
            told["function"] = _function(call.get("function"))
        calls.append(told)
    return calls


def _function(value: Raw | None) -> Members:
    function = object_in(value)
    if not is_text(function.get("name")):
        raise malformed()
    put_function_right(function, missing_arguments=_NO_ARGUMENTS)
    return function


def completed_message(message: Members, seed: str) -> dict[str, object]:
    """Return a whole message with all that a message must have.

    Raises:
        ProviderFailure: It cannot be completed.
    """
    put_text_right(message)
    told: dict[str, object] = {"content": NULL, "refusal": NULL, **message, "role": "assistant"}
    if not is_list(message.get("annotations")):
        told["annotations"] = []
    if "tool_calls" in message:
        told["tool_calls"] = calls_of(message["tool_calls"], seed)
    if "function_call" in message:
        told["function_call"] = _function(message["function_call"])
    return told
