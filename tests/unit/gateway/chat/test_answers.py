"""A whole answer is believed or not, and reaches the client in OpenAI's shape, else unchanged."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given

from casework.gateway.chat.answers import ChatAnswer, judge_chat
from casework.gateway.chat.calls import ChatReply
from casework.gateway.chat.request import ChatRequest
from casework.gateway.errors import FailureKind
from casework.gateway.messages import Usage
from casework.gateway.plan import Accepted, Rejected
from casework.gateway.validation import compile_schema
from tests.support.messy_shapes import Shape, answers
from tests.support.openai_schemas import ANSWER, violations

ASKED = ChatRequest(model="ours", members={})
USAGE = {"prompt_tokens": 3, "completion_tokens": 0, "total_tokens": 3}
WHOLE: dict[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 7,
    "model": "theirs",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "Hello",
                "refusal": None,
                "annotations": [],
            },
            "logprobs": None,
            "finish_reason": "stop",
        }
    ],
    "usage": USAGE,
}


def judged(body: bytes | dict[str, Any], request: ChatRequest = ASKED) -> Any:
    """Judge a body."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return judge_chat(ChatReply(body=content, dropped=("seed",)), request, created=9)


def answer(body: bytes | dict[str, Any], request: ChatRequest = ASKED) -> ChatAnswer:
    """Judge a body that is an answer."""
    verdict = judged(body, request)
    assert isinstance(verdict, Accepted), verdict
    found: ChatAnswer = verdict.answer
    assert found.usage == verdict.usage
    return found


def rejection(body: bytes | dict[str, Any], request: ChatRequest = ASKED) -> Rejected:
    """Judge a body that is none."""
    verdict = judged(body, request)
    assert isinstance(verdict, Rejected), verdict
    return verdict


def sent(body: bytes | dict[str, Any]) -> Any:
    """Return what the client gets, which is valid by OpenAI's schema."""
    value = json.loads(answer(body).body("ours"))
    assert [] == violations(value, ANSWER)
    assert "ours" == value["model"]
    return value


def with_message(**members: Any) -> dict[str, Any]:
    """Return an answer whose message has these members."""
    choice = WHOLE["choices"][0]
    return {**WHOLE, "choices": [{**choice, "message": {**choice["message"], **members}}]}


def with_choice(**members: Any) -> dict[str, Any]:
    """Return an answer whose choice has these members."""
    return {**WHOLE, "choices": [{**WHOLE["choices"][0], **members}]}


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize("name", ["alias", "a/b:c@d", 'quo"te', "\u00e9\U0001f600", "back\\slash"])
def test_of_a_whole_answer_nothing_but_the_model_changes(
    separators: tuple[str, str], name: str
) -> None:
    """Every other byte is the server's, also of members that nobody here knows."""
    body = json.dumps({**WHOLE, "timings": {"ms": 1.50}}, separators=separators).encode()
    theirs, ours = (
        b'"model"' + separators[1].encode() + b'"theirs"',
        b'"model":' + json.dumps(name, ensure_ascii=False).encode(),
    )
    assert body.replace(theirs, ours) == answer(body).body(name)
    assert Usage(3, 0, 3) == answer(body).usage
    assert ("seed",) == answer(body).dropped


@pytest.mark.parametrize(
    "body",
    [
        {**WHOLE, "extra": {"model": "theirs"}},
        with_message(content='"model":"theirs"'),
        with_message(content='{"model": "theirs"}'),
        {**WHOLE, "x": ["model", "theirs"]},
        {n: v for n, v in WHOLE.items() if n != "model"},
    ],
)
def test_the_servers_name_elsewhere_is_left_alone(body: dict[str, Any]) -> None:
    """Only the answer's own member is the client's string."""
    assert {**body, "model": "ours"} == sent(body)


def test_what_a_server_left_out_is_added_and_the_rest_kept_byte_for_byte() -> None:
    """An answer as small servers write it is whole when it reaches the client."""
    body = (
        b'\xef\xbb\xbf{"model":"theirs","choices":[{"message":{"content":"\\u00e9\\/", "x":1.50}}],'
        b'"system_fingerprint":null,"timings":{ "ms":2e0 },"usage":{"prompt_tokens":5}}'
    )
    answered = answer(body)
    text = answered.body("ours")
    for kept in (b'"content":"\\u00e9\\/"', b'"x":1.50', b'"timings":{ "ms":2e0 }'):
        assert kept in text
    value = json.loads(text)
    assert [] == violations(value, ANSWER)
    made_id = value.pop("id")
    assert made_id.startswith("chatcmpl-")
    assert {
        "model": "ours",
        "object": "chat.completion",
        "created": 9,
        "timings": {"ms": 2.0},
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "logprobs": None,
                "message": {
                    "role": "assistant",
                    "content": "\u00e9/",
                    "refusal": None,
                    "annotations": [],
                    "x": 1.5,
                },
            }
        ],
    } == value
    assert Usage(5, None, None) == answered.usage


@pytest.mark.parametrize(
    ("usage", "visible", "record"),
    [
        (USAGE, USAGE, Usage(3, 0, 3)),
        (
            {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
            {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
            Usage(0, 0, 0),
        ),
        ({**USAGE, "cost": 0.5}, {**USAGE, "cost": 0.5}, Usage(3, 0, 3)),
        ({**USAGE, "prompt_tokens_details": None}, USAGE, Usage(3, 0, 3)),
        (
            {**USAGE, "completion_tokens_details": {"reasoning_tokens": 1, "audio_tokens": None}},
            {**USAGE, "completion_tokens_details": {"reasoning_tokens": 1}},
            Usage(3, 0, 3),
        ),
        ({"prompt_tokens": 3}, None, Usage(3, None, None)),
        ({**USAGE, "total_tokens": None}, None, Usage(3, 0, None)),
        ({**USAGE, "total_tokens": -1}, {**USAGE, "total_tokens": -1}, Usage(3, 0, None)),
        ({}, None, None),
        (None, None, None),
        ("many", None, None),
    ],
)
def test_usage_is_the_servers_or_none(
    usage: Any, visible: dict[str, Any] | None, record: Usage | None
) -> None:
    """Unknown is left out, zero stays zero, and nothing is added up or guessed."""
    body = {**WHOLE, "usage": usage}
    assert visible == sent(body).get("usage")
    assert record == answer(body).usage


@pytest.mark.parametrize(
    ("finish", "expected"),
    [
        ("stop", "stop"),
        ("length", "length"),
        ("content_filter", "content_filter"),
        ("function_call", "function_call"),
        ("eos_token", "stop"),
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("model_length", "length"),
        ("SAFETY", "content_filter"),
        ("tool_use", "tool_calls"),
        (None, "stop"),
        (7, "stop"),
    ],
)
def test_a_reason_for_ending_is_told_in_openais_words(finish: Any, expected: str) -> None:
    """SDKs with closed types refuse any other word."""
    assert expected == sent(with_choice(finish_reason=finish))["choices"][0]["finish_reason"]


CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("finish", "expected"), [("stop", "stop"), (None, "tool_calls"), ("eos", "tool_calls")]
)
def test_a_stop_beside_tool_calls_is_preserved_and_no_reason_is_completed(
    finish: str | None, expected: str
) -> None:
    """OpenAI itself says stop at times; only where a server says nothing is it said for it."""
    body = with_message(content=None, tool_calls=[CALL])
    body["choices"][0]["finish_reason"] = finish
    assert expected == sent(body)["choices"][0]["finish_reason"]


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        (CALL, "{}"),
        ({"function": {"name": "f", "arguments": '{"a": 1}'}}, '{"a": 1}'),
        ({"id": "", "type": None, "function": {"name": "f", "arguments": {"a": 1.5}}}, '{"a":1.5}'),
        ({"id": None, "function": {"name": "f"}}, "{}"),
        ({"function": {"name": "f", "arguments": None}}, "{}"),
    ],
)
def test_a_tool_call_has_an_id_a_type_and_arguments_that_are_a_text(
    call: dict[str, Any], arguments: str
) -> None:
    """Whatever a server leaves out or writes as an object."""
    body = json.dumps(with_message(content=None, tool_calls=[call, call]), separators=(",", ":"))
    calls = sent(body.encode())["choices"][0]["message"]["tool_calls"]
    assert [arguments] * 2 == [call["function"]["arguments"] for call in calls]
    if call.get("id"):
        assert [CALL, CALL] == calls
    else:
        assert 2 == len({call["id"] for call in calls})


def test_thousands_of_calls_without_ids_get_theirs_at_once() -> None:
    """A long answer is gone through once, not once for each of its calls."""
    call = {"function": {"name": "f", "arguments": "x" * 100}}
    begun = time.process_time()
    calls = sent(with_message(content=None, tool_calls=[call] * 10_000))["choices"][0]["message"]
    assert 10_000 == len({call["id"] for call in calls["tool_calls"]})
    assert time.process_time() - begun < 2.0


def test_a_free_text_tool_is_passed_on() -> None:
    """A custom call stays as it is."""
    custom = {"id": "c", "type": "custom", "custom": {"name": "f", "input": "x"}}
    body = with_message(content=None, tool_calls=[custom])
    told = json.loads(answer(body).body("ours"))
    assert [custom] == told["choices"][0]["message"]["tool_calls"]


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_thoughts_keep_their_name(name: str) -> None:
    """Both spellings pass, with and without an answer beside them."""
    for content in ("Hello", None, ""):
        message = sent(with_message(content=content, **{name: "hm"}))["choices"][0]["message"]
        assert ("hm", content) == (message[name], message["content"])


def test_content_of_parts_becomes_one_text_and_thoughts_move_beside_it() -> None:
    """OpenAI's schema has no list there; nothing of it is lost."""
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "Hel"},
        {"type": "output_text", "text": "lo"},
    ]
    message = sent(with_message(content=parts))["choices"][0]["message"]
    assert ("Hello", "hm") == (message["content"], message["reasoning_content"])


def test_several_answers_have_indexes_of_their_own() -> None:
    """All numbered 0, they are numbered anew in their order."""
    choices = [{**WHOLE["choices"][0], "index": 0} for _ in range(3)]
    value = sent({**WHOLE, "choices": choices})
    assert [0, 1, 2] == [choice["index"] for choice in value["choices"]]
    value = sent(
        {**WHOLE, "choices": [{**c, "index": i} for c, i in zip(choices, (2, 0, 1), strict=True)]}
    )
    assert [2, 0, 1] == [choice["index"] for choice in value["choices"]]


def test_log_probabilities_are_kept_in_openais_form_only() -> None:
    """A list that lacks its sister gets it; another form is null."""
    token = {"token": "a", "logprob": -1, "bytes": None, "top_logprobs": []}
    for given_logprobs, expected in (
        ({"content": [token], "refusal": None}, {"content": [token], "refusal": None}),
        ({"content": [token]}, {"content": [token], "refusal": None}),
        ({"tokens": ["a"], "token_logprobs": [-1]}, {
            "tokens": ["a"], "token_logprobs": [-1], "content": None, "refusal": None,
        }),
        ({"content": [{"token": "a"}]}, None),
        ([], None),
    ):  # fmt: skip
        value = sent(with_choice(logprobs=given_logprobs))
        assert expected == value["choices"][0]["logprobs"]


@pytest.mark.parametrize(
    "message",
    [
        {"content": ""},
        {"content": None},
        {"content": None, "tool_calls": []},
        {"content": "", "refusal": "", "reasoning": ""},
        {"content": None, "tool_calls": None, "function_call": None, "audio": None},
        {"content": []},
    ],
)
@pytest.mark.parametrize("finish", ["stop", "length", "tool_calls"])
def test_an_answer_without_a_word_is_none(message: dict[str, Any], finish: str) -> None:
    """HTTP 200 or not: the round asks the next target."""
    body = with_message(**message)
    body["choices"][0]["finish_reason"] = finish
    assert Rejected(FailureKind.EMPTY_RESPONSE, Usage(3, 0, 3)) == rejection(body)


def test_no_choices_are_no_answer() -> None:
    """An empty list is empty."""
    assert FailureKind.EMPTY_RESPONSE is rejection({**WHOLE, "choices": []}).kind


@pytest.mark.parametrize(
    "body",
    [
        with_message(content=None, refusal="No."),
        with_message(content=None, function_call={"name": "f", "arguments": "{}"}),
        with_message(
            content=None,
            audio={"id": "a", "expires_at": 1, "data": "", "transcript": "Hello"},
        ),
        with_choice(
            finish_reason="content_filter",
            message={"role": "assistant", "content": None, "refusal": None},
        ),
        {
            **with_choice(
                finish_reason="length",
                message={"role": "assistant", "content": "", "refusal": None},
            ),
            "usage": {**USAGE, "completion_tokens": 8},
        },
    ],
)
def test_what_says_why_there_is_no_text_is_an_answer(body: dict[str, Any]) -> None:
    """A refusal, a call, a sound, a filter, and tokens used up in thought."""
    assert sent(body)["choices"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"null",
        b'"text"',
        b'{"choices":[',
        b"\xff",
        b'{"choices":"none"}',
        b'{"id":"x"}',
        b'{"choices":[1]}',
        b'{"choices":[{"text":"old"}]}',
        b'{"choices":[{"message":"x"}]}',
        b'{"choices":[{"message":{"content":5}}]}',
        b'{"choices":[{"message":{"content":[5]}}]}',
        b'{"choices":[{"message":{"content":[{"type":"image"}]}}]}',
        b'{"choices":[{"message":{"tool_calls":{}}}]}',
        b'{"choices":[{"message":{"tool_calls":[{}]}}]}',
        b'{"choices":[{"message":{"tool_calls":[{"function":{}}]}}]}',
        b'{"choices":[{"message":{"content":"\xff"}}]}',
        b'{"choices":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_what_is_no_such_envelope_is_malformed(body: bytes) -> None:
    """Nothing is guessed at, and nothing else is raised."""
    assert FailureKind.MALFORMED_RESPONSE is rejection(body).kind


def test_half_a_character_pair_becomes_a_replacement_character() -> None:
    """UTF-8 cannot hold it; whole pairs and escaped backslashes stay."""
    body = json.dumps(with_message(content="X")).encode().replace(
        b'"X"', b'"a\\ud83d b\\\\ud83d \\ud83d\\ude00\\udc00"'
    )  # fmt: skip
    content = sent(body)["choices"][0]["message"]["content"]
    assert "a\ufffd b\\ud83d \U0001f600\ufffd" == content


@pytest.mark.parametrize("at", ["top", "choice"])
def test_an_error_with_status_200_is_an_error(at: str) -> None:
    """It is told by its codes; where a server tells of it beside choices, too."""
    if at == "top":
        body = {**WHOLE, "error": {"code": "context_length_exceeded", "message": "canary"}}
        assert FailureKind.CONTEXT_TOO_LONG is rejection(body).kind
    else:
        body = with_choice(finish_reason="error", error={"code": 502})
        assert FailureKind.HTTP_5XX is rejection(body).kind


SCHEMA = compile_schema(
    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
)
JUDGED = ChatRequest(model="ours", members={}, schema=SCHEMA)


@pytest.mark.parametrize(
    ("content", "kind", "pointer"),
    [
        ('{"a": 1', FailureKind.INVALID_JSON, None),
        ('```json\n{"a": 1}\n```', FailureKind.INVALID_JSON, None),
        ('{"a": 1, "a": 2}', FailureKind.INVALID_JSON, None),
        ('{"a": "x"}', FailureKind.SCHEMA_VIOLATION, "/properties/a/type"),
        ("{}", FailureKind.SCHEMA_VIOLATION, "/required"),
    ],
)
def test_a_text_that_breaks_the_requests_schema_is_no_answer(
    content: str, kind: FailureKind, pointer: str | None
) -> None:
    """Each choice is held against it, by the strict reading of JSON."""
    body = with_message(content=content)
    good = with_message(content='{"a": 1}')["choices"][0]
    for choices in ([body["choices"][0]], [{**good, "index": 1}, body["choices"][0]]):
        found = rejection({**body, "choices": choices}, JUDGED)
        assert Rejected(kind, Usage(3, 0, 3), pointer) == found


@pytest.mark.parametrize(
    "body",
    [
        with_message(content=' {"a": 1}\n'),
        with_message(content='{"a": 1, "b": "\\ud83d"}'),
        with_message(content=None, refusal="No."),
        with_message(content=None, tool_calls=[CALL]),
        with_message(content="I shall look.", tool_calls=[CALL]),
        with_choice(
            finish_reason="length",
            message={"role": "assistant", "content": '{"a": ', "refusal": None},
        ),
    ],
)
def test_what_the_schema_is_not_for_is_passed_on(body: dict[str, Any]) -> None:
    """Refusals, tool calls and texts that the limit cut off are told as OpenAI tells them."""
    assert answer(body, JUDGED)


@given(answers())
def test_any_answer_reaches_the_client_in_openais_shape(body: Shape) -> None:
    """Whatever a server leaves out or writes oddly, what is accepted is valid."""
    verdict = judged(body)
    if isinstance(verdict, Rejected):
        assert FailureKind.EMPTY_RESPONSE is verdict.kind
        return
    value = json.loads(verdict.answer.body("ours"))
    assert [] == violations(value, ANSWER)
    assert "ours" == value["model"]
    assert len(body["choices"]) == len(value["choices"])
    for theirs, ours in zip(body["choices"], value["choices"], strict=True):
        assert theirs.get("x", ...) == ours.get("x", ...)
        if isinstance(theirs["message"].get("content"), str):
            assert theirs["message"]["content"] == ours["message"]["content"]
