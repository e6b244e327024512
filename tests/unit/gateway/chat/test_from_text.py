"""Adapters that only complete texts answer chat, and say what they were not told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from casework.gateway.chat.answers import judge_chat
from casework.gateway.chat.calls import ChatCall, ChatProvider
from casework.gateway.chat.from_text import TextChat
from casework.gateway.chat.request import ChatRequest, read_chat_request
from casework.gateway.chat.streams import opened_stream
from casework.gateway.chat.text_calls import TextCall, text_call
from casework.gateway.clock import Deadline, ManualClock
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.messages import (
    Credential,
    DataSpan,
    Finish,
    Message,
    ProviderCall,
    ProviderReply,
    Usage,
)
from casework.gateway.plan import Accepted
from tests.support.openai_schemas import ANSWER, CHUNK, violations

KEY = Credential("K#1", "s")
CLOCK = ManualClock()
DEADLINE = Deadline.after(30, CLOCK)


class Completer:
    """An adapter of a user's own: it completes texts and knows nothing of chat."""

    def __init__(self, reply: ProviderReply | ProviderFailure) -> None:
        self.reply = reply
        self.calls: list[tuple[ProviderCall, Credential | None, Deadline]] = []

    async def complete(
        self, call: ProviderCall, *, credential: Credential | None, deadline: Deadline
    ) -> ProviderReply:
        self.calls.append((call, credential, deadline))
        if isinstance(self.reply, ProviderFailure):
            raise self.reply
        return self.reply

    async def aclose(self) -> None:
        """Let go of nothing."""


def asked(messages: Any = None, **members: Any) -> tuple[ChatRequest, ChatCall]:
    """Return a client's request and the call that is made of it."""
    body = {"model": "ours", "messages": messages or [{"role": "user", "content": "u"}], **members}
    request = read_chat_request(json.dumps(body).encode(), engine="jsonschema-rs")
    return request, ChatCall(model="theirs", members=request.members)


def wanted(messages: Any = None, **members: Any) -> TextCall:
    """Return what an adapter of texts is asked."""
    return text_call(asked(messages, **members)[1])


def test_the_bridge_is_a_provider_of_chat() -> None:
    """Whoever asks it need not know that there is none behind it."""
    assert isinstance(TextChat(Completer(ProviderFailure(FailureKind.UNKNOWN))), ChatProvider)


async def test_a_text_becomes_a_whole_answer() -> None:
    """The adapter is asked once, with the key and within the deadline."""
    adapter = Completer(ProviderReply(text="Hi", finish=Finish.STOP, usage=Usage(1, 2, 3)))
    request, call = asked(seed=4, user="me", stream=False)
    reply = await TextChat(adapter, new_id=lambda: "id").chat(
        call, credential=KEY, deadline=DEADLINE
    )
    assert [(KEY, DEADLINE)] == [(key, deadline) for _, key, deadline in adapter.calls]
    verdict = judge_chat(reply, request)
    assert isinstance(verdict, Accepted)
    assert (("user",), Usage(1, 2, 3)) == (verdict.answer.dropped, verdict.usage)
    value = json.loads(verdict.answer.body("ours"))
    assert [] == violations(value, ANSWER)
    message = dict[str, Any](role="assistant", content="Hi", refusal=None, annotations=[])
    assert {
        "id": "chatcmpl-id",
        "object": "chat.completion",
        "created": int(CLOCK.now().timestamp()),
        "model": "ours",
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3},
    } == value


@pytest.mark.parametrize("usage", [Usage(1, 2, 3), Usage(1), None])
async def test_a_text_becomes_a_stream(usage: Usage | None) -> None:
    """Role, text, end; then the usage where it is known as a whole."""
    adapter = Completer(ProviderReply(text="Hi", finish=Finish.LENGTH, usage=usage))
    request, call = asked(user="me", stream=True, stream_options={"include_usage": True})
    stream = await opened_stream(
        TextChat(adapter),
        call,
        credential=KEY,
        deadline=DEADLINE,
        request=request,
        idle_seconds=30,
        clock=CLOCK,
    )
    whole = b"".join([piece async for piece in stream.pieces()])
    *chunks, done = [e.removeprefix(b"data: ") for e in whole[:-2].split(b"\n\n")]
    values = [json.loads(chunk) for chunk in chunks]
    assert (b"[DONE]", ("user",)) == (done, stream.dropped)
    assert [] == [v for value in values for v in violations(value, CHUNK)]
    choices = [choice for value in values for choice in value["choices"]]
    assert [{"role": "assistant", "content": ""}, {"content": "Hi"}, {}] == [
        choice["delta"] for choice in choices
    ]
    assert [None, None, "length"] == [choice["finish_reason"] for choice in choices]
    assert (4 if usage == Usage(1, 2, 3) else 3) == len(values)


@pytest.mark.parametrize("method", ["chat", "open_stream"])
async def test_a_failure_stays_what_it_is(method: str) -> None:
    """The bridge adds nothing to it."""
    failure = ProviderFailure(FailureKind.NO_EVIDENCE)
    bridge = TextChat(Completer(failure))
    with pytest.raises(ProviderFailure) as caught:
        await getattr(bridge, method)(asked()[1], credential=None, deadline=DEADLINE)
    assert failure is caught.value


@pytest.mark.parametrize(
    ("finish", "expected"),
    [
        (Finish.STOP, "stop"),
        (Finish.LENGTH, "length"),
        (Finish.REFUSED, "content_filter"),
        (Finish.UNKNOWN, "stop"),
    ],
)
async def test_every_reason_for_ending_has_its_word(finish: Finish, expected: str) -> None:
    """The client is told in OpenAI's words."""
    bridge = TextChat(Completer(ProviderReply(text="x", finish=finish)))
    reply = await bridge.chat(asked()[1], credential=None, deadline=DEADLINE)
    assert expected == json.loads(reply.body)["choices"][0]["finish_reason"]


def test_roles_are_mapped_and_parts_of_text_joined() -> None:
    """Six roles become three; the last message of the user is the document."""
    found = wanted(
        [
            {"role": "developer", "content": "d"},
            {"role": "system", "content": None},
            {"role": "user", "content": ["a", {"type": "text", "text": "b\u00e9"}]},
            {"role": "assistant", "content": "x", "reasoning_content": "hm", "tool_calls": []},
        ]
    ).call
    assert (
        Message("system", "d"),
        Message("system", ""),
        Message("user", "a\nb\u00e9"),
        Message("assistant", "x"),
    ) == found.messages
    assert DataSpan(2, 0, 4) == found.data
    assert ("theirs", {}, "answer") == (found.model, found.output_schema, found.schema_name)


def test_without_a_user_there_is_no_document() -> None:
    """Rules find nothing then."""
    assert wanted([{"role": "system", "content": "s"}]).call.data is None


def test_parameters_are_passed_on_and_the_limit_under_its_older_name() -> None:
    """What an adapter of texts knows is told, null is not; no member is named for it."""
    found = wanted(
        temperature=0.5, seed=1, stop=["a"], top_p=None, max_completion_tokens=9, max_tokens=7
    )
    assert {"temperature": 0.5, "seed": 1, "stop": ["a"], "max_tokens": 9} == found.call.parameters
    assert () == found.dropped


def test_what_cannot_be_told_is_named() -> None:
    """Unless it asks for what is done anyway."""
    found = wanted(
        user="me",
        logprobs=True,
        n=2,
        store=False,
        metadata={},
        tool_choice="none",
        tools=[{"type": "function"}],
        modalities=["text"],
        something=1,
    )
    assert ("user", "logprobs", "n", "tools", "something") == found.dropped


@pytest.mark.parametrize(
    ("form", "schema"),
    [
        (None, {}),
        ({"type": "text"}, {}),
        ({"type": "json_object"}, {"type": "object"}),
        (
            {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "array"}}},
            {"type": "array"},
        ),
        ({"type": "json_schema", "json_schema": {"name": "n"}}, {}),
    ],
)
def test_a_format_becomes_the_schema_of_the_answer(form: Any, schema: dict[str, Any]) -> None:
    """An adapter of texts knows schemas, and no other format."""
    found = wanted(response_format=form)
    assert (schema, ()) == (found.call.output_schema, found.dropped)


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,"}}


@pytest.mark.parametrize(
    ("messages", "members"),
    [
        ([{"role": "user", "content": [IMAGE]}], {}),
        ([{"role": "user", "content": ["look", IMAGE]}], {}),
        ([{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}], {}),
        ([{"role": "user", "content": [{"type": "text", "text": 5}]}], {}),
        ([{"role": "tool", "tool_call_id": "c", "content": "42"}], {}),
        ([{"role": "function", "name": "f", "content": "42"}], {}),
        ([{"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]}], {}),
        (None, {"tools": [{"type": "function"}]}),
        (None, {"functions": [{"name": "f"}], "function_call": "auto"}),
        (None, {"audio": {"voice": "v"}}),
        (None, {"modalities": ["text", "audio"]}),
    ],
)
def test_what_is_no_text_is_refused_with_400_and_never_sent(
    messages: Any, members: dict[str, Any]
) -> None:
    """An answer without it would be the answer to another question."""
    with pytest.raises(ProviderFailure) as caught:
        wanted(messages, **members)
    assert (FailureKind.HTTP_ERROR, 400, False) == (
        caught.value.kind,
        caught.value.http_status,
        caught.value.sent,
    )
