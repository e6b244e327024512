"""Whole answers: believed or not, and written for the client."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from casework.gateway.chat.calls import ChatReply
from casework.gateway.chat.completion import (
    completed_message,
    finish_of,
    logprobs_of,
    malformed,
    object_in,
    put_head_right,
    usage_of,
    usage_read,
)
from casework.gateway.chat.json_members import (
    EMPTY_TEXT,
    MISFIT,
    NOT_JSON,
    Members,
    Raw,
    check_utf8,
    digest_of,
    integer_or_none,
    is_list,
    items_of,
    members_of,
    says_something,
    text_or_none,
    without_lone_surrogates,
    written,
)
from casework.gateway.chat.request import ChatRequest
from casework.gateway.chat.told_errors import error_in
from casework.gateway.chat.wire_shapes import (
    UNSET,
    AnswerChoice,
    AnswerShape,
    read_answer,
    read_places,
)
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.messages import Usage
from casework.gateway.plan import Accepted, Rejected, Verdict
from casework.gateway.validation import CompiledSchema
from casework.strict_json import InvalidJSON, parse_replacing_surrogates

_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatAnswer:
    """An answer that fits OpenAI's schema, whatever the server left out."""

    completed: bytes = field(repr=False)
    """As the server wrote it, with what it left out; still with the server's name of the model."""
    servers_model: bytes = field(repr=False)
    """That name, as JSON."""
    usage: Usage | None
    dropped: tuple[str, ...] = ()
    """Members of the request that the server was not sent, or only in other terms."""

    def body(self, model: str) -> bytes:
        """Return what the client is sent.

        Args:
            model: As the client wrote it.
        """
        name = written(model)
        for colon in (b":", b": "):
            theirs = b'"model"' + colon + self.servers_model
            if self.completed.count(theirs) == 1 and self.completed.count(b'"model"') == 1:
                return self.completed.replace(theirs, b'"model":' + name)
        return written(members_of(self.completed) | {"model": Raw(name)})


ChatVerdict: TypeAlias = Verdict[ChatAnswer]


def judge_chat(reply: ChatReply, request: ChatRequest, *, created: int = 0) -> ChatVerdict:
    """Decide whether what came back is an answer.

    A choice that broke off at the limit of tokens, or that declines, is passed on as OpenAI passes
    it on; it is not held against the request's schema.

    Args:
        reply: As the server wrote it.
        request: What was asked.
        created: Time of the answer (Unix), for a server that names none.
    """
    try:
        completed, shape, usage = _read(reply.body, created)
    except ProviderFailure as failure:
        return Rejected(failure.kind)
    if not any(_says_something(choice, usage) for choice in shape.choices):
        return Rejected(FailureKind.EMPTY_RESPONSE, usage)
    if request.schema is not None:
        for choice in shape.choices:
            rejected = _against_schema(choice, request.schema, usage)
            if rejected is not None:
                return rejected
    answer = ChatAnswer(
        completed=completed,
        servers_model=bytes(shape.model),
        usage=usage,
        dropped=reply.dropped,
    )
    return Accepted(answer, usage)


def _read(body: bytes, created: int) -> tuple[bytes, AnswerShape, Usage | None]:
    """Read a body, completed where its shape is not OpenAI's yet."""
    try:
        check_utf8(body)
        shape = read_answer(body)
    except MISFIT:
        shape = None
    except NOT_JSON:
        shape, body = None, without_lone_surrogates(body.removeprefix(_BOM))
    filled = None if shape is None or _shares_index(shape) else _filled_in(body, shape)
    if shape is not None and filled is not None:
        return filled, shape, usage_read(shape.usage) if shape.usage is not UNSET else None
    try:
        check_utf8(body)
        body, usage = _completed(body, created)
        return body, read_answer(body), usage
    except NOT_JSON:
        raise malformed() from None


def _filled_in(body: bytes, shape: AnswerShape) -> bytes | None:
    """Add what messages lack at their ends, and touch nothing else; None where that takes more."""
    missing = [_missing(choice) for choice in shape.choices]
    if not any(missing):
        return body
    for placed, more in zip(read_places(body).choices, missing, strict=True):
        message = bytes(placed.message)
        if more and body.count(message) != 1:
            return None
        body = body.replace(message, message[:-1] + more + b"}")
    return body


def _missing(choice: AnswerChoice) -> bytes:
    refusal = b',"refusal":null' if choice.message.refusal is UNSET else b""
    annotations = b',"annotations":[]' if choice.message.annotations is UNSET else b""
    return refusal + annotations


def _shares_index(shape: AnswerShape) -> bool:
    choices = shape.choices
    return len(choices) > 1 and len({choice.index for choice in choices}) < len(choices)


def _completed(body: bytes, created: int) -> tuple[bytes, Usage | None]:
    top = members_of(body)
    failure = error_in(top, body)
    if failure is not None:
        raise failure
    choices = top.get("choices")
    if choices is None or not is_list(choices):
        raise malformed()
    visible, usage = usage_of(top.pop("usage", None))
    put_head_right(top)
    at = integer_or_none(top.get("created"))
    seed = digest_of(body)
    told: dict[str, object] = {
        **top,
        "id": text_or_none(top.get("id")) or f"chatcmpl-{seed}",
        "object": "chat.completion",
        "created": created if at is None else at,
        "model": top.get("model", EMPTY_TEXT),
        "choices": _choices(choices, seed),
    }
    if visible is not None:
        told["usage"] = visible
    return written(told), usage


def _choices(value: Raw, seed: str) -> list[dict[str, object]]:
    choices = [object_in(item) for item in items_of(value)]
    indexes = [integer_or_none(choice.get("index")) for choice in choices]
    if None in indexes or len(set(indexes)) < len(indexes):
        indexes = list(range(len(choices)))
    return [_choice(choice, index, seed) for index, choice in zip(indexes, choices, strict=True)]


def _choice(choice: Members, index: int | None, seed: str) -> dict[str, object]:
    message = completed_message(object_in(choice.get("message")), seed)
    otherwise = "stop"
    if message.get("tool_calls"):
        otherwise = "tool_calls"
    elif "function_call" in message:
        otherwise = "function_call"
    return {
        **choice,
        "index": index,
        "message": message,
        "finish_reason": finish_of(choice.get("finish_reason"), otherwise=otherwise),
        "logprobs": logprobs_of(choice.get("logprobs")),
    }


def _says_something(choice: AnswerChoice, usage: Usage | None) -> bool:
    """Tell whether there is anything in a choice, or a reason why there is not."""
    message = choice.message
    if message.content or message.refusal or choice.finish_reason == "content_filter":
        return True
    if choice.finish_reason == "length" and usage is not None and usage.completion_tokens:
        return True
    return any(
        part is not UNSET and part is not None and part != []
        for part in (message.tool_calls, message.function_call, message.audio)
    ) or any(
        thoughts is not UNSET and says_something(thoughts)
        for thoughts in (message.reasoning_content, message.reasoning)
    )


def _against_schema(
    choice: AnswerChoice, schema: CompiledSchema, usage: Usage | None
) -> Rejected | None:
    """Hold a choice against the schema where it is a text that the model itself ended."""
    message = choice.message
    if choice.finish_reason != "stop" or message.refusal or not message.content:
        return None
    if message.tool_calls is not UNSET and message.tool_calls:
        return None
    try:
        output, _ = parse_replacing_surrogates(message.content)
    except InvalidJSON:
        return Rejected(FailureKind.INVALID_JSON, usage)
    pointer = schema.check(output)
    if pointer is None:
        return None
    return Rejected(FailureKind.SCHEMA_VIOLATION, usage, pointer)
