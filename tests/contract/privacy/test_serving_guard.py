"""No request leads the service further than its profile, by whatever words, headers or targets."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import cycle, product
from pathlib import Path
from typing import Any, Final

import pytest

from casework.config.privacy_profile import PrivacyProfile
from tests.contract.privacy.bare_client import BareClient, Bytes, Fields, written
from tests.contract.privacy.guarded_service import LOOPS, GuardedService, guarded_service
from tests.contract.privacy.serving_project import (
    CLASSES,
    CLOUD,
    ENVIRON,
    HOUSE,
    LOCAL,
    PROFILE_HEADER,
    Way,
    client_key,
    permitted,
    write_served_project,
)
from tests.contract.privacy.socket_guard import Sighting, Sign, refused
from tests.support.fault_upstream.server import FaultUpstream
from tests.support.raw_server import RawServer, answer

WAYS: Final = (
    Way("local"),
    Way("local", CLOUD, CLOUD),
    Way("wide", LOCAL),
    Way("wide", LOCAL, CLOUD),
    Way("wide", CLOUD, LOCAL),
    Way("house", body=LOCAL),
    Way("house"),
    Way("house", CLOUD, CLOUD),
    Way("wide", HOUSE, CLOUD),
    Way("wide", body=HOUSE),
    Way("wide", CLOUD, CLOUD),
    Way("wide"),
)
"""Ways to narrow and to try to widen; narrow ones first, since who has failed is left alone."""

MESSAGES: Final = [{"role": "user", "content": "The pump failed twice."}]
VARIANTS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "whole": ("/v1/chat/completions", {"messages": MESSAGES}),
    "stream": ("/v1/chat/completions", {"messages": MESSAGES, "stream": True}),
    "vectors": ("/v1/embeddings", {"input": "The pump failed twice."}),
}
"""Requests that ask somebody."""

SILENT: Final = (
    ("GET", "/"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/openapi.json"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/auto"),
    ("GET", "/v1/models/cloud-by-name/m"),
    ("GET", "/v1/models/nobody"),
    ("GET", "/v1/models/http://203.0.113.66/x"),
    ("GET", "/v1/providers"),
    ("GET", "/nowhere"),
    ("GET", "//203.0.113.66/v1/models"),
    ("GET", "http://203.0.113.66/v1/models"),
    ("HEAD", "/v1/models"),
    ("OPTIONS", "/v1/chat/completions"),
    ("DELETE", "/v1/chat/completions"),
    ("PUT", "http://smuggled.example/"),
)
"""Requests that nobody is asked for."""


@dataclass(slots=True)
class Watched:
    """A service, one client of it, and the server that is here."""

    service: GuardedService
    client: BareClient
    here: FaultUpstream
    profile: PrivacyProfile
    """What is configured."""

    async def sent(self, request: bytes) -> tuple[Bytes, tuple[Sighting, ...]]:
        """Send a request over the open connection; return its reply and what was done for it."""
        await self.client.ask("GET", "/healthz")  # opens a connection, if the last one was closed
        since = len(self.service.seen())
        reply = await self.client.send(request)
        return reply, self.service.seen(since)

    async def posted(
        self, path: str, body: object, headers: Fields
    ) -> tuple[Bytes, tuple[Sighting, ...]]:
        """Post a body."""
        return await self.sent(written("POST", path, headers=headers, body=body))


@asynccontextmanager
async def watched(folder: Path, profile: PrivacyProfile, loop: str) -> AsyncIterator[Watched]:
    """Serve the project under a profile; it has found out which models there are."""
    async with FaultUpstream() as here:
        write_served_project(folder, profile=profile, port=here.port)
        async with (
            guarded_service(folder, loop=loop, environ=ENVIRON) as service,
            service.client() as client,
        ):
            ready = await service.until_discovered(client)
            assert (200, "done") == (ready.status, ready.json["discovery"])
            yield Watched(service, client, here, profile)
        assert service.ended is not None
        assert 0 == service.ended.code, service.ended.stderr.decode()


def ways_out(sightings: tuple[Sighting, ...]) -> set[tuple[Sign, str]]:
    """Return at whom something was aimed beyond this machine."""
    return {(seen.sign, seen.target) for seen in refused(sightings)}


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("profile", PrivacyProfile)
async def test_no_route_reaches_further_than_its_profile(
    tmp_path: Path, profile: PrivacyProfile, loop: str
) -> None:
    """However a request narrows or tries to widen, whom it reaches is within all that was said."""
    async with watched(tmp_path / "project", profile, loop) as seen:
        found = seen.service.seen()
        assert set(permitted(profile).values()) == ways_out(found)
        assert ["/v1/models"] == [asked.path for asked in seen.here.asked]
        for number, way in enumerate(WAYS):
            await _silent_routes(seen, way)
            for name in VARIANTS:
                await _named_providers(seen, way, name, number)
                await _all_providers(seen, way, name)
    assert set(permitted(profile).values()) == ways_out(seen.service.seen())


async def _silent_routes(seen: Watched, way: Way) -> None:
    """Everything that asks nobody opens no socket at all."""
    for method, target in SILENT:
        _, done = await seen.sent(written(method, target, headers=way.headers))
        assert () == done, (way, target)
    for model in ("auto", "outside", "nobody", *(f"{name}/m" for name in CLASSES)):
        for _, members in VARIANTS.values():
            body = {"model": model, **members, **way.members}
            for path in ("/v1/explain", "/v1/token-count"):
                _, done = await seen.posted(path, body, way.headers)
                assert () == done, (way, path, model)


async def _named_providers(seen: Watched, way: Way, name: str, number: int) -> None:
    """A provider that is asked for by name is asked, or it is said that the profile forbids it."""
    path, members = VARIANTS[name]
    allowed = permitted(way.within(seen.profile))
    for provider, provider_class in CLASSES.items():
        # Each time another model, since the last one rests if its provider could not be reached.
        body = {"model": f"{provider}/m-{number}-{name}", **members, **way.members}
        before = seen.here.calls
        reply, done = await seen.posted(path, body, way.headers)
        if not way.within(seen.profile).permits(provider_class):
            assert (403, "privacy_profile") == reply.error, (way, provider)
            assert () == done
        elif provider == "here":
            assert (200, before + 1) == (reply.status, seen.here.calls), reply.content
        else:
            assert {allowed[provider]} == ways_out(done)
            assert 502 == reply.status


async def _all_providers(seen: Watched, way: Way, name: str) -> None:
    """Who is asked in turn is within the profile, and a name for clouds alone is forbidden."""
    path, members = VARIANTS[name]
    effective = way.within(seen.profile)
    for model in ("auto", "anywhere"):
        before = seen.here.calls
        reply, done = await seen.posted(
            path, {"model": model, **members, **way.members}, way.headers
        )
        assert ways_out(done) <= set(permitted(effective).values()), (way, model)
        assert (200, before + 1) == (reply.status, seen.here.calls)
    reply, done = await seen.posted(
        path, {"model": "outside", **members, **way.members}, way.headers
    )
    if effective is CLOUD:
        assert reply.status in {502, 503}
    else:
        assert (403, "privacy_profile") == reply.error
        assert () == done


async def test_the_guard_sees_what_either_loop_opens(tmp_path: Path) -> None:
    """Each loop's way to a server that is here is seen, so that no silence is blindness."""
    for loop in LOOPS:
        async with watched(tmp_path / loop, LOCAL, loop) as seen:
            done = seen.service.seen()
        assert {Sign.OPENED, Sign.LOOPBACK} == {one.sign for one in done}
        assert f"127.0.0.1:{seen.here.port}" in {one.target for one in done}


async def test_a_key_allows_its_models_and_no_others(tmp_path: Path) -> None:
    """What a key does not allow is refused unasked, and no failover leads out of what it allows."""
    way = Way("picky")
    async with watched(tmp_path / "project", CLOUD, "asyncio") as seen:
        for path, members in VARIANTS.values():
            for model in ("house/m", "cloud-by-name/m", "outside", "m"):
                reply, done = await seen.posted(path, {"model": model, **members}, way.headers)
                assert (403, "model_not_allowed") == reply.error
                assert () == done
            body = {"model": "auto", **members, "messages": _failing(503)}
            reply, done = await seen.posted(path, body, way.headers)
            assert set() == ways_out(done)
        reply, _ = await seen.sent(written("GET", "/v1/models", headers=way.headers))
        owners = {model["owned_by"] for model in reply.json["data"]}
        assert owners <= {"here", "house", "casework"}
        for model in ("cloud-by-name/m", "outside"):
            target = f"/v1/models/{model}"
            reply, done = await seen.sent(written("GET", target, headers=way.headers))
            assert ((403, "model_not_allowed"), ()) == (reply.error, done)


def _failing(status: int) -> list[dict[str, str]]:
    return [{"role": "user", "content": f"[[fault:{status}]]"}]


async def test_a_profile_that_is_named_twice_widens_nothing(tmp_path: Path) -> None:
    """Of two headers, two members, or a header and a trailer none is simply taken."""
    async with watched(tmp_path / "project", CLOUD, "asyncio") as seen:
        authorized = Way().headers
        body = {"model": "cloud-by-name/m", "messages": MESSAGES}
        for first, second in ((LOCAL, CLOUD), (CLOUD, LOCAL)):
            named = [(PROFILE_HEADER, first), (PROFILE_HEADER.lower(), second)]
            reply, done = await seen.posted("/v1/chat/completions", body, [*authorized, *named])
            assert ((400, "invalid_header"), ()) == (reply.error, done)
            once = json.dumps({**body, "privacy_profile": first})
            twice = f'{once[:-1]}, "privacy_profile": "{second}"}}'.encode()
            reply, done = await seen.posted("/v1/chat/completions", twice, authorized)
            assert ((400, "duplicate_member"), ()) == (reply.error, done)
        reply, done = await seen.sent(_with_trailer(body, LOCAL, CLOUD))
        assert reply.status in {400, 403}
        assert () == done


def _with_trailer(body: object, header: str, trailer: str) -> bytes:
    """Return a request that names one profile before its body and another one behind it."""
    content = json.dumps(body).encode()
    named = [*Way().headers, (PROFILE_HEADER, header), ("Transfer-Encoding", "chunked")]
    head = written("GET", "/v1/chat/completions", headers=named).replace(b"GET", b"POST", 1)
    return head + b"%x\r\n%b\r\n0\r\n%b: %b\r\n\r\n" % (
        *(len(content), content),
        *(PROFILE_HEADER.encode(), trailer.encode()),
    )


MEMBERS: Final = (
    *("api_base", "apiBase", "base_url", "baseURL", "url", "endpoint", "host", "server_url"),
    *("proxy", "proxies", "user_config", "extra_body", "extra_headers", "extra_query", "headers"),
    *("api_key", "custom_llm_provider", "fallbacks", "models", "model_list", "route", "callbacks"),
    *("webhook", "success_callback", "langfuse_host", "litellm_metadata", "metadata", "tenant_id"),
    *("data_sources", "web_search_options", "kv_transfer_params", "bootstrap_host", "schema_url"),
)
"""Members by which other gateways and servers are told of an address."""

HEADERS: Final = (
    *("X-Forwarded-Host", "X-Forwarded-For", "X-Forwarded-Proto", "X-Real-IP", "Forwarded", "Via"),
    *("X-Original-URL", "X-Rewrite-URL", "X-HTTP-Method-Override", "X-Proxy-Url", "X-Base-Url"),
    *("X-Api-Base", "Api-Base", "OpenAI-Base-URL", "X-Target-Url", "X-Upstream-Url", "Destination"),
    *("Proxy-Authorization", "Proxy-Connection", "Referer", "Origin", "Location", "Refresh"),
    *("X-Casework-Provider", "X-Casework-Model", "X-Casework-Base-Url", "OpenAI-Organization"),
    *("X-LiteLLM-Api-Base", "Helicone-Target-URL", "X-Portkey-Custom-Host", "traceparent"),
)
"""Headers by which servers, proxies and gateways are told of one."""


ADDRESSES: Final = (
    "http://127.0.0.1:{port}",
    "http://2130706433:{port}",
    "http://[::ffff:127.0.0.1]:{port}",
    "http://169.254.169.254/latest/meta-data",
    "https://smuggled.example/v1",
)
"""Some lead to a server that listens here."""


def smuggled_bodies(address: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield requests that name an address wherever a body can."""
    whole, stream, vectors = ((path, dict(members)) for path, members in VARIANTS.values())
    values = (address, [address], {"api_base": address, "url": address})
    in_turn = cycle((whole, stream, vectors, whole))
    for (member, value), (path, members) in zip(product(MEMBERS, values), in_turn, strict=False):
        yield path, {**members, member: value}
    part = {"type": "image_url", "image_url": {"url": f"{address}/a.png", "detail": "low"}}
    file = {"type": "file", "file": {"file_url": f"{address}/a.pdf"}}
    yield whole[0], {"messages": [{"role": "user", "content": [part, file]}]}
    yield stream[0], {"messages": [{"role": "user", "content": [part]}], "stream": True}
    yield whole[0], {"messages": [{"role": "user", "content": address, "api_base": address}]}
    tool = {"type": "mcp", "server_label": "x", "server_url": address, "headers": {"Host": address}}
    yield whole[0], {"messages": MESSAGES, "tools": [tool]}
    for schema in ({"$ref": f"{address}/s.json"}, {"$schema": address}, {"$id": address}):
        form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
        yield whole[0], {"messages": MESSAGES, "response_format": form}
    yield vectors[0], {"input": [address, f"{address}/b"]}


def smuggled_requests(address: str, model: str, way: Way) -> Iterator[bytes]:
    """Yield requests that name an address in the body, a header, the Host or the target."""
    for path, members in smuggled_bodies(address):
        body = {"model": model, **members, **way.members}
        yield written("POST", path, headers=way.headers, body=body)
        yield written("POST", "/v1/explain", headers=way.headers, body=body)
    host = address.partition("://")[2]
    for path, members in VARIANTS.values():
        body = {"model": model, **members, **way.members}
        for header in HEADERS:
            for value in (address, host):
                named = [*way.headers, (header, value)]
                yield written("POST", path, headers=named, body=body)
        for target in (f"{address}{path}", f"{path}?api_base={address}", f"{path}#{address}"):
            yield written("POST", target, headers=way.headers, body=body, host=host)
        for name in (address, f"{address}/m", f"openai/{address}", f"here/{address}"):
            yield written("POST", path, headers=way.headers, body={**body, "model": name})


@pytest.mark.parametrize(
    ("profile", "way", "loop"),
    [
        (LOCAL, Way(body=CLOUD), "uvloop"),
        (CLOUD, Way("local"), "asyncio"),
        (HOUSE, Way(), "asyncio"),
        (CLOUD, Way(), "uvloop"),
    ],
)
async def test_no_request_names_its_own_destination(
    tmp_path: Path, profile: PrivacyProfile, way: Way, loop: str
) -> None:
    """An address in a body, at any depth, in a header, the Host or the target is never turned to.

    Some of them are those of a server that listens, whose connections are counted.
    """
    bait = RawServer([answer()])
    async with bait, watched(tmp_path / "project", profile, loop) as seen:
        since = len(seen.service.seen())
        for form in ADDRESSES:
            for request in smuggled_requests(form.format(port=bait.port), "here/echo", way):
                reply, _ = await seen.sent(request)
                assert reply.status < 500, (request, reply.content)
        after = seen.service.seen(since)
        assert set() == ways_out(after)
        to_here = {f"{host}:{seen.here.port}" for host in ("127.0.0.1", "::1")}
        assert {one.target for one in after if one.sign is Sign.LOOPBACK} <= to_here
        assert 0 == bait.connections
        for asked in seen.here.asked:
            told = " ".join(f"{name}: {value}" for name, value in asked.headers.items())
            assert f"localhost:{seen.here.port}" == asked.headers["host"]
            assert set(asked.headers) <= {
                *("host", "accept", "accept-encoding", "user-agent"),
                *("content-type", "content-length", "connection"),
            }
            assert "smuggled" not in told
            assert client_key(way.key) not in told
