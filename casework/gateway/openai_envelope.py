"""The shapes of an OpenAI-compatible chat call: what is sent, and what may come back."""

from __future__ import annotations

import json
from typing import Any, Final

from casework.config.providers import ProviderConfig
from casework.errors import InvalidRequest
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.messages import PARAMETERS, Finish, ProviderCall, ProviderReply, Usage
from casework.strict_json import JSON, JSONObject, object_without_duplicates

TOKENS_MAX: Final = 10**12
"""Largest token count that is believed."""

_FINISHES: Final = {
    "stop": Finish.STOP,
    "length": Finish.LENGTH,
    "content_filter": Finish.REFUSED,
}
_TEXT_PARTS: Final = frozenset({"text", "output_text"})


def request_body(call: ProviderCall, config: ProviderConfig) -> bytes:
    """Write the body of a chat call.

    Raises:
        ProviderFailure: It is larger than the provider's entry allows; nothing was sent.
        InvalidRequest: A parameter is none that a request may set, or the call holds what UTF-8
            or JSON cannot hold.
    """
    messages: list[JSON] = [message.to_json() for message in call.messages]
    body: JSONObject = {"model": call.model, "messages": messages}
    for name, value in call.parameters.items():
        if name not in PARAMETERS:
            raise InvalidRequest(
                "a parameter is none that a request may set", code="parameter_not_allowed"
            )
        body[config.token_parameter if name == "max_tokens" else name] = value
    response_format = _response_format(call, config)
    if response_format is not None:
        body["response_format"] = response_format
    try:
        content = json.dumps(
            body, ensure_ascii=False, separators=(",", ":"), allow_nan=False
        ).encode("utf-8")
    except ValueError:
        content = b""
    if not content:
        raise InvalidRequest(
            "the request holds a lone surrogate or a number that is not finite",
            remedy="import the document anew, as UTF-8",
        )
    if len(content) > config.request_bytes_max:
        raise ProviderFailure(FailureKind.REQUEST_TOO_LARGE, sent=False)
    return content


def reply_from(body: bytes) -> ProviderReply:
    """Read the envelope around an answer; the answer itself is not judged.

    Tolerant where that is harmless: a missing or odd usage is unknown, an unknown reason for
    ending is unknown, and members that mean nothing here are passed over.

    Raises:
        ProviderFailure: It is no such envelope, or tells of an error (``malformed_response``).
    """
    try:
        envelope = json.loads(body.decode("utf-8-sig"), object_pairs_hook=object_without_duplicates)
    except (ValueError, RecursionError):
        envelope = None
    choices = envelope.get("choices") if isinstance(envelope, dict) else None
    if not isinstance(choices, list) or envelope.get("error"):
        raise ProviderFailure(FailureKind.MALFORMED_RESPONSE)
    usage = _usage(envelope.get("usage"))
    if not choices:
        return ProviderReply(text="", finish=Finish.UNKNOWN, usage=usage)
    choice = choices[0]
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict):
        raise ProviderFailure(FailureKind.MALFORMED_RESPONSE)
    reason = choice.get("finish_reason")
    finish = _FINISHES.get(reason, Finish.UNKNOWN) if isinstance(reason, str) else Finish.UNKNOWN
    text, declined = _text(message.get("content"))
    if declined or _says_something(message.get("refusal")):
        finish = Finish.REFUSED
    return ProviderReply(text=text, finish=finish, usage=usage)


def _response_format(call: ProviderCall, config: ProviderConfig) -> JSONObject | None:
    match config.response_format:
        case "json_schema":
            wanted: JSONObject = {
                "name": call.schema_name,
                "strict": True,
                "schema": call.output_schema,
            }
            return {"type": "json_schema", "json_schema": wanted}
        case "json_object":
            return {"type": "json_object"}
        case "none":
            return None


def _text(content: Any) -> tuple[str, bool]:
    """Return the text of a message, and whether a part of it is a refusal."""
    if content is None:
        return "", False
    if isinstance(content, str):
        return content, False
    if not isinstance(content, list):
        raise ProviderFailure(FailureKind.MALFORMED_RESPONSE)
    texts: list[str] = []
    declined = False
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "refusal":
            declined = declined or _says_something(part.get("refusal"))
        elif kind in _TEXT_PARTS and isinstance(part.get("text"), str):
            texts.append(part["text"])
        else:
            raise ProviderFailure(FailureKind.MALFORMED_RESPONSE)
    return "".join(texts), declined


def _says_something(text: Any) -> bool:
    return isinstance(text, str) and bool(text.strip())


def _usage(value: Any) -> Usage | None:
    if not isinstance(value, dict):
        return None
    usage = Usage(
        _count(value.get("prompt_tokens")),
        _count(value.get("completion_tokens")),
        _count(value.get("total_tokens")),
    )
    return None if usage == Usage() else usage


def _count(value: Any) -> int | None:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= TOKENS_MAX:
        return value
    return None
