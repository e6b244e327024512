"""The official Python SDK asks for chat answers, whole and streamed."""

from __future__ import annotations

import json
from typing import Any

import openai
from openai import OpenAI
from pydantic import BaseModel

from tests.clients.programs.cases import BASE_URL, KEY, asked_upstream, last_request, run_cases

CLIENT = OpenAI(base_url=BASE_URL, api_key=KEY, max_retries=0)

WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string"}},
            "required": ["city"],
            "additionalProperties": False,
        },
        "strict": True,
    },
}
TIME: Any = {**WEATHER, "function": {**WEATHER["function"], "name": "clock"}}


class Step(BaseModel):
    """One step of a solution."""

    explanation: str
    result: float


class Solution(BaseModel):
    """What a structured answer holds."""

    steps: list[Step]
    answer: str
    sure: bool | None


def ask(text: str, **members: Any) -> Any:
    """Ask one question."""
    members.setdefault("model", "echo")
    return CLIENT.chat.completions.create(messages=[{"role": "user", "content": text}], **members)


def case_whole() -> None:
    """A whole answer has text, usage, the model that was asked for and a request id."""
    answer = ask("hello")
    assert answer.choices[0].message.content == "You said: hello"
    assert answer.choices[0].finish_reason == "stop"
    assert answer.model == "echo"
    assert answer.object == "chat.completion"
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer._request_id


def case_many_choices_with_logprobs() -> None:
    """Several choices come with the probabilities of their tokens."""
    answer = ask("hello", n=3, logprobs=True, top_logprobs=1)
    assert [0, 1, 2] == [choice.index for choice in answer.choices]
    tokens = answer.choices[0].logprobs.content
    assert "You said: hello" == "".join(token.token for token in tokens)


def case_streamed() -> None:
    """The chunks join to the answer, and no usage comes unasked."""
    chunks = list(ask("[[say:한국 👩‍👩‍👧 é]]", stream=True))
    assert "한국 👩‍👩‍👧 é" == "".join(c.choices[0].delta.content or "" for c in chunks)
    assert "stop" == chunks[-1].choices[0].finish_reason
    assert {"echo"} == {chunk.model for chunk in chunks}
    assert 1 == len({chunk.id for chunk in chunks})
    assert all(chunk.usage is None for chunk in chunks)


def case_streamed_with_usage() -> None:
    """Usage comes in a last chunk without choices when it was asked for."""
    chunks = list(ask("hello", stream=True, stream_options={"include_usage": True}))
    assert [] == chunks[-1].choices
    assert chunks[-1].usage.total_tokens > 0
    assert all(chunk.usage is None for chunk in chunks[:-1])


def case_streamed_byte_by_byte() -> None:
    """Characters that arrive in pieces come out whole."""
    chunks = ask("[[fault:bytes]][[say:한국 👩‍👩‍👧 é]]", stream=True)
    assert "한국 👩‍👩‍👧 é" == "".join(c.choices[0].delta.content or "" for c in chunks)


def case_tools() -> None:
    """Two tools are called at once, and their results are answered."""
    answer = ask("weather and clock", tools=[WEATHER, TIME], tool_choice="required")
    calls = answer.choices[0].message.tool_calls
    assert "tool_calls" == answer.choices[0].finish_reason
    assert ["weather", "clock"] == [call.function.name for call in calls]
    messages: Any = [
        {"role": "user", "content": "weather and clock"},
        answer.choices[0].message,
        *({"role": "tool", "tool_call_id": call.id, "content": "42"} for call in calls),
    ]
    after = CLIENT.chat.completions.create(model="echo", messages=messages, tools=[WEATHER, TIME])
    assert "The tool said: 42" == after.choices[0].message.content
    assert last_request()["messages"][1]["tool_calls"][1]["function"]["name"] == "clock"


def streamed_calls(text: str) -> list[tuple[str, Any]]:
    """Return names and arguments of the calls of a stream, joined by their indexes."""
    names: dict[int, str] = {}
    joined: dict[int, str] = {}
    for chunk in ask(text, tools=[WEATHER, TIME], stream=True):
        for piece in chunk.choices[0].delta.tool_calls or []:
            names.setdefault(piece.index, piece.function.name)
            joined[piece.index] = joined.get(piece.index, "") + piece.function.arguments
    return [(names[index], json.loads(joined[index])) for index in sorted(names)]


def case_tools_streamed() -> None:
    """Parallel calls are whole and apart, however the upstream numbers their fragments."""
    both = [("weather", {"city": "text"}), ("clock", {"city": "text"})]
    for fault in ("interleaved", "one", "same", "missing", "renumbered"):
        assert both == streamed_calls(f"weather and clock [[fault:tool-index={fault}]]"), fault
    assert both == streamed_calls("weather and clock")


def case_tools_by_the_stream_helper() -> None:
    """The SDK's own reading of a stream has the calls, too."""
    with CLIENT.chat.completions.stream(
        model="echo",
        messages=[{"role": "user", "content": "weather and clock [[fault:tool-index=one]]"}],
        tools=[WEATHER, TIME],
    ) as stream:
        calls = stream.get_final_completion().choices[0].message.tool_calls or []
    assert ["weather", "clock"] == [call.function.name for call in calls]


def case_tool_schemas_pass_unchanged() -> None:
    """The upstream gets the parameters as the client wrote them."""
    ask("hello", tools=[WEATHER], tool_choice="none")
    assert [WEATHER] == last_request()["tools"]


def case_structured() -> None:
    """A class comes back filled."""
    answer = CLIENT.chat.completions.parse(
        model="echo", messages=[{"role": "user", "content": "solve"}], response_format=Solution
    )
    parsed = answer.choices[0].message.parsed
    assert parsed is not None
    assert parsed.steps[0].result == 1.0


def case_structured_and_streamed() -> None:
    """A class comes back filled from a stream, too."""
    with CLIENT.chat.completions.stream(
        model="echo", messages=[{"role": "user", "content": "solve"}], response_format=Solution
    ) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_completion()
    assert final.choices[0].message.parsed is not None
    assert {"content.delta", "content.done"} <= kinds


def case_tools_by_class() -> None:
    """Arguments of a tool that is a class come back as that class."""
    answer = CLIENT.chat.completions.parse(
        model="echo",
        messages=[{"role": "user", "content": "Solution"}],
        tools=[openai.pydantic_function_tool(Solution)],
    )
    calls = answer.choices[0].message.tool_calls
    assert calls
    assert isinstance(calls[0].function.parsed_arguments, Solution)


def case_refused() -> None:
    """A refusal is a refusal, whole and streamed."""
    assert "Never." == ask("[[refuse:Never.]]").choices[0].message.refusal
    chunks = ask("[[refuse:Never.]]", stream=True)
    assert "Never." == "".join(c.choices[0].delta.refusal or "" for c in chunks)


def case_reasoning() -> None:
    """A member that OpenAI does not know comes through under its name."""
    answer = ask("[[reason:Hm.]] hello")
    assert "Hm." == answer.choices[0].message.reasoning_content
    chunks = list(ask("[[reason:Hm.]] hello", stream=True))
    told = [getattr(c.choices[0].delta, "reasoning_content", None) for c in chunks]
    assert "Hm." == "".join(text or "" for text in told)


def case_every_form_of_content() -> None:
    """Parts, empty contents, names and all roles pass."""
    messages: Any = [
        {"role": "developer", "content": "Be brief."},
        {"role": "system", "content": [{"type": "text", "text": "Be kind."}], "name": "house"},
        {"role": "user", "content": [{"type": "text", "text": "one "}]},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
            ],
        },
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "warm"}]},
        {"role": "assistant", "content": ""},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "see"},
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
            ],
        },
    ]
    answer = CLIENT.chat.completions.create(model="echo", messages=messages)
    assert "You said: see" == answer.choices[0].message.content
    assert messages == last_request()["messages"]


def case_unknown_fields_pass() -> None:
    """What we do not know reaches an upstream of the same protocol."""
    extra = {"chat_template_kwargs": {"enable_thinking": False}, "top_k": 7, "min_p": 0.05}
    ask("hello", extra_body=extra, seed=-9007199254740991, logit_bias={"50256": -100})
    sent = last_request()
    assert extra == {name: sent[name] for name in extra}
    assert -9007199254740991 == sent["seed"]


def case_credentials_stay_here() -> None:
    """The upstream sees nothing of the client's key and headers."""
    ask("hello", extra_headers={"X-Secret": "canary-9", "Cookie": "canary=9"})
    seen = json.dumps(asked_upstream()["asked"][-1])
    assert KEY not in seen
    assert "canary" not in seen


def case_stopped_and_cut() -> None:
    """Stops and limits hold, and their finish reasons are told."""
    assert "You " == ask("hello", stop=["said"]).choices[0].message.content
    assert "length" == ask("one two three", max_tokens=2).choices[0].finish_reason


def case_packed() -> None:
    """A packed answer is unpacked, whole and streamed."""
    for kind in ("gzip", "br", "zstd", "deflate"):
        text = f"[[fault:encoding={kind}]][[say:packed]]"
        assert "packed" == ask(text).choices[0].message.content, kind
        chunks = ask(text, stream=True)
        assert "packed" == "".join(c.choices[0].delta.content or "" for c in chunks), kind


def case_framed_in_every_way() -> None:
    """Whatever the upstream's line ends and comments, the SDK reads a sound stream."""
    for fault in ("crlf", "cr", "comments", "multiline", "fields", "tight", "bom", "no-done"):
        chunks = list(ask(f"[[fault:{fault}]][[say:one two]]", stream=True))
        told = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
        assert "one two" == told, fault


def case_silence_is_bridged() -> None:
    """Comments during a silence disturb nothing."""
    chunks = list(ask("[[fault:pause=0.6]][[say:one]]", stream=True))
    assert "one" == "".join(c.choices[0].delta.content or "" for c in chunks)


if __name__ == "__main__":
    run_cases(globals())
