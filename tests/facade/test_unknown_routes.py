"""Whatever is not served is refused in OpenAI's shape, with the way out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.facade.bare_requests import bare
from tests.facade.openapi_description import described_operations
from tests.facade.serving import Facade, facade, provider
from tests.support.key_files import key_entry, key_file
from tests.support.openai_schemas import ERROR, violations

NOWHERE = "http://127.0.0.1:9/v1"


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Facade]:
    """Give a facade that has a client key."""
    key_file(tmp_path, key_entry("web", "cw-web"))
    async with facade(provider("near", NOWHERE), tmp_path) as served:
        yield served


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/responses"),
        ("GET", "/v1/chat/completions/chatcmpl-1"),
        ("POST", "/v1/chat/completions/"),
        ("POST", "/v1/completions"),
        ("GET", "/v1"),
        ("GET", "/v1/"),
        ("GET", "/docs"),
        ("GET", "/redoc"),
        ("OPTIONS", "/nowhere"),
        ("GET", "/%2e%2e/etc/passwd"),
        ("PURGE", "//"),
        ("GET", "/v1/models/near%0d%0aSet-Cookie:%20a"),
        ("OPTIONS", "*"),
    ],
)
async def test_a_path_that_is_none_is_not_found(served: Facade, method: str, path: str) -> None:
    """No key is asked for, and the error names everything that is served."""
    reply = await bare(served, method, path, b"{}")
    assert (404, "unknown_url") == reply.error
    assert [] == violations(reply.json, ERROR)
    assert "application/json" == reply.headers["content-type"]
    for served_method, served_path in described_operations():
        assert f"{served_method} {served_path}" in reply.json["error"]["message"]


@pytest.mark.parametrize("method", ["DELETE", "PUT", "PATCH", "TRACE", "PURGE", "GET", "POST"])
async def test_a_method_that_a_path_lacks_is_not_allowed(served: Facade, method: str) -> None:
    """The reply says which ones there are, in its headers too."""
    described = described_operations()
    for path in {path for _, path in described}:
        if (method, path) in described:
            continue
        reply = await bare(served, method, path.replace("{id}", "org%2Fname"), b"{}")
        assert (405, "method_not_allowed") == reply.error
        assert [] == violations(reply.json, ERROR)
        allowed = {m for m, described_path in described if described_path == path} | {"OPTIONS"}
        allowed |= {"HEAD"} if "GET" in allowed else set()
        assert allowed == set(reply.headers["allow"].split(", "))


async def test_head_is_a_get_without_a_body(served: Facade) -> None:
    """A path without GET has no HEAD either."""
    reply = await bare(served, "HEAD", "/healthz")
    assert (200, b"") == (reply.status, reply.body)
    assert 405 == (await bare(served, "HEAD", "/v1/explain")).status


async def test_no_other_origin_is_let_in(served: Facade) -> None:
    """A browser that asks beforehand is told the methods, and nothing that lets a page call."""
    headers = {"Origin": "https://page.example", "Access-Control-Request-Method": "POST"}
    for method in ("OPTIONS", "POST"):
        reply = await bare(served, method, "/v1/chat/completions", b"", headers=headers)
        assert not [name for name in reply.headers if name.startswith("access-control")]
    reply = await bare(served, "OPTIONS", "/v1/chat/completions", headers=headers)
    assert (204, "OPTIONS, POST", b"") == (reply.status, reply.headers["allow"], reply.body)


async def test_what_is_not_served_stands_in_no_log(served: Facade) -> None:
    """Somebody who only looks around fills no file."""
    await bare(served, "GET", "/nowhere")
    await bare(served, "DELETE", "/v1/models")
    await bare(served, "GET", "/healthz")
    assert [] == served.lines
