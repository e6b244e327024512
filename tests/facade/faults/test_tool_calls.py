"""Tool calls as servers number them, in histories and answers: none is lost, merged or renamed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.facade.faults.stage import stage
from tests.facade.serving import Told

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {
                "type": "object",
                "properties": {member: {"type": "string", "enum": [value]}},
                "required": [member],
                "additionalProperties": False,
            },
        },
    }
    for name, member, value in (
        ("look_up", "part", "the pump's impeller, number 4711"),
        ("order", "wanted", "three valves and a gasket of 40 millimetres"),
        ("measure", "where", "at the outlet"),
    )
]
ARGUMENTS = [
    {"part": "the pump's impeller, number 4711"},
    {"wanted": "three valves and a gasket of 40 millimetres"},
    {"where": "at the outlet"},
]
ALL = "[[call:look_up,order,measure]]"
NUMBERINGS = ("right", "same", "one", "missing", "interleaved", "renumbered")


def joined(reply: Told) -> dict[int, dict[str, Any]]:
    """Join the fragments of a stream as every SDK does, by index alone."""
    calls: dict[int, dict[str, Any]] = {}
    for event in reply.events[:-1]:
        for fragment in event["choices"][0]["delta"].get("tool_calls", []):
            call = calls.setdefault(fragment["index"], {"id": "", "name": "", "arguments": ""})
            call["id"] += fragment.get("id") or ""
            for member in ("name", "arguments"):
                call[member] += fragment.get("function", {}).get(member) or ""
    return calls


@pytest.mark.parametrize("framing", ["", " bytes", " crlf multiline"])
async def test_parallel_calls_stay_apart_however_they_are_numbered(
    tmp_path: Path, framing: str
) -> None:
    """Indexes count from 0 in the order of the calls, each named once, with its own arguments."""
    async with stage(tmp_path) as staged:
        for numbering in NUMBERINGS:
            staged.near.queue(f"tool-index={numbering}{framing}")
            reply = await staged.served.say(ALL, stream=True, tools=TOOLS)
            calls = joined(reply)
            assert [0, 1, 2] == sorted(calls), numbering
            assert ["look_up", "order", "measure"] == [calls[index]["name"] for index in range(3)]
            assert ARGUMENTS == [json.loads(calls[index]["arguments"]) for index in range(3)]
            assert ["call_1", "call_2", "call_3"] == [calls[index]["id"] for index in range(3)]
            assert "tool_calls" == reply.events[-2]["choices"][0]["finish_reason"]


async def test_calls_after_a_text_are_numbered_from_zero(tmp_path: Path) -> None:
    """What was said or thought before does not count."""
    async with stage(tmp_path) as staged:
        staged.near.queue("tool-index=one")
        reply = await staged.served.say(f"[[reason:Let me see.]]{ALL}", stream=True, tools=TOOLS)
        assert [0, 1, 2] == sorted(joined(reply))


@pytest.mark.parametrize("stream", [True, False])
async def test_a_reason_to_end_that_openai_knows_is_left_as_it_is(
    tmp_path: Path, *, stream: bool
) -> None:
    """``stop`` beside tool calls stays, for OpenAI says so itself where a tool is forced."""
    forced = {"type": "function", "function": {"name": "order"}}
    async with stage(tmp_path) as staged:
        for finish, told in (("stop", "stop"), ("tool_use", "tool_calls"), ("eos", "tool_calls")):
            staged.near.queue(f"finish={finish}")
            reply = await staged.served.say(
                "Hello.", stream=stream, tools=TOOLS, tool_choice=forced
            )
            ended = reply.events[-2] if stream else reply.json
            assert told == ended["choices"][0]["finish_reason"]


HISTORIES: tuple[dict[str, Any], ...] = (
    {"content": None},
    {},
    {"content": ""},
    {"content": []},
    {"content": "Let me see."},
    {"content": "", "reasoning_content": "Hm."},
    {"content": None, "reasoning": "Hm."},
)
"""What an assistant may have said beside calls of tools."""


@pytest.mark.parametrize("stream", [True, False])
async def test_a_history_reaches_the_server_as_it_is(tmp_path: Path, *, stream: bool) -> None:
    """Empty, null and absent stay what they are, and no spelling is changed."""
    call = {"id": "call_9", "type": "function", "function": {"name": "order", "arguments": "{}"}}
    async with stage(tmp_path) as staged:
        for said in HISTORIES:
            messages = [
                {"role": "user", "content": "Order."},
                {"role": "assistant", **said, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": "call_9", "content": "Done."},
            ]
            assert 200 == (await staged.served.chat(messages=messages, stream=stream)).status
            assert messages == staged.near.asked[-1].json["messages"]


async def test_an_assistant_that_said_nothing_is_no_mistake(tmp_path: Path) -> None:
    """Such a message stands in many histories, and is the server's to judge."""
    async with stage(tmp_path) as staged:
        said: tuple[object, ...] = (None, "", [])
        for content in said:
            messages = [
                {"role": "user", "content": "Hello."},
                {"role": "assistant", "content": content},
                {"role": "user", "content": "Are you there?"},
            ]
            assert 200 == (await staged.served.chat(messages=messages)).status
            assert messages == staged.near.asked[-1].json["messages"]
