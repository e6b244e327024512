"""Vectors in their order, names of models as they are written, and bodies however packed."""

from __future__ import annotations

import asyncio
import base64
import struct
from itertools import product
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from tests.facade.faults.stage import EMBEDDINGS, QUICK, stage
from tests.support.fault_upstream.embedding_shapes import vector_of

AT_ONCE = QUICK + "[embeddings]\nwindow_seconds = 0.0\n"
TEXTS = ["first", "안녕", "third one"]
ORDERS = ("ok", "order=2-0-1", "order=1-2-0", "vectors=float", "vectors=base64")
PACKINGS = ("gzip", "br", "zstd", "deflate", "chained", "mislabelled")
IDS = ("org/name", "org/name:tag", "a model", "hf.co/org/name:Q4_K_M", "ns/ü@sha256:0f", "100%")


def read(vector: Any) -> list[float]:
    """Return a vector, in whichever form it came."""
    if isinstance(vector, str):
        content = base64.b64decode(vector)
        return list(struct.unpack(f"<{len(content) // 4}f", content))
    assert isinstance(vector, list)
    return vector


async def test_each_text_gets_its_own_vector_by_its_index(tmp_path: Path) -> None:
    """Whatever order and form the server sends, the client's are those that it asked for."""
    async with stage(tmp_path, AT_ONCE) as staged:
        for fault, form in product(ORDERS, (None, "float", "base64")):
            staged.near.queue(fault)
            named = {"encoding_format": form} if form else {}
            body = {"model": "auto", "input": TEXTS, **named}
            data = (await staged.served.post(EMBEDDINGS, body)).json["data"]
            assert [0, 1, 2] == [one["index"] for one in data]
            assert [vector_of(text) for text in TEXTS] == [read(one["embedding"]) for one in data]
            kinds = {type(one["embedding"]) for one in data}
            assert {str if form == "base64" else list} == kinds
        assert [15] == staged.calls


async def test_vectors_that_name_no_text_are_given_to_nobody(tmp_path: Path) -> None:
    """Whose they are cannot be told from the order in which they came."""
    async with stage(tmp_path, AT_ONCE) as staged:
        for fault in ("index=zero", "index=none", "vectors=short"):
            staged.near.queue(fault)
            reply = await staged.served.post(EMBEDDINGS, {"model": "auto", "input": TEXTS})
            assert (502, "malformed_response") == (reply.status, reply.code)
        assert [3] == staged.calls


async def test_a_gathered_call_that_fails_is_one_call_to_the_next(tmp_path: Path) -> None:
    """Everybody's texts go on together, and each gets its own vectors from the one that answers."""
    settings = QUICK + "[embeddings]\nwindow_seconds = 10.0\nmax_items = 6\n"
    failures = ("503", "index=zero", "vectors=short", "reset", "body=list")
    async with stage(tmp_path, settings, many=2) as staged:
        for number, fault in enumerate(failures, start=1):
            staged.near.queue(fault)
            staged.far.queue("order=5-3-1-0-2-4")
            replies = await asyncio.gather(
                *(
                    staged.served.post(EMBEDDINGS, {"model": "auto", "input": [f"{n}", f"{n} too"]})
                    for n in range(3)
                )
            )
            for n, reply in enumerate(replies):
                vectors = [read(one["embedding"]) for one in reply.json["data"]]
                assert [vector_of(f"{n}"), vector_of(f"{n} too")] == vectors
            assert [number, number] == staged.calls
            assert 9 == sum(reply.json["usage"]["prompt_tokens"] for reply in replies)
            assert [2, 2, 2] == [line.attempts for line in staged.served.lines[-3:]]


@pytest.mark.parametrize("escaped", [True, False])
async def test_ids_hold_whatever_names_hold(tmp_path: Path, *, escaped: bool) -> None:
    """Slashes, colons, spaces and per cent signs, in a path and in a request."""
    async with stage(tmp_path) as staged:
        staged.near.models = IDS
        await staged.served.gateway.maintain()
        staged.near.forget()
        for name in IDS:
            if escaped or quote(name, safe="/:@") == name:
                path = quote(name, safe="") if escaped else name
                reply = await staged.served.get(f"/v1/models/{path}")
                assert (200, name) == (reply.status, reply.json["id"])
            for model in (name, f"near/{name}"):
                asked = await staged.served.chat(model=model)
                assert (200, model) == (asked.status, asked.json["model"])
                assert name == staged.near.asked[-1].json["model"]
        missing = await staged.served.get("/v1/models/org%2Fnone")
        assert (404, "model_not_found") == (missing.status, missing.code)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_prefix_never_leads_to_another_provider(tmp_path: Path, *, stream: bool) -> None:
    """In capitals or with several segments it is the same one, and else it is nobody's."""
    async with stage(tmp_path, many=2) as staged:
        for model in ("near/echo", "NEAR/echo", "Near/org/name", "near/far/echo", "near/auto"):
            for upstream in staged.upstreams:
                upstream.forget()
            staged.near.queue("503", "ok")
            failed = await staged.served.chat(model=model, stream=stream)
            assert 502 == failed.status
            reply = await staged.served.chat(model=model, stream=stream)
            assert (200, [2, 0]) == (reply.status, staged.calls)
            told = reply.events[0] if stream else reply.json
            assert model == told["model"]
        for model in ("nera/echo", "near echo", "/echo", "near/", "echo/near", "ECHO", "far:echo"):
            refused = await staged.served.chat(model=model, stream=stream)
            assert (404, "model_not_found") == (refused.status, refused.code)
        assert [2, 0] == staged.calls


async def test_packed_bodies_are_unpacked_and_sent_plain(tmp_path: Path) -> None:
    """Whole answers, vectors and errors, labelled rightly or not."""
    async with stage(tmp_path, AT_ONCE) as staged:
        for packing in PACKINGS:
            fault = f"encoding={packing}"
            staged.near.queue(fault, f"{fault} bytes", fault, f"400 code=content_filter {fault}")
            for _ in range(2):
                reply = await staged.served.chat()
                assert "You said: Hello." == reply.json["choices"][0]["message"]["content"]
                assert "content-encoding" not in reply.headers
                assert str(len(reply.body)) == reply.headers["content-length"]
            vectors = await staged.served.post(EMBEDDINGS, {"model": "auto", "input": TEXTS})
            assert [0, 1, 2] == [one["index"] for one in vectors.json["data"]]
            refused = await staged.served.chat()
            assert (400, "content_filter") == (refused.status, refused.code)
        assert [4 * len(PACKINGS)] == staged.calls


@pytest.mark.parametrize("packing", ["unlabelled", "cut"])
async def test_bodies_that_cannot_be_unpacked_are_no_answers(tmp_path: Path, packing: str) -> None:
    """The next one is asked, and nothing of them reaches the client."""
    async with stage(tmp_path, many=2) as staged:
        staged.near.queue(f"encoding={packing}")
        reply = await staged.served.chat()
        assert ("far", [1, 1]) == (staged.line.provider, staged.calls)
        assert "You said: Hello." == reply.json["choices"][0]["message"]["content"]
        assert ["malformed_response"] == [failed.code for failed in staged.line.failures]
