"""What a request would do is told by the rules that it would meet, and nobody is contacted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.facade.bare_requests import ask
from tests.facade.serving import Facade, facade, provider
from tests.support.fault_upstream.server import FaultUpstream
from tests.support.key_files import key_entry, key_file

PATH = "/v1/explain"
HELLO = {"messages": [{"role": "user", "content": "Hello."}]}
SETTINGS = """
[models.aliases]
"gpt-4o-mini" = ["far", "near/small"]
[interactive]
deadline_seconds = 20.0
max_retries = 1
"""


@pytest.fixture
async def upstream() -> AsyncIterator[FaultUpstream]:
    """Give an upstream that must not be asked, unless a test says so."""
    async with FaultUpstream() as upstream:
        yield upstream


@pytest.fixture
async def served(upstream: FaultUpstream, tmp_path: Path) -> AsyncIterator[Facade]:
    """Give a facade of two providers, one of them with two keys."""
    settings = (
        'privacy_profile = "cloud_allowed"\n'
        + provider("near", upstream.base_url)
        + provider("far", upstream.base_url, 'class = "cloud"\napi_key_env = ["ONE", "TWO"]')
        + SETTINGS
    )
    environ = {"ONE": "secret-1", "TWO": "secret-2"}
    async with facade(settings, tmp_path, environ=environ) as served:
        yield served


def named(told: Any) -> list[str]:
    """Return targets by name."""
    return [f"{one['provider']}/{one['model']}" for one in told]


@pytest.mark.parametrize(
    ("model", "rule", "policy", "targets", "calls_max"),
    [
        ("auto", "auto", "interactive_auto", ["near/echo", "far/echo"], 6),
        ("gpt-4o-mini", "alias", "interactive_auto", ["far/echo", "near/small"], 6),
        ("echo", "bare_model", "interactive_auto", ["near/echo", "far/echo"], 6),
        ("near/auto", "provider_auto", "interactive_strict", ["near/echo"], 2),
        ("FAR/big/model", "provider_model", "interactive_strict", ["far/big/model"], 4),
    ],
)
async def test_the_rule_and_the_targets_are_told(
    served: Facade, upstream: FaultUpstream, *, model: str, rule: str, policy: str,
    targets: list[str], calls_max: int,
) -> None:  # fmt: skip
    """In the order of asking, with the most calls that can come of it."""
    reply = await ask(served, "POST", PATH, {**HELLO, "model": model})
    told = reply.json
    assert ("asked", rule, policy) == (told["outcome"], told["rule"], told["policy"])
    assert (targets, calls_max) == (named(told["targets"]), told["calls_max"])
    assert 20.0 == told["deadline_seconds"]
    assert told["estimated_prompt_tokens"] > 0
    assert 0 == upstream.calls
    assert b"secret" not in reply.body
    assert b"127.0.0.1" not in reply.body


async def test_what_narrows_is_told_with_its_source(
    upstream: FaultUpstream, tmp_path: Path
) -> None:
    """The narrowest of configuration, key, header and body counts, and the least deadline."""
    key_file(tmp_path, key_entry("web", "cw-web", privacy_profile="self_hosted"))
    settings = 'privacy_profile = "cloud_allowed"\n' + provider("near", upstream.base_url)
    headers = {
        "Authorization": "Bearer cw-web",
        "X-Casework-Privacy-Profile": "cloud_allowed",
        "X-Casework-Deadline-Seconds": "2.5",
    }
    body = {**HELLO, "model": "auto", "privacy_profile": "local_only"}
    async with facade(settings, tmp_path) as served:
        told = (await ask(served, "POST", PATH, body, headers=headers)).json
    assert {
        "effective": "local_only",
        "configuration": "cloud_allowed",
        "client_key": "self_hosted",
        "header": "cloud_allowed",
        "body": "local_only",
    } == told["privacy_profile"]
    assert 2.5 == told["deadline_seconds"]
    assert "web" == served.lines[0].client


async def test_who_is_passed_over_is_told_with_the_reason(served: Facade) -> None:
    """A name that is left with fewer targets says so."""
    headers = {"X-Casework-Privacy-Profile": "local_only"}
    told = (await ask(served, "POST", PATH, {**HELLO, "model": "auto"}, headers=headers)).json
    assert ["near/echo"] == named(told["targets"])
    assert [("far", "cloud", "privacy_profile")] == [
        (one["provider"], one["class"], one["reason"]) for one in told["passed_over"]
    ]


@pytest.mark.parametrize(
    ("model", "status", "code", "passed_over"),
    [
        ("nobody", 404, "model_not_found", []),
        ("far/x", 403, "privacy_profile", ["far/x"]),
    ],
)
async def test_a_refusal_is_explained_by_the_error_that_it_would_be(
    served: Facade, model: str, status: int, *, code: str, passed_over: list[str]
) -> None:
    """The chat route gives the very same one."""
    body = {**HELLO, "model": model}
    headers = {"X-Casework-Privacy-Profile": "local_only"}
    told = (await ask(served, "POST", PATH, body, headers=headers)).json
    chat = await ask(served, "POST", "/v1/chat/completions", body, headers=headers)
    assert ("refused", 0, []) == (told["outcome"], told["calls_max"], told["targets"])
    assert (status, code) == (told["error"]["status"], told["error"]["code"]) == chat.error
    assert chat.json["error"]["message"] == told["error"]["message"]
    assert passed_over == named(told["passed_over"])


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        [],
        {"model": "auto"},
        {"model": "auto", "messages": []},
        {"model": "auto", "input": []},
        {**HELLO, "model": "auto", "privacy_profile": "anything"},
    ],
)
async def test_what_is_no_request_cannot_be_explained(served: Facade, body: object) -> None:
    """It gets the error that the request itself would get."""
    path = "/v1/embeddings" if isinstance(body, dict) and "input" in body else None
    reply = await ask(served, "POST", PATH, body)
    asked = await ask(served, "POST", path or "/v1/chat/completions", body)
    assert 400 == reply.status
    assert asked.error == reply.error


async def test_embeddings_are_explained_too(served: Facade) -> None:
    """Members that are never passed on are named."""
    body = {"model": "near/auto", "input": ["one two", "three"], "api_key": "secret"}
    reply = await ask(served, "POST", PATH, body)
    told = reply.json
    assert ("embeddings", ["api_key"]) == (told["request"], told["withheld"])
    assert ["near/echo"] == named(told["targets"])
    assert 3 == told["estimated_prompt_tokens"]
    assert b"secret" not in reply.body


async def test_a_target_at_rest_is_told(served: Facade, upstream: FaultUpstream) -> None:
    """Once a call has failed, until its time is over."""
    body = {**HELLO, "model": "near/auto"}
    upstream.queue("429")
    assert 429 == (await ask(served, "POST", "/v1/chat/completions", body)).status
    told = (await ask(served, "POST", PATH, body)).json
    (target,) = told["targets"]
    assert "http_429" == target["rest"]["kind"]
    assert target["rest"]["seconds"] > 0


async def test_a_long_request_is_explained_too(served: Facade) -> None:
    """It is read aside, by the same rules."""
    body = {"model": "auto", "messages": [{"role": "user", "content": "word " * 20_000}]}
    told = (await ask(served, "POST", PATH, body)).json
    assert told["estimated_prompt_tokens"] > 20_000
