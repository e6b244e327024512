"""The envelope of a chat call is written exactly and read with care."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.config import ProviderConfig
from casework.errors import InvalidRequest
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.messages import Finish, Message, ProviderCall, ProviderReply, Usage
from casework.gateway.openai_envelope import reply_from, request_body
from casework.strict_json import JSONObject

SCHEMA: JSONObject = {
    "type": "object",
    "properties": {"z": {"type": "string"}, "a": {"const": 1}},
    "additionalProperties": False,
}
CALL = ProviderCall(
    model="m",
    messages=(
        Message("system", "Answer."),
        Message("user", "H\u00e9llo {x!r} %s \u2028 \U0001f600"),
    ),
    output_schema=SCHEMA,
    schema_name="answer",
    parameters={"temperature": 0, "max_tokens": 7},
    data=None,
)


def config(**changes: Any) -> ProviderConfig:
    """Return a provider's entry."""
    fields: dict[str, Any] = {
        "id": "p",
        "adapter": "openai_compatible",
        "base_url": "http://127.0.0.1/v1",
        "model": "m",
    }
    return ProviderConfig(**{**fields, **changes})


def test_a_body_holds_what_was_asked_and_nothing_else() -> None:
    """Model, messages, parameters and format are sent; the schema byte for byte."""
    body = request_body(CALL, config())
    assert {
        "model": "m",
        "messages": [message.to_json() for message in CALL.messages],
        "temperature": 0,
        "max_completion_tokens": 7,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": SCHEMA},
        },
    } == json.loads(body)
    assert json.dumps(SCHEMA, separators=(",", ":")).encode() in body
    assert "H\u00e9llo {x!r} %s \u2028 \U0001f600".encode() in body


@pytest.mark.parametrize(
    ("choice", "expected"),
    [("json_object", {"type": "json_object"}), ("none", None)],
)
def test_the_format_asked_for_follows_the_entry(choice: str, expected: object) -> None:
    """There is no silent downgrade: the entry decides."""
    body = json.loads(request_body(CALL, config(response_format=choice)))
    assert expected == body.get("response_format")


def test_the_token_limit_goes_under_the_name_that_the_server_knows() -> None:
    """The limit is sent once, under the configured name."""
    body = json.loads(request_body(CALL, config(token_parameter="max_tokens")))
    assert 7 == body["max_tokens"]
    assert "max_completion_tokens" not in body


@pytest.mark.parametrize("name", ["model", "messages", "stream", "base_url", "user", "n"])
def test_a_parameter_cannot_reach_anything_else(name: str) -> None:
    """Only sampling parameters pass."""
    with pytest.raises(InvalidRequest) as caught:
        request_body(replace(CALL, parameters={name: "x"}), config())
    assert "parameter_not_allowed" == caught.value.code


def test_the_size_limit_is_exact() -> None:
    """One byte over the limit is not sent."""
    size = len(request_body(CALL, config()))
    assert request_body(CALL, config(request_bytes_max=size))
    with pytest.raises(ProviderFailure) as caught:
        request_body(CALL, config(request_bytes_max=size - 1))
    assert (FailureKind.REQUEST_TOO_LARGE, False) == (caught.value.kind, caught.value.sent)


@pytest.mark.parametrize(
    "call",
    [
        replace(CALL, messages=(Message("user", "canary \ud83d"),)),
        replace(CALL, parameters={"temperature": float("nan")}),
    ],
)
def test_what_json_cannot_hold_is_refused_in_our_words(call: ProviderCall) -> None:
    """The error repeats nothing of the document."""
    with pytest.raises(InvalidRequest) as caught:
        request_body(call, config())
    assert "canary" not in str(caught.value)
    assert caught.value.__context__ is None


def envelope(message: Any = None, **members: Any) -> bytes:
    """Write a reply with one choice."""
    choice = {"index": 0, "finish_reason": "stop", "message": message or {"content": "{}"}}
    return json.dumps({"choices": [choice], **members}).encode()


def test_a_plain_reply_is_read() -> None:
    """Text, reason and usage come out."""
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    assert ProviderReply(text="{}", finish=Finish.STOP, usage=Usage(3, 4, 7)) == reply_from(
        envelope(usage=usage, id="x", object="chat.completion", extra=[1])
    )


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("stop", Finish.STOP),
        ("length", Finish.LENGTH),
        ("content_filter", Finish.REFUSED),
        ("tool_calls", Finish.UNKNOWN),
        ("STOP", Finish.UNKNOWN),
        (None, Finish.UNKNOWN),
        (7, Finish.UNKNOWN),
        ([], Finish.UNKNOWN),
    ],
)
def test_reasons_for_ending_are_mapped(reason: object, expected: Finish) -> None:
    """A reason that is not known is unknown, not a success or a failure."""
    body = {"choices": [{"finish_reason": reason, "message": {"content": "x"}}]}
    assert expected is reply_from(json.dumps(body).encode()).finish


@pytest.mark.parametrize(
    ("message", "text", "finish"),
    [
        ({"content": "a"}, "a", Finish.STOP),
        ({"content": None}, "", Finish.STOP),
        ({"role": "assistant"}, "", Finish.STOP),
        ({"content": []}, "", Finish.STOP),
        (
            {"content": [{"type": "text", "text": "a"}, {"type": "output_text", "text": "b"}]},
            "ab",
            Finish.STOP,
        ),
        ({"content": [{"type": "refusal", "refusal": "no"}]}, "", Finish.REFUSED),
        ({"content": None, "refusal": "no"}, "", Finish.REFUSED),
        ({"content": "a", "refusal": ""}, "a", Finish.STOP),
        ({"content": "a", "refusal": None}, "a", Finish.STOP),
        ({"content": "a", "reasoning_content": '{"b": 1}'}, "a", Finish.STOP),
    ],
)
def test_content_comes_as_text_or_as_parts(message: object, text: str, finish: Finish) -> None:
    """Both shapes of content are read; reasoning is no content."""
    reply = reply_from(envelope(message))
    assert (text, finish) == (reply.text, reply.finish)


def test_no_choices_is_an_empty_text() -> None:
    """A reply without a choice is kept apart from a broken one."""
    reply = reply_from(b'{"choices": [], "usage": {"prompt_tokens": 2}}')
    assert ProviderReply(text="", finish=Finish.UNKNOWN, usage=Usage(2)) == reply


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"<html>502</html>",
        b"{",
        b"\xff",
        b'{"choices": null}',
        b'{"choices": {}}',
        b'{"error": {"message": "canary"}}',
        b'{"choices": [{"message": {"content": "a"}}], "error": {"message": "canary"}}',
        b'{"choices": [null]}',
        b'{"choices": [{}]}',
        b'{"choices": [{"message": null}]}',
        b'{"choices": [{"message": "x"}]}',
        b'{"choices": [{"message": {"content": 7}}]}',
        b'{"choices": [{"message": {"content": {}}}]}',
        b'{"choices": [{"message": {"content": ["x"]}}]}',
        b'{"choices": [{"message": {"content": [{"type": "image_url"}]}}]}',
        b'{"choices": [{"message": {"content": [{"type": "text", "text": 1}]}}]}',
        b'{"choices": [{"message": {"content": "a", "content": "b"}}]}',
        b'{"choices": [{"message": {"content": "a"}}], "choices": []}',
        b'data: {"choices": []}\n\n',
        b"[" * 200_000,
        b'{"choices": [], "x": ' + b"9" * 10_000 + b"}",
    ],
)
def test_what_is_no_envelope_is_malformed(body: bytes) -> None:
    """A body that the protocol does not promise is no answer, and nothing of it is repeated."""
    with pytest.raises(ProviderFailure) as caught:
        reply_from(body)
    assert (FailureKind.MALFORMED_RESPONSE, True) == (caught.value.kind, caught.value.sent)
    assert "canary" not in str(caught.value)


def test_a_byte_order_mark_is_harmless() -> None:
    """Some servers begin with one."""
    assert "{}" == reply_from(b"\xef\xbb\xbf" + envelope()).text


def test_half_a_character_reaches_the_judge() -> None:
    """A lone surrogate is for the judgement of the answer to replace and count."""
    body = b'{"choices": [{"message": {"content": "\\ud83d"}}]}'
    assert "\ud83d" == reply_from(body).text


@pytest.mark.parametrize(
    "count", [True, -1, 1.0, 1.5, "3", None, [], {}, float("nan"), float("inf"), 10**13]
)
def test_odd_counts_are_unknown(count: object) -> None:
    """A count that is no whole number from zero is null, and spoils no other."""
    reply = reply_from(envelope(usage={"prompt_tokens": count, "completion_tokens": 0}))
    assert Usage(None, 0, None) == reply.usage


@pytest.mark.parametrize("usage", [None, {}, [], 3, {"prompt_tokens": None}, {"x": 1}])
def test_no_usage_is_none(usage: object) -> None:
    """Unknown is null, never zero."""
    assert reply_from(envelope(usage=usage)).usage is None


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
CHOICES = st.fixed_dictionaries(
    {},
    optional={
        "message": st.fixed_dictionaries(
            {}, optional={"content": JSON_VALUES, "refusal": JSON_VALUES}
        ),
        "finish_reason": JSON_VALUES,
    },
)


@given(
    st.fixed_dictionaries(
        {}, optional={"choices": st.lists(CHOICES) | JSON_VALUES, "usage": JSON_VALUES}
    )
    | JSON_VALUES
)
def test_every_body_is_a_reply_or_malformed(value: object) -> None:
    """Nothing that a server can write breaks the adapter in any other way."""
    kind: FailureKind | None = None
    try:
        reply_from(json.dumps(value).encode())
    except ProviderFailure as failure:
        kind = failure.kind
    assert kind in {None, FailureKind.MALFORMED_RESPONSE}
