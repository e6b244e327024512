"""A client's request goes on byte for byte, once, under the name the server knows."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from casework.config.providers import ProviderConfig
from casework.gateway.chat.calls import (
    ChatCall,
    ChatProvider,
    EmbeddingCall,
    EmbeddingProvider,
    ListingProvider,
)
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.messages import Credential, Message, ProviderCall
from casework.gateway.providers.openai_compatible import (
    EMBEDDING_BYTES_MAX,
    OpenAICompatibleProvider,
)
from tests.support.http_calls import within
from tests.support.raw_server import RawServer, answer, chat

MEMBERS = {
    "messages": b'[ {"role":"user", "content":"\\ud83e\\udd9c \xf0\x9f\xa6\x9c"} ]',
    "temperature": b"1.0",
    "max_tokens": b"10",
    "seed": b"12345678901234567890",
    'odd "\u00e9"': b"null",
}
SENT = (
    b'"messages":[ {"role":"user", "content":"\\ud83e\\udd9c \xf0\x9f\xa6\x9c"} ],'
    b'"temperature":1.0,"max_tokens":10,"seed":12345678901234567890,"odd \\"\\u00e9\\"":null'
)
KEY = Credential("K#1", "sk-1")


def adapter(url: str, **changes: Any) -> OpenAICompatibleProvider:
    """Return an adapter for a server."""
    entry = {"id": "p", "adapter": "openai_compatible", "model": "m", "base_url": url, **changes}
    return OpenAICompatibleProvider.from_config(ProviderConfig.model_validate(entry))


@pytest.fixture
async def server() -> AsyncIterator[RawServer]:
    """Return a server that answers everything with an empty object."""
    async with RawServer([answer()]) as running:
        yield running


def test_it_speaks_every_protocol() -> None:
    """Chats, embeddings and lists of models are asked of it."""
    assert issubclass(OpenAICompatibleProvider, ChatProvider)
    assert issubclass(OpenAICompatibleProvider, EmbeddingProvider)
    assert issubclass(OpenAICompatibleProvider, ListingProvider)


async def test_a_chat_is_passed_on_byte_for_byte(server: RawServer) -> None:
    """The model's name is the server's; nothing else is touched, and the body comes back as is."""
    target = adapter(server.base_url)
    call = ChatCall(model='m "1"', members=MEMBERS)
    reply = await target.chat(call, credential=KEY, deadline=within(20))
    await target.aclose()
    assert (b"{}", ()) == (reply.body, reply.dropped)
    (heard,) = server.heard
    assert "POST /v1/chat/completions HTTP/1.1" == heard.line
    assert "Bearer sk-1" == heard.headers["authorization"]
    assert b'{"model":"m \\"1\\"",' + SENT + b"}" == heard.body


async def test_a_stream_is_asked_for_with_its_usage(server: RawServer) -> None:
    """What was asked for as a stream is a stream whose usage is told."""
    target = adapter(server.base_url)
    call = ChatCall(model="m", members=MEMBERS, stream=True)
    stream = await target.open_stream(call, credential=None, deadline=within(20))
    assert [[b"{}"]] == [events async for events in stream.events()]
    await target.aclose()
    (heard,) = server.heard
    asked = b',"stream":true,"stream_options":{"include_usage":true}}'
    assert b'{"model":"m",' + SENT + asked == heard.body
    assert "authorization" not in heard.headers


async def test_texts_are_embedded_by_one_request(server: RawServer) -> None:
    """Texts and token numbers go out as they came, without any wish for a form."""
    target = adapter(server.base_url)
    call = EmbeddingCall(model="m", inputs=(b'"a"', b"[1, 2]"), members={"dimensions": b"3"})
    reply = await target.embed(call, credential=KEY, deadline=within(20))
    await target.aclose()
    assert (b"{}", ()) == (reply.body, reply.dropped)
    (heard,) = server.heard
    assert "POST /v1/embeddings HTTP/1.1" == heard.line
    assert b'{"model":"m","input":["a",[1, 2]],"dimensions":3}' == heard.body


async def test_each_text_widens_the_answer_that_is_read() -> None:
    """Vectors are long: so much for each text, and never less than the entry allows."""
    sizes = [2 * EMBEDDING_BYTES_MAX, 2 * EMBEDDING_BYTES_MAX + 1, 3 * EMBEDDING_BYTES_MAX]
    call = EmbeddingCall(model="m", inputs=(b'"a"', b'"b"'), members={})
    async with RawServer([answer(body=b" " * size) for size in sizes]) as server:
        target = adapter(server.base_url, max_response_bytes=1)
        reply = await target.embed(call, credential=None, deadline=within(20))
        assert sizes[0] == len(reply.body)
        with pytest.raises(ProviderFailure) as caught:
            await target.embed(call, credential=None, deadline=within(20))
        assert FailureKind.RESPONSE_TOO_LARGE is caught.value.kind
        await target.aclose()
        target = adapter(server.base_url, max_response_bytes=sizes[2])
        reply = await target.embed(call, credential=None, deadline=within(20))
        assert sizes[2] == len(reply.body)
        await target.aclose()


async def test_a_request_beyond_its_limit_is_not_sent(server: RawServer) -> None:
    """Exactly the limit goes out; a byte more fails unsent."""
    members = {"x": b'"' + b"y" * 100 + b'"'}
    size = len(b'{"model":"m","x":') + 103
    for limit, fits in ((size, True), (size - 1, False)):
        target = adapter(server.base_url, max_request_bytes=limit)
        call = ChatCall(model="m", members=members)
        if fits:
            await target.chat(call, credential=None, deadline=within(20))
        else:
            embedding = EmbeddingCall(model="m", inputs=(b'"' + b"y" * 200 + b'"',), members={})
            for asked in (
                target.chat(call, credential=None, deadline=within(20)),
                target.open_stream(call, credential=None, deadline=within(20)),
                target.embed(embedding, credential=None, deadline=within(20)),
            ):
                with pytest.raises(ProviderFailure) as caught:
                    await asked
                found = caught.value
                assert (FailureKind.REQUEST_TOO_LARGE, False) == (found.kind, found.sent)
        await target.aclose()
    assert 1 == len(server.heard)


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({"data": [{"id": "a"}, {"id": "org/b:c d"}, {"id": "a"}]}, ("a", "org/b:c d")),
        ([{"id": "a"}], ("a",)),
        ({"data": []}, ()),
        ({"data": [{"id": 1}, {"name": "x"}, "y", None, {"id": "x" * 257}, {"id": "z"}]}, ("z",)),
    ],
)
async def test_models_are_listed_by_name(body: object, names: tuple[str, ...]) -> None:
    """Each name is told once, and what is none is passed over."""
    async with RawServer([answer(body=body)]) as server:
        target = adapter(server.base_url)
        assert names == await target.models(credential=KEY, deadline=within(20))
        await target.aclose()
    (heard,) = server.heard
    assert "GET /v1/models HTTP/1.1" == heard.line
    assert (b"", "Bearer sk-1") == (heard.body, heard.headers["authorization"])
    assert not {"content-length", "content-type"} & heard.headers.keys()


@pytest.mark.parametrize("body", [b"", b"<html>", {}, {"data": {}}, 1, b"[" * 100_000])
async def test_what_is_no_list_of_models_is_malformed(body: object) -> None:
    """A page, a number and a text that nests too deeply name no models."""
    async with RawServer([answer(body=body)]) as server:
        target = adapter(server.base_url)
        with pytest.raises(ProviderFailure) as caught:
            await target.models(credential=None, deadline=within(20))
        await target.aclose()
    assert FailureKind.MALFORMED_RESPONSE is caught.value.kind


async def test_a_durable_call_shares_its_connection_with_nobody() -> None:
    """What is recorded comes over a connection that served no other call; others share theirs."""
    durable = ProviderCall(
        model="m",
        messages=(Message("user", "x"),),
        output_schema={},
        schema_name="s",
        parameters={},
        data=None,
    )
    chatting = ChatCall(model="m", members=MEMBERS)
    async with RawServer([chat("{}")]) as server:
        target = adapter(server.base_url)
        for _ in range(2):
            await target.chat(chatting, credential=None, deadline=within(20))
        assert 1 == server.connections
        for _ in range(2):
            await target.complete(durable, credential=None, deadline=within(20))
        assert 3 == server.connections
        await target.chat(chatting, credential=None, deadline=within(20))
        assert 3 == server.connections
        await target.chat(replace(chatting, alone=True), credential=None, deadline=within(20))
        assert 4 == server.connections
        await target.aclose()
    assert [None, None, "close", "close", None, "close"] == [
        heard.headers.get("connection") for heard in server.heard
    ]
    assert "m" == json.loads(server.heard[2].body)["model"]
