"""The tests' upstream answers like a sound server, and does wrong exactly what it is told to."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import struct
import zlib
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import brotli
import pytest
from backports import zstd

from tests.support.fault_upstream.embedding_shapes import vector_of
from tests.support.fault_upstream.server import FaultUpstream

UNPACKED = {
    "gzip": lambda raw: zlib.decompressobj(31).decompress(raw),
    "br": brotli.decompress,
    "zstd": zstd.decompress,
    "deflate": zlib.decompress,
    "chained": lambda raw: zlib.decompress(zlib.decompressobj(31).decompress(raw)),
    "unlabelled": gzip.decompress,
    "mislabelled": bytes,
}

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        },
    }
    for name in ("weather", "time")
]


@pytest.fixture
async def upstream() -> AsyncIterator[FaultUpstream]:
    """Return a double that listens."""
    async with FaultUpstream() as made:
        yield made


def body(text: str, **members: object) -> dict[str, Any]:
    """Return a chat request."""
    return {"model": "echo", "messages": [{"role": "user", "content": text}], **members}


async def fetched(upstream: FaultUpstream, path: str, request: object = None) -> tuple[int, bytes]:
    """Return status and body of a request, read until the connection or the body ends.

    Raises:
        ConnectionError: The reply ended before it was whole.
    """
    content = b"" if request is None else json.dumps(request).encode()
    method = "GET" if request is None else "POST"
    reader, writer = await asyncio.open_connection("127.0.0.1", upstream.port)
    try:
        head = f"{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(content)}\r\n\r\n"
        writer.write(head.encode() + content)
        status, headers = _head(await reader.readuntil(b"\r\n\r\n"))
        if "content-length" in headers:
            return status, await reader.readexactly(int(headers["content-length"]))
        return status, b"".join([chunk async for chunk in _chunks(reader)])
    except asyncio.IncompleteReadError as error:
        raise ConnectionError from error
    finally:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


def _head(raw: bytes) -> tuple[int, dict[str, str]]:
    line, *fields = raw.decode().strip().split("\r\n")
    pairs = (field.partition(": ") for field in fields)
    return int(line.split()[1]), {name: value for name, _, value in pairs}


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while size := int(await reader.readuntil(b"\r\n"), 16):
        yield (await reader.readexactly(size + 2))[:-2]


async def whole(upstream: FaultUpstream, request: object) -> tuple[int, bytes]:
    """Return status and body of a chat request."""
    return await fetched(upstream, "/v1/chat/completions", request)


async def events(upstream: FaultUpstream, request: dict[str, Any]) -> list[Any]:
    """Return the events of a stream; the last one may be ``[DONE]``."""
    _, raw = await whole(upstream, {**request, "stream": True})
    data = [line[6:] for line in raw.decode().splitlines() if line.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in data]


async def test_a_whole_answer_echoes(upstream: FaultUpstream) -> None:
    """The text comes back, with usage that adds up."""
    status, raw = await whole(upstream, body("a b", n=2))
    answer = json.loads(raw)
    assert (200, ["You said: a b", "You said: a b (2)"]) == (
        status,
        [choice["message"]["content"] for choice in answer["choices"]],
    )
    usage = answer["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]


@pytest.mark.parametrize("asked", [True, False])
async def test_a_stream_says_the_same(upstream: FaultUpstream, *, asked: bool) -> None:
    """The pieces join to the whole text; usage comes when it was asked for."""
    told = await events(
        upstream, body("[[say:한국 👩‍👩‍👧 x]]", stream_options={"include_usage": asked})
    )
    choices = [choice for event in told[:-1] for choice in event["choices"]]
    assert "한국 👩‍👩‍👧 x" == "".join(choice["delta"].get("content") or "" for choice in choices)
    assert ["stop"] == [c["finish_reason"] for c in choices if c["finish_reason"]]
    assert asked == any(event.get("usage") for event in told[:-1])
    assert "[DONE]" == told[-1]


@pytest.mark.parametrize(
    ("fault", "indexes"),
    [
        ("", [0, 0, 0, 0, 1, 1, 1, 1]),
        ("[[fault:tool-index=interleaved]]", [0, 1] * 4),
        ("[[fault:tool-index=same]]", [0] * 8),
        ("[[fault:tool-index=one]]", [1, 1, 1, 1, 2, 2, 2, 2]),
        ("[[fault:tool-index=missing]]", [None] * 8),
        ("[[fault:tool-index=renumbered]]", [0, 4, 4, 4, 1, 5, 5, 5]),
    ],
)
async def test_tools_are_called_in_fragments(
    upstream: FaultUpstream,
    fault: str,
    indexes: list[int | None],
) -> None:
    """Each tool that is named is called, under the indexes that the fault gives."""
    told = await events(upstream, body(f"weather and time {fault}", tools=TOOLS))
    pieces = [
        piece
        for event in told[:-1]
        for choice in event["choices"]
        for piece in choice["delta"].get("tool_calls", [])
    ]
    assert indexes == [piece.get("index") for piece in pieces]
    if not fault:
        first = "".join(p["function"]["arguments"] for p in pieces if p["index"] == 0)
        assert {"city": "text"} == json.loads(first)


@pytest.mark.parametrize(
    ("members", "finish"),
    [
        ({"max_tokens": 1}, "length"),
        ({"stop": ["said"]}, "stop"),
        ({"tools": TOOLS, "tool_choice": "required"}, "tool_calls"),
        ({"tools": TOOLS, "tool_choice": "none"}, "stop"),
        ({"tools": TOOLS, "tool_choice": {"function": {"name": "time"}}}, "stop"),
    ],
)
async def test_an_answer_ends_for_its_reason(
    upstream: FaultUpstream,
    members: dict[str, object],
    finish: str,
) -> None:
    """The finish reason is that of the request."""
    _, raw = await whole(upstream, body("x", **members))
    assert finish == json.loads(raw)["choices"][0]["finish_reason"]


async def test_a_model_may_refuse_and_reason(upstream: FaultUpstream) -> None:
    """A refusal has no content; a thought has a member of its own."""
    _, raw = await whole(upstream, body("[[refuse:No.]] [[reason:Hm.]]"))
    message = json.loads(raw)["choices"][0]["message"]
    assert (None, "No.", "Hm.") == (
        message["content"],
        message["refusal"],
        message["reasoning_content"],
    )


@pytest.mark.parametrize(
    ("fault", "status", "code"),
    [
        ("503", 503, "overloaded"),
        ("429 code=insufficient_quota", 429, "insufficient_quota"),
        ("401", 401, "invalid_api_key"),
        ("500", 500, None),
        ("unheard-of", 400, None),
    ],
)
async def test_a_status_has_its_body(
    upstream: FaultUpstream,
    fault: str,
    status: int,
    code: str | None,
) -> None:
    """A fault that is a status comes with an error as OpenAI's servers write it."""
    seen, raw = await whole(upstream, body(f"[[fault:{fault}]]"))
    assert (status, code) == (seen, json.loads(raw)["error"]["code"])


async def test_a_fault_can_end(upstream: FaultUpstream) -> None:
    """A fault may be for the first times only, and faults may be queued."""
    request = body("[[fault:503 times=1]]")
    assert [503, 200] == [(await whole(upstream, request))[0] for _ in range(2)]
    upstream.queue("429", "ok")
    assert [429, 200] == [(await whole(upstream, body("x")))[0] for _ in range(2)]
    assert 4 == upstream.calls


@pytest.mark.parametrize("kind", sorted(UNPACKED))
@pytest.mark.parametrize("stream", [False, True])
async def test_bodies_are_packed(upstream: FaultUpstream, kind: str, *, stream: bool) -> None:
    """What was packed is unpacked to the answer."""
    request = body(f"[[fault:encoding={kind}]] [[say:packed]]", stream=stream)
    _, raw = await whole(upstream, request)
    assert b'"packed"' in UNPACKED[kind](raw)


@pytest.mark.parametrize(
    "fault", ["reset", "close", "reset=2", "close=2", "close=body", "truncated"]
)
async def test_a_connection_ends_early(upstream: FaultUpstream, fault: str) -> None:
    """A client sees a broken connection, and no departure is counted."""
    stream = fault.endswith("2")
    with pytest.raises(ConnectionError):
        await whole(upstream, body(f"[[fault:{fault}]]", stream=stream))
    assert not upstream.departures


@pytest.mark.parametrize("fault", ["hang", "hang=body", "hang=2", "wait=60", "pause=60"])
async def test_a_client_that_leaves_is_seen(upstream: FaultUpstream, fault: str) -> None:
    """A departure is noticed while the double is silent, wherever that is."""
    stream = fault in {"hang=2", "pause=60"}
    asking = asyncio.create_task(whole(upstream, body(f"[[fault:{fault}]]", stream=stream)))
    await upstream.until(lambda double: double.active == 1)
    asking.cancel()
    await upstream.until(lambda double: len(double.departures) == 1)
    await upstream.until(lambda double: double.open_connections == 0)
    assert 0 == upstream.active


@pytest.mark.parametrize(
    ("fault", "shown"),
    [
        ("crlf", b"\r\n\r\ndata: "),
        ("cr", b"\r\rdata: "),
        ("comments", b": PROCESSING\n\n"),
        ("multiline", b",\ndata: "),
        ("fields", b"id: 0\nevent: message\ndata: "),
        ("tight", b"data:{"),
        ("bom", b"\xef\xbb\xbfdata: "),
        ("error=2", b'data: {"error": {"message": '),
        ("error-choices=2", b'"choices": [], "error": {'),
        ("malformed=2", b'data: {"id": "chatcmpl-\n\n'),
        ("no-choices=2", b'"object": "double.extra"'),
        ("usage=last", b'"choices": [{"index": 0, "delta": {}, "finish_reason": null}]'),
        ("reasoning=reasoning", b'"reasoning": "Let"'),
    ],
)
async def test_a_stream_is_framed_and_filled_as_told(
    upstream: FaultUpstream, fault: str, shown: bytes
) -> None:
    """Each fault of a stream shows in its bytes."""
    request = body(f"[[fault:{fault}]] x", stream=True, reasoning_effort="low")
    request["stream_options"] = {"include_usage": True}
    _, raw = await whole(upstream, request)
    assert shown in raw


@pytest.mark.parametrize(
    ("fault", "events_told"), [("ends=2", 2), ("no-done", 5), ("error=2", 2), ("flood=40000", 9)]
)
async def test_a_stream_is_as_long_as_told(
    upstream: FaultUpstream, fault: str, events_told: int
) -> None:
    """Faults cut a stream short or make it long."""
    assert events_told == len(await events(upstream, body(f"[[fault:{fault}]] x")))


async def test_bytes_come_one_by_one(upstream: FaultUpstream) -> None:
    """Nothing is lost by it."""
    told = await events(upstream, body("[[fault:bytes]] [[say:é]]"))
    assert ["é"] == [e["choices"][0]["delta"]["content"] for e in told[1:-2]]


@pytest.mark.parametrize(
    ("fault", "shown"),
    [
        ("body=null", b"null"),
        ("body=empty", b""),
        ("body=html", b"<!doctype html><title>502 Bad Gateway</title>"),
        ("body=list", b"[]"),
        ("body=text", b"upstream connect error"),
    ],
)
async def test_a_body_is_another(upstream: FaultUpstream, fault: str, shown: bytes) -> None:
    """A body can be what no answer is."""
    assert (200, shown) == await whole(upstream, body(f"[[fault:{fault}]]"))


@pytest.mark.parametrize(
    ("fault", "absent"),
    [
        ("body=no-choices", "choices"),
        ("usage=none", "usage"),
        ("sparse", "created"),
    ],
)
async def test_a_member_is_left_out(upstream: FaultUpstream, fault: str, absent: str) -> None:
    """A body can lack a member."""
    _, raw = await whole(upstream, body(f"[[fault:{fault}]]"))
    assert absent not in json.loads(raw)


async def embedded(upstream: FaultUpstream, **members: object) -> Any:
    """Return the answer to an embeddings request."""
    request = {"model": "text-embedding-3-small", **members}
    return json.loads((await fetched(upstream, "/v1/embeddings", request))[1])


async def test_vectors_belong_to_their_texts(upstream: FaultUpstream) -> None:
    """As numbers and as base64, for texts and tokens, the vectors are those of the inputs."""
    plain = await embedded(upstream, input=["a", "b"])
    assert [vector_of("a"), vector_of("b")] == [each["embedding"] for each in plain["data"]]
    packed = await embedded(upstream, input=[[1, 2]], encoding_format="base64")
    raw = base64.b64decode(packed["data"][0]["embedding"])
    assert vector_of([1, 2]) == list(struct.unpack("<8f", raw))
    assert {"prompt_tokens": 2, "total_tokens": 2} == packed["usage"]


@pytest.mark.parametrize(
    ("fault", "indexes"),
    [("order=2-0-1", [2, 0, 1]), ("index=zero", [0, 0, 0]), ("vectors=short", [0, 1])],
)
async def test_vectors_come_in_another_order(
    upstream: FaultUpstream, fault: str, indexes: list[int]
) -> None:
    """Faults change order, number and indexes."""
    told = await embedded(upstream, input=[f"[[fault:{fault}]]", "b", "c"])
    assert indexes == [each["index"] for each in told["data"]]


@pytest.mark.parametrize("name", ["org/name", "org%2Fname:tag", "a%20model"])
async def test_models_are_found_by_any_id(upstream: FaultUpstream, name: str) -> None:
    """Slashes, colons and spaces are part of an id."""
    status, _ = await fetched(upstream, f"/v1/models/{name}")
    assert 200 == status


@pytest.mark.parametrize("path", ["chat/completions", "embeddings", "elsewhere"])
async def test_an_incomplete_request_is_refused(upstream: FaultUpstream, path: str) -> None:
    """Without a model, or at another path, there is no answer."""
    status, _ = await fetched(upstream, f"/v1/{path}", {"messages": []})
    assert {"chat/completions": 400, "embeddings": 400}.get(path, 404) == status


async def test_a_stale_connection_is_closed(upstream: FaultUpstream) -> None:
    """After the reply the connection ends, though nothing announced it."""
    await whole(upstream, body("[[fault:close-idle]]"))
    await upstream.until(lambda double: double.open_connections == 0)
    assert 1 == upstream.connections


async def test_another_process_can_look(upstream: FaultUpstream) -> None:
    """The counts and requests are told over HTTP, and faults are queued over it."""
    await fetched(upstream, "/_double/queue", ["503"])
    assert 503 == (await whole(upstream, body("x")))[0]
    state = json.loads((await fetched(upstream, "/_double/state?calls=1&idle=1"))[1])
    assert [body("x")] == [json.loads(each["body"]) for each in state["asked"]]
    assert 0 == json.loads((await fetched(upstream, "/_double/forget", []))[1])["calls"]
