"""No adapter, redirect, mark, spelling or schema leads a call beyond loopback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from casework.gateway.messages import Finish, ProviderCall, ProviderReply
from casework.gateway.providers.replay import recording
from casework.strict_json import JSON
from tests.contract.privacy.guarded import Ended, guarded
from tests.contract.privacy.socket_guard import Sign, refused
from tests.support.raw_server import Connection, RawServer, answer, chat
from tests.support.scripted_line import request

GOOD: Final = chat('{"answer": "yes"}')
REDIRECTS: Final = (301, 302, 303, 307, 308)
TARGETS: Final = (
    "http://203.0.113.7/v1/chat/completions",
    "https://cloud.example/v1/chat/completions",
    "//203.0.113.7/v1/chat/completions",
    "http://localhost:9/v1/chat/completions",
    "http://169.254.169.254/latest/meta-data/",
)

RULES: Final = """
format = "casework-rules/1"
[[fields]]
name = "answer"
[[fields.rules]]
pattern = 'pump'
value = "pump"
"""


def entry(name: str, base_url: str, **members: str) -> str:
    """Return a provider's entry for a server."""
    lines = "".join(f'{key.rstrip("_")} = "{value}"\n' for key, value in members.items())
    return (
        f'[[providers]]\nid = "{name}"\nadapter = "openai_compatible"\nmodel = "m"\n'
        f'base_url = "{base_url}"\n{lines}'
    )


async def rounds(
    folder: Path, settings: str, *, count: int = 1, profile: str = ""
) -> tuple[JSON, Ended]:
    """Run rounds under guard; return who was asked with what result, and how it ended."""
    config = folder / "llm.toml"
    config.write_text(settings, encoding="utf-8")
    ended = await guarded(folder, "rounds", str(config), str(count), *filter(None, [profile]))
    assert 0 == ended.code, ended.stderr.decode()
    told: JSON = json.loads(ended.stdout)
    return told, ended


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder of its own for the work."""
    made = tmp_path / "work"
    made.mkdir()
    return made


async def test_no_redirect_is_followed(folder: Path) -> None:
    """A local server that points elsewhere, by whichever status, ends the round unheard."""
    replies = [
        answer(status, headers={"Location": target}) for status in REDIRECTS for target in TARGETS
    ]
    async with RawServer(replies) as server:
        settings = entry("here", server.base_url)
        told, ended = await rounds(folder, settings, count=len(replies))
        assert len(replies) == len(server.heard)
    assert [[["here", "redirect_rejected"]]] * len(replies) == told
    assert [] == refused(ended.sightings)
    assert {f"127.0.0.1:{server.port}"} == {
        seen.target for seen in ended.sightings if seen.sign is Sign.LOOPBACK
    }


async def test_a_server_cannot_send_the_client_elsewhere_by_other_words(folder: Path) -> None:
    """Neither Refresh, Alt-Svc, Link nor a changed host in a good answer is acted on."""
    headers = {
        "Refresh": "0; url=http://203.0.113.7/",
        "Alt-Svc": 'h2="203.0.113.7:443"; ma=60, h3=":443"',
        "Link": "<http://203.0.113.7/x>; rel=preconnect",
        "Content-Location": "http://203.0.113.7/v1",
    }
    body = GOOD.partition(b"\r\n\r\n")[2]
    async with RawServer([answer(200, body, headers=headers)]) as server:
        told, ended = await rounds(folder, entry("here", server.base_url), count=2)
    assert [[["here", "accepted"]]] * 2 == told
    assert [] == refused(ended.sightings)


async def test_localhost_is_reached_without_a_resolver(folder: Path) -> None:
    """The name ``localhost``, in any case, is connected to and never looked up."""
    async with RawServer([GOOD]) as server:
        settings = entry("here", f"http://LocalHost:{server.port}/v1")
        told, ended = await rounds(folder, settings)
    assert [[["here", "accepted"]]] == told
    assert [] == refused(ended.sightings)


async def test_a_stricter_mark_keeps_even_a_loopback_server_unasked(folder: Path) -> None:
    """A tunnel on a loopback port that is marked cloud or self_hosted is not contacted."""
    async with RawServer([GOOD]) as server:
        marked = [entry(mark, server.base_url, class_=mark) for mark in ("cloud", "self_hosted")]
        told, ended = await rounds(folder, "".join(marked))
        assert 0 == server.connections
    assert "no_eligible_provider" == told
    assert () == ended.sightings


@pytest.mark.parametrize(
    "host",
    ["203.0.113.7", "cloud.example", "0.0.0.0", "127.1", "2130706433", "127.0.0.1.nip.example"],
)
async def test_a_mark_never_makes_a_far_address_local(folder: Path, host: str) -> None:
    """``class = "local"`` on anything but a loopback literal is refused before any socket."""
    told, ended = await rounds(folder, entry("far", f"https://{host}/v1", class_="local"))
    assert "config_error" == told
    assert () == ended.sightings


async def test_addresses_that_only_look_like_this_machine_are_far(folder: Path) -> None:
    """Names and spellings that may or may not mean loopback are passed over under local_only."""
    hosts = (
        "127.1",
        "0177.0.0.1",
        "2130706433",
        "0x7f000001",
        "0.0.0.0",
        "[::]",
        "[::ffff:127.0.0.1]",
        "localhost.",
        "localhost.localdomain",
        "ip6-localhost",
        "127.0.0.1.nip.example",
        "169.254.169.254",
        "10.0.0.1",
    )
    settings = "".join(
        entry(f"p{number}", f"https://{host}/v1") for number, host in enumerate(hosts)
    )
    told, ended = await rounds(folder, settings)
    assert "no_eligible_provider" == told
    assert () == ended.sightings


async def test_a_request_cannot_widen_the_profile(folder: Path) -> None:
    """A request that asks for cloud_allowed is served by what the configuration permits."""
    async with RawServer([GOOD]) as server:
        settings = entry("cloud", "https://203.0.113.7/v1") + entry("here", server.base_url)
        told, ended = await rounds(folder, settings, profile="cloud_allowed")
    assert [[["here", "accepted"]]] == told
    assert [] == refused(ended.sightings)


async def test_a_request_can_narrow_the_profile(folder: Path) -> None:
    """A request under local_only skips the cloud that comes first in a cloud_allowed setting."""
    async with RawServer([GOOD]) as server:
        settings = (
            'privacy_profile = "cloud_allowed"\n'
            + entry("cloud", "https://203.0.113.7/v1")
            + entry("here", server.base_url)
        )
        narrow, kept = await rounds(folder, settings, profile="local_only")
        wide, strayed = await rounds(folder, settings)
    assert [[["here", "accepted"]]] == narrow
    assert [] == refused(kept.sightings)
    assert [[["cloud", "connect_error"], ["here", "accepted"]]] == wide
    assert ["203.0.113.7:443"] == [seen.target for seen in refused(strayed.sightings)]


@pytest.mark.parametrize("adapter", ["rules", "replay", "scripted"])
async def test_adapters_of_this_process_open_no_socket(folder: Path, adapter: str) -> None:
    """Rules, recordings and scripts answer without a single socket that could go anywhere."""
    asked = request()
    call = ProviderCall(
        model="m",
        messages=asked.messages,
        output_schema=asked.output_schema,
        schema_name=asked.schema_name,
        parameters={},
        data=None,
    )
    reply = ProviderReply(text='{"answer": "yes"}', finish=Finish.STOP)
    script = {"repeat_last": True, "steps": [{"do": "reply", "text": reply.text}]}
    content = {
        "rules": RULES.encode(),
        "replay": recording(call, reply),
        "scripted": json.dumps(script).encode(),
    }
    (folder / "answers").write_bytes(content[adapter])
    settings = f'[[providers]]\nid = "a"\nadapter = "{adapter}"\nfile = "answers"\n'
    told, ended = await rounds(folder, settings)
    assert [[["a", "accepted"]]] == told
    assert () == ended.sightings


async def test_no_schema_is_fetched(folder: Path) -> None:
    """References to a port that listens here, to a cloud or to a file are refused unopened."""

    async def serve(connection: Connection) -> None:
        await connection.say(answer(body=b'{"type": "object"}'))

    (folder / "other.json").write_text("{}", encoding="utf-8")
    async with RawServer([serve]) as server:
        here = f"http://127.0.0.1:{server.port}/schema.json"
        beyond = "https://cloud.example/schema.json"
        references = (here, beyond, "//203.0.113.7/s", (folder / "other.json").as_uri(), "other")
        wanted: list[dict[str, Any]] = [
            *({"properties": {"a": {"$ref": reference}}} for reference in references),
            *({"$dynamicRef": reference} for reference in references),
            {"$schema": here},
            {"$schema": beyond},
            {"$id": here, "$ref": "other.json"},
            {"$id": "https://cloud.example/", "$defs": {"a": {"$ref": "b.json"}}},
            {"$defs": {"a": {"$id": here, "properties": {"b": {"$ref": "c.json"}}}}},
        ]
        (folder / "schemas.json").write_text(json.dumps(wanted), encoding="utf-8")
        ended = await guarded(folder, "schemas", str(folder / "schemas.json"))
        assert 0 == server.connections
    codes = json.loads(ended.stdout)
    assert {"schema_not_allowed"} == set(codes), list(zip(wanted, codes[::2], strict=True))
    assert 2 * len(wanted) == len(codes)
    assert () == ended.sightings


async def test_no_verb_fetches_a_pipelines_schema(folder: Path) -> None:
    """A pipeline whose schema points elsewhere is refused by ``explain`` and ``run`` alike."""
    async with RawServer([GOOD]) as server:
        (folder / "config").mkdir()
        settings = entry("here", server.base_url)
        (folder / "config" / "llm.local.toml").write_text(settings, encoding="utf-8")
        (folder / "remote.toml").write_text(
            'name = "remote"\n[[operations]]\nid = "a"\ntask = "Say."\n'
            f'output_schema = {{ "$ref" = "http://127.0.0.1:{server.port}/s.json" }}\n',
            encoding="utf-8",
        )
        for verb in ("explain", "run", "doctor"):
            ended = await guarded(folder, "casework", verb, "--pipeline", "remote.toml")
            assert 2 == ended.code
            assert b"schema_not_allowed" in ended.stdout + ended.stderr
            assert () == ended.sightings
        assert 0 == server.connections
