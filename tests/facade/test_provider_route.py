"""Clients are told who may answer them and who rests, and nothing of addresses and keys."""

from __future__ import annotations

from pathlib import Path

from tests.facade.bare_requests import ask
from tests.facade.serving import facade, provider
from tests.support.fault_upstream.server import FaultUpstream
from tests.support.raw_server import RawServer, answer

HELLO = {"model": "auto", "messages": [{"role": "user", "content": "Hello."}]}


async def test_every_provider_is_told_of_in_the_order_of_asking(tmp_path: Path) -> None:
    """Each with the reason why it is not asked, if it is not."""
    async with FaultUpstream(models=("echo", "other")) as upstream:
        settings = (
            'privacy_profile = "self_hosted"\n'
            + provider("near", upstream.base_url)
            + provider("far", upstream.base_url, 'class = "cloud"')
            + provider("off", upstream.base_url, "enabled = false")
            + provider("keyless", upstream.base_url, 'api_key_env = "ABSENT_KEY"')
        )
        async with facade(settings, tmp_path) as served:
            await served.gateway.maintain()
            reply = await ask(served, "GET", "/v1/providers")
    assert "self_hosted" == reply.json["privacy_profile"]
    assert [
        ("near", "local", True, "eligible", 2, None),
        ("far", "cloud", False, "privacy_profile", 1, None),
        ("off", "local", False, "disabled", 1, None),
        ("keyless", "local", False, "missing_credential", 1, "missing_credential"),
    ] == [
        tuple(
            one[name]
            for name in (
                "id", "class", "eligible", "reason", "models_known", "discovery_failure"
            )
        )
        for one in reply.json["data"]
    ]  # fmt: skip
    assert b"127.0.0.1" not in reply.body
    assert b"ABSENT_KEY" not in reply.body


async def test_a_provider_at_rest_is_told_with_kind_and_seconds(tmp_path: Path) -> None:
    """Once all of its keys are at rest, and not before."""
    limited = answer(429, headers={"Retry-After": "40"})
    async with RawServer([limited]) as upstream:
        settings = provider("near", upstream.base_url, 'api_key_env = ["ONE", "TWO"]')
        settings += "[interactive]\nmax_keys = 1\n"
        environ = {"ONE": "first", "TWO": "second"}
        async with facade(settings, tmp_path, environ=environ) as served:
            states = []
            for _ in range(2):
                assert 429 == (await ask(served, "POST", "/v1/chat/completions", HELLO)).status
                reply = await ask(served, "GET", "/v1/providers")
                states.append(reply.json["data"][0])
    assert ("ok", None) == (states[0]["state"], states[0]["rest"])
    assert "resting" == states[1]["state"]
    assert "http_429" == states[1]["rest"]["kind"]
    assert 35 <= states[1]["rest"]["seconds"] <= 40
