"""What clients are told satisfies OpenAI's published schemas, whatever the upstream says."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from tests.clients.conftest import CLIENT_KEY
from tests.clients.serving import Served
from tests.support.openai_schemas import (
    ANSWER,
    CHUNK,
    EMBEDDINGS,
    ERROR,
    MODEL,
    MODELS,
    violations,
)

TOOL = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}

REQUESTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "several": {"n": 2, "logprobs": True, "top_logprobs": 1},
    "cut": {"max_tokens": 1},
    "tools": {"tools": [TOOL], "tool_choice": "required"},
    "structured": {
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "person", "schema": SCHEMA},
        }
    },
    "usage asked": {"stream_options": {"include_usage": True}},
}

TEXTS = (
    "hello",
    "[[refuse]]",
    "[[reason:Hm.]] hello",
    "[[fault:sparse]] hello",
    "[[fault:usage=none]] hello",
    "[[fault:usage=null]] hello",
    "[[fault:usage=zero]] hello",
    "[[fault:usage=always]] hello",
    "[[fault:usage=last]] hello",
    "[[fault:no-choices=2]] hello",
    "[[fault:reasoning=reasoning]][[reason:Hm.]] hello",
)


def told(served: Served, path: str, body: object = None) -> tuple[int, str]:
    """Return status and text of a reply."""
    request = urllib.request.Request(
        served.base_url + path,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {CLIENT_KEY}", "Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def chat(text: str, **members: object) -> dict[str, Any]:
    """Return a chat request."""
    return {"model": "echo", "messages": [{"role": "user", "content": text}], **members}


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("form", sorted(REQUESTS))
def test_answers_are_as_published(casework: Served, text: str, form: str) -> None:
    """A whole answer is a chat completion."""
    members = {k: v for k, v in REQUESTS[form].items() if k != "stream_options"}
    status, answer = told(casework, "/chat/completions", chat(text, **members))
    assert (200, []) == (status, violations(json.loads(answer), ANSWER)), answer


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("form", sorted(REQUESTS))
def test_chunks_are_as_published(casework: Served, text: str, form: str) -> None:
    """Each chunk of a stream is a chat completion chunk, up to the end."""
    request = chat(text, stream=True, **REQUESTS[form])
    status, stream = told(casework, "/chat/completions", request)
    *chunks, last = [line[6:] for line in stream.splitlines() if line.startswith("data: ")]
    assert (200, "[DONE]") == (status, last)
    assert [] == [found for chunk in chunks for found in violations(json.loads(chunk), CHUNK)]


@pytest.mark.parametrize("encoding", ["float", None])
def test_vectors_are_as_published(casework: Served, encoding: str | None) -> None:
    """Numbers come when they are asked for, and when nothing is."""
    body = {"model": "text-embedding-3-small", "input": ["a", "b"]}
    body |= {"encoding_format": encoding} if encoding else {}
    status, answer = told(casework, "/embeddings", body)
    assert (200, []) == (status, violations(json.loads(answer), EMBEDDINGS))


def test_models_are_as_published(casework: Served) -> None:
    """So are the list and each of its members by itself."""
    listed = json.loads(told(casework, "/models")[1])
    assert [] == violations(listed, MODELS)
    one = json.loads(told(casework, "/models/echo")[1])
    assert [] == violations(one, MODEL)
    assert one in listed["data"]


@pytest.mark.parametrize(
    ("status", "path", "body"),
    [
        (400, "/chat/completions", {}),
        (400, "/chat/completions", chat("[[fault:400]]")),
        (404, "/chat/completions", {**chat("x"), "model": "unheard-of"}),
        (403, "/chat/completions", {**chat("x"), "model": "far/auto"}),
        (404, "/elsewhere", None),
        (405, "/chat/completions", None),
        (404, "/models/unheard-of", None),
        (400, "/embeddings", {"model": "text-embedding-3-small", "input": []}),
    ],
)
def test_errors_are_as_published(casework: Served, status: int, path: str, body: object) -> None:
    """Every refusal has the one shape."""
    seen, answer = told(casework, path, body)
    assert (status, []) == (seen, violations(json.loads(answer), ERROR))


@pytest.mark.parametrize("fault", ["error=3", "reset=3", "malformed=3", "error-choices=3"])
def test_an_error_in_a_stream_is_as_published(casework: Served, fault: str) -> None:
    """After sound chunks there is one error event, and nothing after it."""
    request = chat(f"[[fault:{fault}]] one two", stream=True)
    _, stream = told(casework, "/chat/completions", request)
    *chunks, last = [line[6:] for line in stream.splitlines() if line.startswith("data: ")]
    assert [] == violations(json.loads(last), ERROR)
    assert [] == [found for chunk in chunks for found in violations(json.loads(chunk), CHUNK)]


def test_silence_is_bridged_by_comments(casework: Served) -> None:
    """A silent upstream makes comments, blank lines and events, and no other line."""
    request = chat("[[fault:pause=0.5]][[say:one]]", stream=True)
    lines = told(casework, "/chat/completions", request)[1].splitlines()
    assert [] != [line for line in lines if line.startswith(":")]
    assert [] == [line for line in lines if line and not line.startswith((":", "data: "))]
