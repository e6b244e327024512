"""Keys of clients stand nowhere in clear, are sent to nobody, and no client writes our lines."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.config.providers import RESERVED_VARIABLES
from casework.facade.exchange import Exchange
from casework.facade.key_file import PROXY_KEY_LABEL
from tests.contract.privacy.bare_client import BareClient, written
from tests.contract.privacy.guarded import Ended, guarded
from tests.contract.privacy.guarded_service import guarded_service
from tests.contract.privacy.marks import Mark, files_in, found_in, holds
from tests.support.fault_upstream.server import FaultUpstream

LOCAL: Final = 'privacy_profile = "local_only"\n[serve]\nshutdown_seconds = 1.0\n'
ENVIRON: Final = {
    "OWN_KEY": "sk-of-the-provider",
    "PROXY_API_KEY": f"cw-{Mark.CLIENT}",
    "ADMIN_API_KEY": Mark.NEIGHBOUR,
}

CHAT, EMBED = "/v1/chat/completions", "/v1/embeddings"
MESSAGES: Final = [{"role": "user", "content": "Hello."}]


def provider(base_url: str) -> str:
    """Return the entry of the one provider."""
    return (
        '[[providers]]\nid = "here"\nadapter = "openai_compatible"\nmodel = "echo"\n'
        f'base_url = "{base_url}"\napi_key_env = "OWN_KEY"\n'
    )


def write_project(folder: Path, settings: str) -> Path:
    """Write a project of settings alone."""
    (folder / "config").mkdir(parents=True)
    (folder / "config" / "llm.local.toml").write_text(LOCAL + settings, encoding="utf-8")
    return folder


async def typed(folder: Path, line: str) -> Ended:
    """Type a line in a project's folder."""
    return await guarded(folder, "casework", *shlex.split(line), environ=ENVIRON)


async def test_a_created_key_is_told_once_and_kept_nowhere(tmp_path: Path) -> None:
    """It opens the service; no file holds it, no verb lists it, no server and no reply sees it."""
    async with FaultUpstream() as here:
        folder = write_project(tmp_path / "project", provider(here.base_url))
        created = await typed(folder, "keys create intake --model 'here/*' --json")
        key = str(json.loads(created.stdout)["key"])
        revoked = str(json.loads((await typed(folder, "keys create old --json")).stdout)["key"])
        assert 0 == (await typed(folder, "keys revoke old")).code
        async with (
            guarded_service(folder, "--debug", environ=ENVIRON) as service,
            service.client() as client,
        ):
            replies = await _use(client, key, revoked)
        listed = [
            await typed(folder, line)
            for line in ("keys list", "keys list --json -v", "logs --requests --json", "doctor -v")
        ]
        heard = [json.dumps([dict(one.headers), one.body.decode()]) for one in here.asked]
    assert [200, 200, 200, 401, 401] == [reply.status for reply in replies]
    assert len(heard) >= 3
    assert service.ended is not None
    told = {
        **files_in(folder),
        **{
            f"stream {n}": out for n, one in enumerate(listed) for out in (one.stdout + one.stderr,)
        },
        "stdout": service.ended.stdout,
        "stderr": service.ended.stderr,
        "heard": "\n".join(heard).encode(),
        "replies": b"".join(reply.content for reply in replies),
    }
    for secret in (key, revoked, key.removeprefix("cw-"), revoked[-20:]):
        assert [] == [name for name, content in told.items() if holds(content, secret)]
    assert holds(created.stdout, key)
    assert frozenset() == found_in(b"".join(told.values()))


async def _use(client: BareClient, key: str, revoked: str) -> list[Any]:
    """Ask with both keys, in the right place and in wrong ones."""
    body = {"model": "here/echo", "messages": MESSAGES}
    right, void = ("Authorization", f"Bearer {key}"), ("Authorization", f"Bearer {revoked}")
    elsewhere = [("X-Api-Key", key), ("Cookie", f"key={key}"), ("X-Request-Id", "r-1")]
    vectors = {"model": "here/echo", "input": "Hello."}
    return [
        await client.ask("POST", CHAT, body, headers=[right, *elsewhere]),
        await client.ask("POST", CHAT, {**body, "stream": True}, headers=[right]),
        await client.ask("POST", EMBED, vectors, headers=[right]),
        await client.ask("POST", f"{CHAT}?key={key}", body, headers=elsewhere),
        await client.ask("POST", CHAT, body, headers=[void]),
    ]


@pytest.mark.parametrize("variable", ["PROXY_API_KEY", "ADMIN_API_KEY", "Proxy_Api_Key"])
async def test_a_key_for_clients_is_no_key_of_a_provider(tmp_path: Path, variable: str) -> None:
    """Settings that would send it away are refused in one line, which does not tell it."""
    settings = provider("http://127.0.0.1:9/v1").replace("OWN_KEY", variable)
    folder = write_project(tmp_path / "project", settings)
    for line in ("serve --port 0", "run", "explain"):
        ended = await typed(folder, line)
        assert (2, b"") == (ended.code, ended.stdout)
        assert 1 == len(ended.stderr.splitlines())
        assert b"api_key_env names a variable whose key lets clients in" in ended.stderr
        assert frozenset() == found_in(ended.stderr)


def test_every_variable_that_lets_clients_in_is_reserved() -> None:
    """The one that the service reads is among those that no provider may have."""
    assert PROXY_KEY_LABEL in RESERVED_VARIABLES


async def test_an_admin_key_in_the_environment_makes_no_provider(tmp_path: Path) -> None:
    """Only who is configured is listed, whatever keys the environment holds."""
    async with FaultUpstream() as here:
        folder = write_project(tmp_path / "project", provider(here.base_url))
        async with (
            guarded_service(folder, environ=ENVIRON) as service,
            service.client() as client,
        ):
            bearer = [("Authorization", f"Bearer cw-{Mark.CLIENT}")]
            told = await client.ask("GET", "/v1/providers", headers=bearer)
            as_admin = [("Authorization", f"Bearer {Mark.NEIGHBOUR}")]
            refused = await client.ask("GET", "/v1/providers", headers=as_admin)
    assert ["here"] == [one["id"] for one in told.json["data"]]
    assert frozenset() == found_in(told.content)
    assert (401, "invalid_api_key") == refused.error


SAFE: Final = re.compile(r"[A-Za-z0-9._-]{1,64}", re.ASCII)


async def _nothing(*_: object) -> Any:
    """Neither receive nor send."""


@given(st.binary(max_size=100) | st.text(max_size=70).map(lambda text: text.encode()))
def test_an_id_of_a_client_is_taken_only_where_it_is_safe(named: bytes) -> None:
    """Everything else gets one of ours, so that no id breaks a header or a line of a log."""
    scope = {"headers": [(b"x-request-id", named)], "method": "GET", "path": "/"}
    found = Exchange(scope, _nothing, _nothing, fallback_id="req_ours").request_id
    safe = SAFE.fullmatch(named.decode("latin-1")) is not None
    assert (named.decode("latin-1") if safe else "req_ours") == found


FORGED: Final = (
    b"a\r\n b",
    b"a\r\n\tSet-Cookie: forged=1",
    b"a\rSet-Cookie: forged=1",
    b"a\nSet-Cookie: forged=1",
    b"a\0b",
    b"a b",
    b'a","forged":"1',
    b"a" * 65,
    b"a" * 30_000,
    "\u00e9\u2028forged".encode(),
    b"\xff\xfe",
    b"%0d%0aSet-Cookie:%20forged=1",
    b"",
)
"""Ids that would begin a header or a line of their own."""


async def test_no_client_writes_a_header_or_a_line_of_ours(tmp_path: Path) -> None:
    """Ids, models and members with line feeds, quotes and beyond ASCII come back harmless."""
    async with FaultUpstream() as here:
        folder = write_project(tmp_path / "project", provider(here.base_url))
        environ = {"OWN_KEY": "sk-of-the-provider"}
        async with (
            guarded_service(folder, environ=environ) as service,
            service.client() as client,
        ):
            heads = [await _head_for(client, forged) for forged in FORGED]
            for forged in (
                "x\r\nSet-Cookie: forged=1",
                "x\u2028forged",
                "\x85\u00e9",
                'a"b\\c',
                " x ",
            ):
                members = {f"{forged}_url": 1, "stream_options": {forged: 2}}
                body = {"model": f"here/{forged}", "messages": MESSAGES, **members}
                for more in ({}, {"stream": True}):
                    reply = await client.ask("POST", CHAT, {**body, **more})
                    assert 200 == reply.status
                    heads.append(reply.content.partition(b"\r\n\r\n")[0])
        lines = (folder / "runtime" / "logs" / "requests.jsonl").read_bytes().split(b"\n")
    for head in heads:
        assert head.isascii()
        assert head.replace(b"\r\n", b"").decode().isprintable()
        names = [line.partition(b":")[0] for line in head.split(b"\r\n")[1:]]
        assert set(names) <= HEADERS, head
        assert len(set(names)) == len(names)
    told = [json.loads(line) for line in lines if line]
    assert {SAFE.fullmatch(one["request_id"]) is not None for one in told} == {True}
    assert set.intersection(*(set(one) for one in told)) == set.union(*(set(one) for one in told))


HEADERS: Final = {
    *(b"date", b"content-type", b"content-length", b"transfer-encoding", b"connection"),
    *(b"cache-control", b"x-accel-buffering", b"x-request-id", b"x-casework-withheld"),
    *(b"x-casework-provider", b"x-casework-model", b"x-casework-attempts"),
    *(b"x-casework-upstream-ms", b"x-casework-overhead-ms"),
}
"""All headers that a reply to these requests may have."""


async def _head_for(client: BareClient, forged: bytes) -> bytes:
    """Return the head of the reply to a request with a forged id."""
    request = written("GET", "/v1/models").replace(
        b"\r\n\r\n", b"\r\nX-Request-Id: " + forged + b"\r\n\r\n", 1
    )
    reply = await client.send(request)
    assert reply.status in {200, 400}
    return reply.content.partition(b"\r\n\r\n")[0]
