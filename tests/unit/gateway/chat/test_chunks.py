"""Chunks reach the client in OpenAI's shape, under one id, and else as the server wrote them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.gateway.chat.chunks import DONE_EVENT, EARLY_MAX, ChunkWriter
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.messages import Usage
from tests.support.messy_shapes import Shape, chunks
from tests.support.openai_schemas import CHUNK, violations

HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "theirs"}
USAGE = {"prompt_tokens": 3, "completion_tokens": 0, "total_tokens": 3}


def chunk(delta: Any = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """Make one chunk as OpenAI sends it."""
    choice = {"index": 0, "delta": delta or {}, "logprobs": None, "finish_reason": finish}
    return {**HEAD, "choices": [choice], **more}


def writer(*, include_usage: bool = False) -> ChunkWriter:
    """Return a writer for a client that calls the model ours."""
    return ChunkWriter("ours", include_usage=include_usage, created=9)


def data(value: Any) -> bytes:
    """Write a chunk as most servers do."""
    return value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":")).encode()


def events(written: bytes) -> list[Any]:
    """Return the chunks in some bytes, each valid by OpenAI's schema and on one line."""
    if not written:
        return []
    assert written.endswith(b"\n\n")
    found = []
    for event in written[:-2].split(b"\n\n"):
        assert event.startswith(b"data: ")
        assert not {b"\n", b"\r"} & {bytes([byte]) for byte in event}
        found.append(json.loads(event.removeprefix(b"data: ")))
    assert [] == [v for value in found for v in violations(value, CHUNK)]
    return found


def told(*values: Any, include_usage: bool = False) -> list[Any]:
    """Return the chunks that the client gets for some of the server's."""
    made = writer(include_usage=include_usage)
    return [event for value in values for event in events(made.take(data(value)))]


def failure(*values: Any) -> FailureKind:
    """Return how the last of some chunks fails."""
    made = writer()
    for value in values[:-1]:
        made.take(data(value))
    with pytest.raises(ProviderFailure) as caught:
        made.take(data(values[-1]))
    return caught.value.kind


@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
@pytest.mark.parametrize(
    "delta",
    [
        {"role": "assistant", "content": ""},
        {"content": "Hello \u00e9\U0001f600"},
        {"content": 'they say "model":"theirs"'},
        {"reasoning_content": "hm"},
        {"reasoning": "hm", "reasoning_details": [{"type": "x"}]},
        {"refusal": "No."},
        {"content": None, "x": 1.5},
        {},
    ],
)
def test_of_a_usual_chunk_nothing_but_the_model_changes(
    separators: tuple[str, str], delta: dict[str, Any]
) -> None:
    """Every other byte is the server's, from the second chunk on."""
    made = writer()
    made.take(json.dumps(chunk({"role": "assistant"}), separators=separators).encode())
    body = json.dumps(chunk(delta, y={"z": [1.50]}), separators=separators).encode()
    model = b'"model"' + separators[1].encode() + b'"theirs"'
    expected = b"data: " + body.replace(model, b'"model":"ours"') + b"\n\n"
    assert [expected] * 2 == [made.take(body), made.take(body)]


@pytest.mark.parametrize("ending", [b"\n", b"\r\n", b"\r"])
def test_a_chunk_of_several_lines_is_told_in_one(ending: bytes) -> None:
    """The ends of lines mean nothing in JSON, and much in a stream of events."""
    body = json.dumps(chunk({"content": "a\nb"}), indent=1).encode().replace(b"\n", ending)
    assert [chunk({"content": "a\nb"}) | {"model": "ours"}] * 2 == told(body, body)


def test_what_a_server_left_out_is_added_alike_to_every_chunk() -> None:
    """One id, one time, one kind; an index, a delta and a reason in every choice."""
    first, then, last = told(
        {"choices": [{"delta": {"content": "a"}}]},
        {"id": "late", "created": 3, "choices": [{"index": 0, "delta": None}]},
        {"choices": [{"index": 0, "finish_reason": "eos", "delta": {"role": None}}]},
    )
    assert {("chat.completion.chunk", 9, "ours", first["id"])} == {
        (c["object"], c["created"], c["model"], c["id"]) for c in (first, then, last)
    }
    assert first["id"].startswith("chatcmpl-")
    assert [
        {"delta": {"content": "a"}, "index": 0, "finish_reason": None},
        {"delta": {}, "index": 0, "finish_reason": None},
        {"delta": {}, "index": 0, "finish_reason": "stop"},
    ] == [c["choices"][0] for c in (first, then, last)]


def test_a_server_that_changes_its_id_and_time_is_heard_under_the_first() -> None:
    """Clients group chunks by them."""
    second = {**chunk({"content": "b"}), "id": "other", "created": 8, "model": "another"}
    found = told(chunk({"content": "a"}), second, chunk({"content": "c"}))
    assert [("chatcmpl-1", 7, "ours")] * 3 == [(c["id"], c["created"], c["model"]) for c in found]


def test_a_chunk_before_the_stream_has_a_name_waits_for_it() -> None:
    """Azure tells of its filters first, under no id; a server that goes on so is given up."""
    early = {"id": "", "created": 0, "model": "", "object": "", "choices": [], "filters": [1]}
    found = told(early, early, chunk({"content": "a"}))
    assert ["chatcmpl-1"] * 3 == [c["id"] for c in found]
    assert [[1], [1], None] == [c.get("filters") for c in found]
    assert FailureKind.MALFORMED_RESPONSE is failure(*[early] * (EARLY_MAX + 1))


def test_an_object_without_choices_is_passed_on_with_none() -> None:
    """Servers tell of their own things between chunks."""
    found = told(chunk({"content": "a"}), {"x_vendor": {"queue": 1}}, {"choices": None, "y": 2})
    assert [[], []] == [c["choices"] for c in found[1:]]
    assert ({"queue": 1}, 2) == (found[1]["x_vendor"], found[2]["y"])


@pytest.mark.parametrize("include_usage", [True, False])
def test_usage_is_taken_out_of_chunks_and_told_at_the_end(*, include_usage: bool) -> None:
    """A chunk of usage alone vanishes; the last usage counts, and is sent byte for byte."""
    made = writer(include_usage=include_usage)
    made.take(data(chunk({"content": "a"}, usage={**USAGE, "completion_tokens": 1})))
    only = (
        b'{"id":"chatcmpl-1","choices":[],"system_fingerprint":"fp","usage":'
        b'{"prompt_tokens":3, "completion_tokens":0,"total_tokens":3,"cost":0.50}}'
    )
    assert b"" == made.take(only)
    assert Usage(3, 0, 3) == made.usage
    ending = made.ending()
    assert ending.endswith(DONE_EVENT)
    found = events(ending.removesuffix(DONE_EVENT))
    assert ([[]] if include_usage else []) == [c["choices"] for c in found]
    assert include_usage == (b'{"prompt_tokens":3, "completion_tokens":0' in ending)
    assert include_usage == (b'"system_fingerprint":"fp"' in ending)


def test_a_usage_of_null_stands_only_in_streams_that_end_with_one() -> None:
    """OpenAI sends null in every chunk to whom it promised the usage."""
    values = [chunk({"content": "a"}, usage=None)] * 3
    assert [False] * 3 == ["usage" in c for c in told(*values)]
    assert [None] * 2 == [c["usage"] for c in told(*values, include_usage=True)[1:]]


def test_a_usage_in_part_is_recorded_and_not_told() -> None:
    """OpenAI's schema knows no half of it."""
    made = writer(include_usage=True)
    made.take(data(chunk({"content": "a"}, usage={"prompt_tokens": 3})))
    assert (Usage(3, None, None), DONE_EVENT) == (made.usage, made.ending())


def test_calls_of_two_choices_are_numbered_apart() -> None:
    """Each answer counts its own tool calls from 0."""

    def both(fragment: dict[str, Any]) -> dict[str, Any]:
        choice = {"delta": {"tool_calls": [fragment]}, "finish_reason": None}
        return {**HEAD, "choices": [{**choice, "index": i} for i in (0, 1)]}

    name = {"name": "f", "arguments": ""}
    begin = {"id": "a", "type": "function", "function": name}
    found = told(
        both({**begin, "index": 5}),
        both({**begin, "index": 6, "id": "b"}),
        both({"index": 5, "function": {"arguments": "1"}}),
        both({"index": 6, "function": {"arguments": "2"}}),
    )
    assert [0, 0, 1, 1, 0, 0, 1, 1] == [
        choice["delta"]["tool_calls"][0]["index"] for c in found for choice in c["choices"]
    ]


def test_fragments_that_are_numbered_well_pass_byte_for_byte() -> None:
    """What OpenAI itself sends is not written anew."""
    made = writer()
    function = {"name": "f", "arguments": ""}
    call = {"index": 0, "id": "a", "type": "function", "function": function}
    made.take(data(chunk({"tool_calls": [call]})))
    body = data(chunk({"tool_calls": [{"function": {"arguments": "\u00e9"}, "index": 0}]}))
    assert b"\\u00e9" in body
    assert b"data: " + body.replace(b'"theirs"', b'"ours"') + b"\n\n" == made.take(body)


@pytest.mark.parametrize(
    ("finish", "expected"),
    [("stop", "stop"), ("eos", "tool_calls"), ("MAX_TOKENS", "length"), ("", None), (None, None)],
)
def test_a_reason_for_ending_is_told_in_openais_words_and_never_invented(
    finish: str | None, expected: str | None
) -> None:
    """An unknown word after tool calls means that they are what it ended for."""
    call = {"index": 0, "id": "a", "function": {"name": "f", "arguments": ""}}
    found = told(chunk({"tool_calls": [call]}), chunk({}, finish))
    assert expected == found[1]["choices"][0]["finish_reason"]


def test_an_old_function_call_is_passed_on() -> None:
    """Its name comes once, its arguments in pieces."""
    found = told(
        chunk({"function_call": {"name": "f", "arguments": "{"}}),
        chunk({"function_call": {"name": None, "arguments": "}"}}),
        chunk({"function_call": None}),
    )
    assert [{"name": "f", "arguments": "{"}, {"arguments": "}"}, None] == [
        c["choices"][0]["delta"].get("function_call") for c in found
    ]


def test_half_a_character_pair_becomes_a_replacement_character() -> None:
    """A server that splits one between two chunks does not break the stream."""
    body = data(chunk({"content": "X"}))
    found = told(body.replace(b"X", b"a\\ud83d"), body.replace(b"X", b"\\ude00b"))
    assert ["a\ufffd", "\ufffdb"] == [c["choices"][0]["delta"]["content"] for c in found]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[1]",
        b"null",
        b"[DONE",
        b'"x"',
        b"\xff",
        data(chunk({"content": "X"})).replace(b"X", b"\xff"),
        data({**HEAD, "x": "X", "choices": []}).replace(b"X", b"\xff"),
        {**HEAD, "choices": {}},
        {**HEAD, "choices": [1]},
        {**HEAD, "choices": [{"delta": "x"}]},
        {**HEAD, "choices": [{"delta": {"content": 1}}]},
        {**HEAD, "choices": [{"delta": {"content": [1]}}]},
        {**HEAD, "choices": [{"delta": {"tool_calls": "x"}}]},
        {**HEAD, "choices": [{"delta": {"function_call": "x"}}]},
        {**HEAD, "choices": [{"index": 1000, "delta": {}}]},
        {**HEAD, "choices": [{"index": -1, "delta": {}}]},
        b'{"choices":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    ],
)
def test_what_is_no_chunk_is_malformed(body: Any) -> None:
    """First or later, nothing is guessed at, and nothing else is raised."""
    assert FailureKind.MALFORMED_RESPONSE is failure(body)
    assert FailureKind.MALFORMED_RESPONSE is failure(chunk({"content": "a"}), body)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": "rate_limit_exceeded"}, FailureKind.HTTP_429),
        ({"code": 503}, FailureKind.HTTP_5XX),
        ({"message": "canary"}, FailureKind.MALFORMED_RESPONSE),
        ("canary", FailureKind.MALFORMED_RESPONSE),
    ],
)
def test_an_error_in_any_chunk_is_an_error(error: Any, kind: FailureKind) -> None:
    """With and without choices, first or third."""
    others: list[dict[str, Any]] = [{}, {"choices": []}, {"choices": chunk()["choices"]}]
    for choices in others:
        body = {**choices, "error": error}
        assert kind is failure(body)
        assert kind is failure(chunk({"role": "assistant"}), chunk({"content": "a"}), body)


@pytest.mark.parametrize("name", ["object", "type"])
def test_an_error_without_a_member_around_it_is_one(name: str) -> None:
    """Older servers write it bare."""
    body = {name: "error", "message": "canary", "code": 429}
    assert FailureKind.HTTP_429 is failure(chunk({"content": "a"}), body)
    assert 1 == len(told({**chunk({"content": "a"}), "type": "error"}))


def test_an_error_that_says_nothing_is_none() -> None:
    """Some servers send null or an empty text in every chunk."""
    found = told(chunk({"content": "a"}, error=None), chunk({"content": "b"}, error=""))
    assert ["a", "b"] == [c["choices"][0]["delta"]["content"] for c in found]


@pytest.mark.parametrize("mark", [b"[DONE]", b"[DONE] ", b"[DONE]\n"])
def test_the_final_mark_is_noted_and_not_passed_on(mark: bytes) -> None:
    """The stream's end writes its own."""
    made = writer()
    assert (b"", True, 0) == (made.take(mark), made.done, made.chunks)


def test_a_stream_has_ended_when_every_choice_that_began_has() -> None:
    """One of two is not enough."""
    made = writer()
    choices = [{"index": i, "delta": {"content": "a"}, "finish_reason": None} for i in (0, 1)]
    counts = [made.finished]
    made.take(data({**HEAD, "choices": choices}))
    for index in (1, 0):
        made.take(data({**HEAD, "choices": [{**choices[index], "finish_reason": "stop"}]}))
        counts.append(made.finished)
    assert [0, 0, 2] == counts


@given(values=st.lists(chunks(), min_size=1, max_size=6), include_usage=st.booleans())
def test_any_chunks_reach_the_client_in_openais_shape(
    values: list[Shape], *, include_usage: bool
) -> None:
    """Whatever a server leaves out or writes oddly, one id runs through all that is told."""
    made = writer(include_usage=include_usage)
    found: list[Any] = []
    for value in values:
        found += events(made.take(data(value)))
    ending = made.ending() if found else DONE_EVENT
    found += events(ending.removesuffix(DONE_EVENT))
    assert 1 >= len({(c["id"], c["created"], c["model"]) for c in found})
    assert (1 if include_usage else 0) >= sum(c.get("usage") is not None for c in found)
    assert {"ours"} >= {c["model"] for c in found}
