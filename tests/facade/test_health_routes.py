"""Whoever watches over the process learns how it is, and nothing else."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.facade.bare_requests import ask
from tests.facade.serving import facade, provider
from tests.support.key_files import key_entry, key_file
from tests.support.raw_server import Connection, RawServer

NOWHERE = "http://127.0.0.1:9/v1"


async def test_no_key_is_asked_for(tmp_path: Path) -> None:
    """Nothing that is told is about clients or providers."""
    key_file(tmp_path, key_entry("web", "cw-web"))
    async with facade(provider("near", NOWHERE), tmp_path) as served:
        for path in ("/", "/healthz", "/readyz", "/openapi.json"):
            reply = await ask(served, "GET", path)
            assert 200 == reply.status
            assert b"near" not in reply.body.replace(b"nearest", b"")
        assert "casework" == (await ask(served, "GET", "/")).json["name"]


async def test_a_slow_provider_keeps_nobody_from_being_ready(tmp_path: Path) -> None:
    """While it is asked for its models, requests are served; afterwards discovery is done."""
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slow(connection: Connection) -> None:
        asked.set()
        await go_on.wait()
        await connection.say(b"HTTP/1.1 503 Not now\r\nContent-Length: 0\r\n\r\n")

    async with (
        RawServer([slow]) as upstream,
        facade(provider("near", upstream.base_url), tmp_path) as served,
    ):
        discovery = asyncio.ensure_future(served.gateway.maintain())
        await asked.wait()
        reply = await ask(served, "GET", "/readyz")
        assert {"status": "ready", "discovery": "running"} == reply.json
        models = (await ask(served, "GET", "/v1/models")).json["data"]
        assert ["auto", "echo", "near/auto", "near/echo"] == [model["id"] for model in models]
        go_on.set()
        await discovery
        reply = await ask(served, "GET", "/readyz")
        assert {"status": "ready", "discovery": "done"} == reply.json


async def test_discovery_that_is_switched_off_is_done(tmp_path: Path) -> None:
    """Nobody waits for what does not come."""
    settings = provider("near", NOWHERE) + "[models]\ndiscover = false\n"
    async with facade(settings, tmp_path) as served:
        assert "done" == (await ask(served, "GET", "/readyz")).json["discovery"]


async def test_a_service_that_can_ask_nobody_is_not_ready(tmp_path: Path) -> None:
    """It lives all the same."""
    for settings in (
        provider("far", "https://far.example/v1"),
        provider("keyless", NOWHERE, 'api_key_env = "ABSENT_KEY"'),
    ):
        async with facade(settings, tmp_path) as served:
            assert 503 == (await ask(served, "GET", "/readyz")).status
            assert 200 == (await ask(served, "GET", "/healthz")).status


async def test_a_service_that_ends_is_not_ready(tmp_path: Path) -> None:
    """It lives until its requests have ended."""
    async with facade(provider("near", NOWHERE), tmp_path) as served:
        served.open_requests.begin_shutdown(20)
        assert (503, "shutting_down") == (await ask(served, "GET", "/readyz")).error
        assert 200 == (await ask(served, "GET", "/healthz")).status
