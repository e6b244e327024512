"""Borders: where a request may go, what goes with it, and what comes back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.facade.faults.stage import CHAT, EMBEDDINGS, QUICK, asking, stage
from tests.facade.serving import Facade, facade, provider
from tests.support.fault_upstream.server import FaultUpstream
from tests.support.key_files import key_entry, key_file
from tests.support.raw_server import RawServer, answer, chat

CANARY = "canary-7f3a"
AT_ONCE = QUICK + "[embeddings]\nwindow_seconds = 0.0\n"
CLOUDY = 'privacy_profile = "cloud_allowed"\n' + AT_ONCE
FAILURES = (
    *("400 code=context_length_exceeded", "400 code=content_filter", "413", "429", "401", "404"),
    *("503", "reset", "body=html", "body=empty-choices", "error=1"),
)
SENT = {"host", "accept", "accept-encoding", "user-agent", "content-type", "content-length"}
"""All headers that a server without a key gets."""

DESTINATIONS: tuple[dict[str, Any], ...] = (
    {"base_url": "{decoy}"},
    {"api_base": "{decoy}", "api_key": CANARY},
    {"extra_body": {"api_base": "{decoy}"}},
    {"user_config": {"model_list": [{"litellm_params": {"api_base": "{decoy}"}}]}},
    {"model_list": [{"api_base": "{decoy}"}]},
    {"headers": {"host": "{decoy}"}, "extra_headers": {"authorization": CANARY}},
    {"fallbacks": ["{decoy}"], "Base-URL": "{decoy}", "BASEURL": "{decoy}"},
    {"langfuse_host": "{decoy}", "aws_bedrock_runtime_endpoint": "{decoy}"},
    {"proxy": "{decoy}", "webhook_url": "{decoy}", "custom_llm_provider": "openai"},
)
FETCHED = (
    "{decoy}/picture.png",
    "http://169.254.169.254/latest/meta-data",
    "http://[::ffff:127.0.0.1]:{port}/x",
    "http://2130706433:{port}/x",
    "http://localtest.me:{port}/x",
    "file:///etc/passwd",
)


@asynccontextmanager
async def beside_a_cloud(
    folder: Path,
) -> AsyncIterator[tuple[Facade, FaultUpstream, FaultUpstream]]:
    """Serve with a provider of this machine and one that counts as a cloud."""
    async with FaultUpstream() as near, FaultUpstream() as cloud:
        settings = (
            CLOUDY
            + provider("near", near.base_url)
            + provider("cloud", cloud.base_url, 'class = "cloud"')
        )
        async with facade(settings, folder) as served:
            yield served, near, cloud


@pytest.mark.parametrize("path", [CHAT, EMBEDDINGS])
@pytest.mark.parametrize("way", ["key", "header", "body", "models"])
async def test_no_failure_leads_out_of_what_a_client_may_reach(
    tmp_path: Path, way: str, path: str
) -> None:
    """Whatever the near one says, the cloud is not asked; without the bound, it may be."""
    bounds: dict[str, dict[str, Any]] = {
        "key": {"privacy_profile": "self_hosted"},
        "models": {"models": ("near/*",)},
    }
    key_file(
        tmp_path, key_entry("web", "cw-web", **bounds.get(way, {})), key_entry("any", "cw-any")
    )
    headers = {"Authorization": "Bearer cw-web"}
    body: dict[str, Any] = {"model": "auto", "input": "Hello.", **asking()}
    if way == "header":
        headers["X-Casework-Privacy-Profile"] = "local_only"
    elif way == "body":
        body["privacy_profile"] = "local_only"
    async with beside_a_cloud(tmp_path) as (served, near, cloud):
        for stream in (False, True):
            for failure in FAILURES:
                near.queue(failure)
                await served.post(path, {**body, "stream": stream}, headers)
        assert 0 == cloud.calls
        refused = await served.post(path, {**body, "model": "cloud/echo"}, headers)
        why = "model_not_allowed" if way == "models" else "privacy_profile"
        assert (403, why) == (refused.status, refused.code)
        assert 0 == cloud.calls
        body.pop("privacy_profile", None)
        near.queue("503")
        allowed = await served.post(path, body, {"Authorization": "Bearer cw-any"})
        assert (200, 1) == (allowed.status, cloud.calls)


@pytest.mark.parametrize("path", [CHAT, EMBEDDINGS])
async def test_no_member_of_a_body_names_a_destination(tmp_path: Path, path: str) -> None:
    """It is kept back and named in a header, at the top; nobody turns to it."""
    async with RawServer([answer()]) as decoy, stage(tmp_path, AT_ONCE) as staged:
        for members in DESTINATIONS:
            named = json.loads(json.dumps(members).replace("{decoy}", decoy.base_url))
            body = {"model": "auto", "input": "Hello.", **asking(), **named}
            reply = await staged.served.post(path, body)
            assert 200 == reply.status
            withheld = set(reply.headers["x-casework-withheld"].split(","))
            assert set(members) - {"custom_llm_provider"} <= withheld
            passed_on = staged.near.asked[-1].body
            assert (False, False) == (
                decoy.base_url.encode() in passed_on,
                CANARY.encode() in passed_on,
            )
        assert 0 == decoy.connections


async def test_nobody_here_fetches_what_a_request_points_to(tmp_path: Path) -> None:
    """An address in a message is the server's to fetch or not; it reaches it as it came."""
    async with RawServer([answer()]) as decoy, stage(tmp_path) as staged:
        for target in FETCHED:
            url = target.replace("{decoy}", decoy.base_url).replace("{port}", str(decoy.port))
            part = {"type": "image_url", "image_url": {"url": url}}
            messages = [{"role": "user", "content": ["Look.", part]}]
            assert 200 == (await staged.served.chat(messages=messages)).status
            assert part == staged.near.asked[-1].json["messages"][0]["content"][1]
        assert 0 == decoy.connections


async def test_no_redirect_is_followed_or_passed_on(tmp_path: Path) -> None:
    """Neither the place nor the cookies of a server reach the client."""
    statuses = (301, 302, 303, 307, 308)
    async with RawServer([answer()]) as decoy:
        headers = {
            "Location": f"{decoy.base_url}/{CANARY}",
            "Set-Cookie": f"session={CANARY}",
            "X-Internal": CANARY,
        }
        redirects = [answer(status, CANARY, headers=headers) for status in statuses]
        async with (
            RawServer([one for one in redirects for _ in range(2)]) as upstream,
            facade(QUICK + provider("near", upstream.base_url), tmp_path) as served,
        ):
            for _ in statuses:
                for stream in (False, True):
                    reply = await served.chat(stream=stream)
                    assert (502, "redirect_rejected") == (reply.status, reply.code)
                    assert CANARY not in str(reply.headers) + reply.body.decode()
            assert 2 * len(statuses) == len(upstream.heard)
        assert 0 == decoy.connections


async def test_headers_of_an_answer_stay_where_they_are(tmp_path: Path) -> None:
    """Cookies, places and whatever else a server says beside an answer are not the client's."""
    sound = chat("Yes.").replace(
        b"\r\n\r\n",
        b"\r\nSet-Cookie: a=%b\r\nLocation: /%b\r\nX-Key: %b\r\n\r\n" % ((CANARY.encode(),) * 3),
        1,
    )
    async with (
        RawServer([sound]) as upstream,
        facade(QUICK + provider("near", upstream.base_url), tmp_path) as served,
    ):
        reply = await served.chat()
    assert 200 == reply.status
    assert CANARY not in str(reply.headers)


@pytest.mark.parametrize("stream", [True, False])
async def test_headers_of_a_client_stay_where_they_are(tmp_path: Path, *, stream: bool) -> None:
    """A server gets its own key and what the call needs, and nothing that the client has sent."""
    key_file(tmp_path, key_entry("web", f"cw-{CANARY}"))
    headers = {
        "Authorization": f"Bearer cw-{CANARY}",
        "Cookie": f"session={CANARY}",
        "X-Request-Id": CANARY,
        "User-Agent": CANARY,
        "Referer": f"https://{CANARY}.example",
        "Origin": f"https://{CANARY}.example",
        "X-Api-Key": CANARY,
        "OpenAI-Organization": CANARY,
        "X-Forwarded-For": CANARY,
        "Traceparent": CANARY,
        "Baggage": CANARY,
        "Proxy-Authorization": CANARY,
    }
    environ = {"PROVIDER_KEY": "sk-provider"}
    extra = 'api_key_env = "PROVIDER_KEY"'
    async with stage(tmp_path, extra=extra, environ=environ) as staged:
        assert 200 == (await staged.served.chat(headers, stream=stream)).status
        (asked,) = staged.near.asked
        assert SENT | {"authorization"} == set(asked.headers)
        assert "Bearer sk-provider" == asked.headers["authorization"]
        assert CANARY not in str(asked.headers) + asked.body.decode()


FAULTY = (
    *(f"{status} message=key+{CANARY} code={CANARY} type={CANARY}" for status in (400, 401, 403)),
    *(f"{status} message={CANARY} code={CANARY}" for status in (404, 409, 422, 429, 500, 503)),
    *("error=1", "error=3", "malformed=3", "reset", "body=html", "body=text", "truncated"),
)


@pytest.mark.parametrize("text", ["Hello.", "[[call:look_up]]"])
async def test_errors_and_the_log_hold_no_words_of_others(tmp_path: Path, text: str) -> None:
    """Neither the key, the address nor the body of a server, in an answer or a tool call."""
    environ = {"PROVIDER_KEY": f"sk-{CANARY}"}
    extra = 'api_key_env = "PROVIDER_KEY"\nmax_response_bytes = 100000'
    tool = {"type": "function", "function": {"name": "look_up", "parameters": {}}}
    async with stage(tmp_path, extra=extra, environ=environ) as staged:
        for fault in FAULTY:
            for stream in (False, True):
                staged.near.queue(fault)
                reply = await staged.served.say(
                    f"{text} {CANARY}", stream=stream, tools=[tool], model="near/echo"
                )
                errors = [one for one in (reply.body.decode()).split("data: ") if '"error"' in one]
                told = str(reply.headers) + "".join(errors)
                assert (False, False) == (CANARY in told, str(staged.near.port) in told), fault
        assert CANARY not in str(staged.served.lines)
        refused = await staged.served.chat(model=f"near-{CANARY}/echo")
        assert 404 == refused.status
        assert CANARY not in refused.body.decode() + str(staged.line)


async def test_an_address_that_nobody_answers_is_not_told(tmp_path: Path) -> None:
    """A connection refused says so, and not where."""
    settings = QUICK + provider("near", f"http://127.0.0.1:9/{CANARY}/v1")
    async with facade(settings, tmp_path) as served:
        for stream in (False, True):
            reply = await served.chat(stream=stream)
            assert (502, "connect_error") == (reply.status, reply.code)
            assert CANARY not in str(reply.headers) + reply.body.decode() + str(served.lines)
