"""Members of requests and answers: what is not ours to understand is passed on as it came."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.facade.faults.stage import CHAT, EMBEDDINGS, stage
from tests.facade.serving import HELLO

UNKNOWN: dict[str, Any] = {
    "chat_template_kwargs": {"enable_thinking": False, "nested": {"deep": [1, None, "x"]}},
    "store": True,
    "top_k": 40,
    "min_p": 0.05,
    "thinking": {"type": "disabled"},
    "reasoning": {"effort": "low", "summary": "auto"},
    "guided_json": {"type": "object"},
    "provider": {"order": ["a", "b"]},
    "x": None,
    "Ünïcode": "ß",
}
SPELLINGS = ("reasoning_content", "reasoning")

SCHEMA: dict[str, Any] = {
    "type": "json_schema",
    "json_schema": {
        "name": "verdict",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {"a": {"const": "x\u2028y"}, "n": {"type": "integer", "maximum": 1e2}},
            "required": ["a", "n"],
            "additionalProperties": False,
        },
    },
}


@pytest.mark.parametrize("stream", [True, False])
async def test_members_that_nobody_here_knows_reach_the_server(
    tmp_path: Path, *, stream: bool
) -> None:
    """At the top and nested, each as it came, and none makes the request fail."""
    async with stage(tmp_path) as staged:
        reply = await staged.served.chat(stream=stream, **UNKNOWN)
        assert 200 == reply.status
        asked = staged.near.asked[0].json
        assert UNKNOWN == {name: asked[name] for name in UNKNOWN}
        assert "x-casework-withheld" not in reply.headers


async def test_members_reach_the_server_byte_for_byte(tmp_path: Path) -> None:
    """Numbers keep their digits, strings their escapes, and objects their order."""
    values = (
        b'{"b" : 1.0e+02, "a":[ 1.10,-0 ], "\\u00fc":"\\u2028\\/"}',
        b"123456789012345678901234567890",
        b'"\\ud83e\\udd8a \\u0000"',
    )
    async with stage(tmp_path) as staged:
        for value in values:
            body = b'{"model":"auto","vendor":%b,"messages":%b}' % (
                value,
                json.dumps(HELLO["messages"]).encode(),
            )
            assert 200 == (await staged.served.post(CHAT, body)).status
            assert b'"vendor":' + value in staged.near.asked[-1].body


async def test_members_of_an_embedding_request_reach_the_server_too(tmp_path: Path) -> None:
    """Also those that nobody here knows."""
    async with stage(tmp_path) as staged:
        body = {"model": "auto", "input": "a", "dimensions": 4, "truncate": "END", "user": "u"}
        assert 200 == (await staged.served.post(EMBEDDINGS, body)).status
        asked = staged.near.asked[0].json
        assert (4, "END", "u") == (asked["dimensions"], asked["truncate"], asked["user"])


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_thoughts_come_back_under_the_name_that_the_server_gives_them(
    tmp_path: Path, spelling: str
) -> None:
    """Whole or streamed, in one spelling or the other, and never in both."""
    other = SPELLINGS[1 - SPELLINGS.index(spelling)]
    text = f"[[fault:reasoning={spelling}]][[reason:Let me see.]][[say:Yes.]]"
    async with stage(tmp_path) as staged:
        message = (await staged.served.say(text)).json["choices"][0]["message"]
        assert ("Let me see.", "Yes.") == (message[spelling], message["content"])
        streamed = await staged.served.say(text, stream=True)
        deltas = [event["choices"][0]["delta"] for event in streamed.events[:-1]]
        assert "Let me see." == "".join(delta.get(spelling, "") for delta in deltas)
        assert [] == [one for one in (message, *deltas) if other in one]


async def test_what_a_server_adds_to_its_answer_comes_back(tmp_path: Path) -> None:
    """Members that OpenAI does not know are not taken out, whole or streamed."""
    async with stage(tmp_path) as staged:
        whole = await staged.served.chat(logprobs=True, top_logprobs=1)
        assert "fp_double" == whole.json["system_fingerprint"]
        assert whole.json["choices"][0]["logprobs"]["content"]
        streamed = await staged.served.chat(stream=True, logprobs=True)
        spoken = [event["choices"][0] for event in streamed.events[:-1]]
        assert [one for one in spoken if one["logprobs"]]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_schema_reaches_the_server_byte_for_byte(tmp_path: Path, *, stream: bool) -> None:
    """It is no hint, and not a byte of it is another one, ``additionalProperties`` included."""
    written = json.dumps(SCHEMA, indent=3).encode()
    messages = json.dumps(HELLO["messages"]).encode()
    flag = b"true" if stream else b"false"
    body = b'{"model":"auto","stream":%b,"response_format":%b,"messages":%b}' % (
        *(flag, written),
        messages,
    )
    async with stage(tmp_path) as staged:
        assert 200 == (await staged.served.post(CHAT, body)).status
        assert b'"response_format":' + written in staged.near.asked[0].body


async def test_an_answer_is_held_against_the_schema_here_too(tmp_path: Path) -> None:
    """A server that takes it for a hint gives no answer: nobody passes off what breaks it."""
    async with stage(tmp_path) as staged:
        for said, code in (
            ("{}", "schema_violation"),
            ('{"a": "x\u2028y", "n": 1, "more": 1}', "schema_violation"),
            ("no", "invalid_json"),
        ):
            reply = await staged.served.say(f"[[say:{said}]]", response_format=SCHEMA)
            assert (502, code) == (reply.status, reply.code)
        sound = (await staged.served.chat(response_format=SCHEMA)).json["choices"][0]["message"]
        assert "x\u2028y" == json.loads(sound["content"])["a"]
        assert [4] == staged.calls
