"""Prompts of every shape are measured, and what cannot be measured is refused."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from casework.facade.aside import ASIDE_BYTES
from tests.facade.bare_requests import ask
from tests.facade.serving import Facade, facade, provider
from tests.support.raw_server import RawServer

PATH = "/v1/token-count"


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Facade]:
    """Give a facade whose only provider is never to be asked."""
    async with RawServer([b""]) as nobody:
        async with facade(provider("near", nobody.base_url), tmp_path) as served:
            yield served
        assert 0 == nobody.connections


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        ({"text": "hello world"}, 2),
        ({"text": ""}, 0),
        ({"model": "any", "input": ["hello", "world"]}, 2),
        ({"input": [[1, 2, 3], [4]]}, 4),
        ({"input": [1, 2, 3]}, 3),
        ({"input": []}, 0),
        ({"messages": []}, 3),
        ({"messages": [{"role": "user", "content": "hello world"}]}, 9),
        (
            {
                "messages": [
                    {"role": "user", "content": ["hello", {"type": "text", "text": "world"}]}
                ]
            },
            9,
        ),
        ({"messages": [{"role": "user", "content": "x"}], "model": None}, 8),
    ],
)
async def test_what_can_be_measured_is(served: Facade, body: object, tokens: int) -> None:
    """The figure is always marked as an estimate."""
    reply = await ask(served, "POST", PATH, body)
    assert {"token_count": tokens, "estimated": True} == reply.json


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", "invalid_json"),
        (b"{", "invalid_json"),
        (b"\xff", "invalid_json"),
        (b'{"text": ' + b"[" * 100_000, "invalid_json"),
        ([], "invalid_type"),
        ({}, "missing_required_parameter"),
        ({"model": "m"}, "missing_required_parameter"),
        ({"text": "a", "input": "b"}, "invalid_value"),
        ({"text": 1}, "invalid_type"),
        ({"text": ["a"]}, "invalid_type"),
        ({"input": {"a": 1}}, "invalid_type"),
        ({"input": [True]}, "invalid_type"),
        ({"input": [["a", None]]}, "invalid_type"),
        ({"messages": "hello"}, "invalid_type"),
        ({"messages": ["hello"]}, "invalid_type"),
        ({"model": 7, "text": "a"}, "invalid_type"),
    ],
)
async def test_what_cannot_be_measured_is_refused(served: Facade, body: object, code: str) -> None:
    """It is the client's mistake, told with a stable code."""
    reply = await ask(served, "POST", PATH, body)
    assert (400, code) == reply.error


async def test_a_long_text_is_measured_too(served: Facade) -> None:
    """It is counted aside, with the same result as many short ones."""
    words = ASIDE_BYTES
    reply = await ask(served, "POST", PATH, {"text": "word " * words})
    assert words == reply.json["token_count"]


async def test_a_body_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    """The limit is that of every other body."""
    settings = provider("near", "http://127.0.0.1:9/v1") + "[serve]\nmax_request_bytes = 1024\n"
    async with facade(settings, tmp_path) as served:
        reply = await ask(served, "POST", PATH, b" " * 1025)
    assert (413, "request_too_large") == reply.error
