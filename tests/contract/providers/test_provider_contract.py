"""What every adapter promises to the round, whatever stands behind it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from casework.config import ProviderConfig
from casework.errors import ConfigurationError
from casework.gateway.clock import Deadline, SystemClock
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
from casework.gateway.providers import BUILT_IN, llamacpp
from casework.gateway.providers.provider import LLMProvider
from casework.gateway.providers.replay import recording
from casework.strict_json import JSONObject
from tests.support.raw_server import Connection, RawServer, answer, chat

SECRET = "sk-canary-2c"  # a mark to look for
KEY = Credential("KEY#1", SECRET)
DOCUMENT = "The pump failed twice."
SCHEMA: JSONObject = {"properties": {"word": {"type": "string"}}, "required": ["word"]}
CALL = ProviderCall(
    model="m",
    messages=(Message("system", "Answer."), Message("user", DOCUMENT)),
    output_schema=SCHEMA,
    schema_name="answer",
    parameters={"temperature": 0, "max_tokens": 5},
    data=DataSpan(1, 0, len(DOCUMENT)),
)
RULES = """format = "casework-rules/1"
[[fields]]
name = "word"
[[fields.rules]]
pattern = 'pump'
"""
TEXT = '{"word": "pump"}'


def within(seconds: float = 20.0) -> Deadline:
    """Return a real deadline."""
    return Deadline.after(seconds, SystemClock())


@dataclass(frozen=True)
class Stage:
    """One adapter, ready to be asked, and how often the far end heard of it."""

    provider: LLMProvider
    heard: Callable[[], int]


Setting = Callable[[Path, pytest.MonkeyPatch], AbstractAsyncContextManager[Stage]]


def in_process(adapter: str, content: bytes) -> Setting:
    """Set up an adapter that works from a file."""

    @asynccontextmanager
    async def setting(folder: Path, _patch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
        path = folder / "file"
        path.write_bytes(content)
        provider = BUILT_IN[adapter](ProviderConfig(id="p", adapter=adapter, file=path))
        yield Stage(provider, lambda: 0)
        await provider.aclose()

    return setting


def over_http(adapter: str, *behaviours: Any) -> Setting:
    """Set up an adapter that reaches a server; the local model's server is played as well."""

    @asynccontextmanager
    async def setting(folder: Path, patch: pytest.MonkeyPatch) -> AsyncIterator[Stage]:
        async with RawServer(list(behaviours)) as server:
            entry: dict[str, Any] = {"base_url": server.base_url, "model": "m"}
            if adapter == "llamacpp":
                weights = folder / "weights.gguf"
                weights.write_bytes(b"GGUF")
                entry = {"file": weights}
                address = SimpleNamespace(listening_address=server.base_url.removesuffix("/v1"))
                patch.setattr(llamacpp, "_start_server", lambda *_: address)
            provider = BUILT_IN[adapter](ProviderConfig(id="p", adapter=adapter, **entry))
            yield Stage(provider, lambda: len(server.heard))
            await provider.aclose()

    return setting


async def silence(connection: Connection) -> None:
    """Hear the request and never answer."""
    await connection.wait_until_gone()


HTTP = ("openai_compatible", "llamacpp")
SCRIPT = json.dumps({"steps": [{"do": "reply", "text": TEXT}, {"do": "hang"}]}).encode()
HANG = json.dumps({"steps": [{"do": "hang"}]}).encode()
RECORDED = recording(CALL, ProviderReply(text=TEXT, finish=Finish.STOP))
ANSWERING: dict[str, Setting] = {
    **{adapter: over_http(adapter, chat(TEXT)) for adapter in HTTP},
    "rules": in_process("rules", RULES.encode()),
    "replay": in_process("replay", RECORDED),
    "scripted": in_process("scripted", SCRIPT),
}
HANGING: dict[str, Setting] = {
    **{adapter: over_http(adapter, silence) for adapter in HTTP},
    "scripted": in_process("scripted", HANG),
}


@pytest.fixture(params=ANSWERING)
async def answering(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Stage]:
    """Return each adapter in turn, with a sound answer behind it."""
    async with ANSWERING[request.param](tmp_path, monkeypatch) as stage:
        yield stage


@pytest.fixture(params=HANGING)
async def hanging(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Stage]:
    """Return each adapter that can hang, hanging."""
    async with HANGING[request.param](tmp_path, monkeypatch) as stage:
        yield stage


async def failure(stage: Stage, *, seconds: float = 20.0) -> ProviderFailure:
    """Ask once and return how it failed."""
    with pytest.raises(ProviderFailure) as caught:
        await stage.provider.complete(CALL, credential=KEY, deadline=within(seconds))
    assert SECRET not in str(caught.value)
    return caught.value


def test_the_contract_covers_every_adapter() -> None:
    """An adapter that ships is under this suite."""
    assert set(BUILT_IN) == set(ANSWERING)


async def test_an_answer_comes_back_as_text(answering: Stage) -> None:
    """Text comes back unjudged, unknown usage is None, and one call is one request."""
    reply = await answering.provider.complete(CALL, credential=KEY, deadline=within())
    assert {"word": "pump"} == json.loads(reply.text)
    assert (Finish.STOP, None) == (reply.finish, reply.usage)
    assert answering.heard() in {0, 1}
    assert SECRET not in repr(reply)


async def test_a_deadline_that_has_passed_is_a_timeout(answering: Stage) -> None:
    """A late call asks nobody."""
    assert FailureKind.TIMEOUT is (await failure(answering, seconds=0.0)).kind
    assert 0 == answering.heard()


async def test_letting_go_twice_is_harmless(answering: Stage) -> None:
    """An adapter can be closed before, after and without any call."""
    await answering.provider.aclose()
    await answering.provider.complete(CALL, credential=None, deadline=within())
    await answering.provider.aclose()
    await answering.provider.aclose()
    assert answering.heard() in {0, 1}


async def test_calls_do_not_mix(answering: Stage) -> None:
    """The adapter keeps nothing of one call for another."""
    other = replace(CALL, data=None, messages=(Message("user", "other"),))
    first = await answering.provider.complete(CALL, credential=None, deadline=within())
    try:
        await answering.provider.complete(other, credential=None, deadline=within(0.2))
    except ProviderFailure as caught:
        told = str(caught)
    else:
        told = ""
    assert DOCUMENT not in told + repr(first)


async def test_the_deadline_ends_a_call(hanging: Stage) -> None:
    """What hangs is a timeout at the deadline, after one request that may have been sent."""
    found = await failure(hanging, seconds=0.2)
    assert (FailureKind.TIMEOUT, True) == (found.kind, found.sent)
    assert hanging.heard() in {0, 1}


async def test_a_cancelled_call_ends(hanging: Stage) -> None:
    """Cancelling is passed on and not turned into a failure."""
    task = asyncio.ensure_future(
        hanging.provider.complete(CALL, credential=None, deadline=within())
    )
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


REPLIES: list[tuple[bytes, FailureKind, int | None]] = [
    (answer(301), FailureKind.REDIRECT_REJECTED, 301),
    (answer(400), FailureKind.HTTP_ERROR, 400),
    (answer(401), FailureKind.AUTH_ERROR, 401),
    (answer(403), FailureKind.AUTH_ERROR, 403),
    (answer(404), FailureKind.HTTP_ERROR, 404),
    (answer(408), FailureKind.HTTP_408, 408),
    (answer(422), FailureKind.HTTP_ERROR, 422),
    (answer(429), FailureKind.HTTP_429, 429),
    (answer(500), FailureKind.HTTP_5XX, 500),
    (answer(503), FailureKind.HTTP_5XX, 503),
    (
        answer(400, {"error": {"type": "exceed_context_size_error", "code": 400}}),
        FailureKind.CONTEXT_TOO_LONG,
        400,
    ),
    (answer(400, {"error": {"code": "content_filter"}}), FailureKind.REFUSAL, 400),
    (answer(200, "<html>"), FailureKind.MALFORMED_RESPONSE, None),
    (answer(200, b"x" * 2_000_000), FailureKind.RESPONSE_TOO_LARGE, None),
]


@pytest.mark.parametrize("adapter", HTTP)
@pytest.mark.parametrize(("reply", "kind", "status"), REPLIES)
async def test_replies_mean_the_same_to_every_adapter(  # noqa: PLR0917 - a table's columns
    adapter: str,
    reply: bytes,
    kind: FailureKind,
    status: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each failure is told once, with its status, after exactly one request."""
    async with over_http(adapter, reply)(tmp_path, monkeypatch) as stage:
        found = await failure(stage)
        assert (kind, status, 1) == (found.kind, found.http_status, stage.heard())


@pytest.mark.parametrize("adapter", HTTP)
async def test_usage_comes_through(
    adapter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the server counted is what is reported."""
    usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
    async with over_http(adapter, chat("x", usage=usage))(tmp_path, monkeypatch) as stage:
        reply = await stage.provider.complete(CALL, credential=KEY, deadline=within())
    assert Usage(3, 4, 7) == reply.usage


async def test_each_call_carries_its_own_key() -> None:
    """Keys of concurrent calls are never mixed up, and a call without one sends none."""
    async with RawServer([chat("x")]) as server:
        config = ProviderConfig(
            id="p", adapter="openai_compatible", base_url=server.base_url, model="m"
        )
        provider = BUILT_IN["openai_compatible"](config)
        keys = [Credential(f"K#{n}", f"secret-{n}") for n in range(20)]
        calls = [replace(CALL, messages=(Message("user", key.secret),), data=None) for key in keys]
        asked = [
            provider.complete(call, credential=key, deadline=within())
            for call, key in zip(calls, keys, strict=True)
        ]
        await asyncio.gather(*asked)
        await provider.complete(CALL, credential=None, deadline=within())
        await provider.aclose()
    for heard in server.heard[:-1]:
        said = json.loads(heard.body)["messages"][0]["content"]
        assert f"Bearer {said}" == heard.headers["authorization"]
    assert "authorization" not in server.heard[-1].headers


async def test_a_request_beyond_the_limit_is_not_sent() -> None:
    """The size is judged before any connection is made."""
    async with RawServer([chat("x")]) as server:
        config = ProviderConfig(
            id="p",
            adapter="openai_compatible",
            base_url=server.base_url,
            model="m",
            request_bytes_max=10,
        )
        provider = BUILT_IN["openai_compatible"](config)
        found = await failure(Stage(provider, lambda: server.connections))
        assert 0 == server.connections
    assert (FailureKind.REQUEST_TOO_LARGE, False) == (found.kind, found.sent)


@pytest.mark.parametrize("adapter", ["rules", "replay", "scripted", "openai_compatible"])
def test_an_entry_that_lacks_what_its_adapter_needs_is_refused(adapter: str) -> None:
    """A missing file or address is a configuration error before any call."""
    config = ProviderConfig.model_construct(
        id="p", adapter=adapter, file=None, base_url=None, ca_file=None
    )
    with pytest.raises(ConfigurationError):
        BUILT_IN[adapter](config)
