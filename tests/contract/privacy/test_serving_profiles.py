"""Who hears a request is exactly who its profile permits, whatever narrows it, whatever fails."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest

from casework.config.privacy_profile import PrivacyProfile, ProviderClass
from tests.contract.privacy.bare_client import BareClient, Bytes
from tests.contract.privacy.guarded_service import guarded_service
from tests.contract.privacy.serving_project import (
    CLOUD,
    HOUSE,
    LOCAL,
    Way,
    every_way,
    write_keys,
)
from tests.contract.privacy.socket_guard import refused
from tests.support.fault_upstream.server import FaultUpstream

CLASSES: Final = {
    "near": ProviderClass.LOCAL,
    "house": ProviderClass.SELF_HOSTED,
    "far": ProviderClass.CLOUD,
}
"""All of them listen on this machine, and are marked as standing farther away."""

OUTWARDS: Final = ("near", "house", "far")
INWARDS: Final = ("far", "house", "near")

TRIES_MAX: Final = 300
"""How many names there are under which all three are asked, each time for another model: a model
whose provider has failed is left alone for a while."""


@dataclass(slots=True)
class Three:
    """A service over three providers, one of each class, and a client of it."""

    client: BareClient
    servers: Mapping[str, FaultUpstream]
    order: Sequence[str]
    profile: PrivacyProfile
    _numbers: count[int]

    def permitted(self, way: Way) -> list[str]:
        """Return who may be asked, in the order in which they are."""
        effective = way.within(self.profile)
        return [name for name in self.order if effective.permits(CLASSES[name])]

    def next_try(self) -> str:
        """Return a name for all three that nobody has asked for yet."""
        return f"try-{next(self._numbers)}"

    def forget(self) -> None:
        """Let every server count anew."""
        for server in self.servers.values():
            server.forget()

    def heard(self) -> list[str]:
        """Return who was asked how often, once for each time."""
        return [name for name in self.order for _ in range(self.servers[name].calls)]

    async def ask(self, variant: str, model: str, way: Way, text: str = "Hello.") -> Bytes:
        """Ask in one of the ways of ``VARIANTS``."""
        path, members = VARIANTS[variant]
        body = {"model": model, **members, **way.members}
        body["input" if "embeddings" in path else "messages"] = (
            text if "embeddings" in path else [{"role": "user", "content": text}]
        )
        headers = [*way.headers, ("X-Casework-Deadline-Seconds", "20")]
        if variant == "kept":
            headers.append(("Idempotency-Key", f"{model}: {way}"))
        return await self.client.ask("POST", path, body, headers=headers)


VARIANTS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "whole": ("/v1/chat/completions", {}),
    "stream": ("/v1/chat/completions", {"stream": True}),
    "kept": ("/v1/chat/completions", {}),
    "vectors": ("/v1/embeddings", {}),
}


def settings(
    profile: PrivacyProfile,
    order: Sequence[str],
    servers: Mapping[str, FaultUpstream],
    *,
    window_seconds: float,
) -> str:
    """Return the settings of a service over three providers."""
    tries = "\n".join(
        f"try-{number} = {[f'{name}/m-{number}' for name in order]}" for number in range(TRIES_MAX)
    )
    entries = "\n".join(
        f'[[providers]]\nid = "{name}"\nadapter = "openai_compatible"\nmodel = "m-of-{name}"\n'
        f'base_url = "{servers[name].base_url}"\nclass = "{CLASSES[name].value}"'
        for name in order
    )
    return (
        f'privacy_profile = "{profile.value}"\n[serve]\nshutdown_seconds = 1.0\n'
        "[interactive]\nmax_retries = 0\n[breaker]\nfailures = 1000\n"
        f"[embeddings]\nwindow_seconds = {window_seconds}\n"
        f"[models]\ndiscover = false\n[models.aliases]\n{tries}\n{entries}\n"
    )


@asynccontextmanager
async def three(
    folder: Path, profile: PrivacyProfile, order: Sequence[str], *, window_seconds: float = 0.0
) -> AsyncIterator[Three]:
    """Serve three providers under a profile; nobody beyond them is turned to."""
    async with AsyncExitStack() as stack:
        servers = {name: await stack.enter_async_context(FaultUpstream()) for name in CLASSES}
        (folder / "config").mkdir(parents=True)
        (folder / "config" / "llm.local.toml").write_text(
            settings(profile, order, servers, window_seconds=window_seconds), encoding="utf-8"
        )
        write_keys(folder / "runtime")
        service = await stack.enter_async_context(guarded_service(folder))
        client = await stack.enter_async_context(service.client())
        yield Three(client, servers, order, profile, count())
        ended = await service.end()
        assert [] == refused(ended.sightings)
        assert 0 == ended.code, ended.stderr.decode()


@pytest.mark.parametrize("profile", PrivacyProfile)
async def test_the_narrowest_of_all_profiles_counts(
    tmp_path: Path, profile: PrivacyProfile
) -> None:
    """The narrowest of settings, key, header and body decides who is asked, listed, explained."""
    async with three(tmp_path / "project", profile, INWARDS) as asked:
        for way in every_way():
            permitted = asked.permitted(way)
            for variant in VARIANTS:
                asked.forget()
                reply = await asked.ask(variant, "auto", way)
                assert (200, permitted[0]) == (reply.status, reply.headers["x-casework-provider"])
                assert permitted[:1] == asked.heard(), (way, variant)
                asked.forget()
                for name in set(CLASSES) - set(permitted):
                    reply = await asked.ask(variant, f"{name}/x", way)
                    assert (403, "privacy_profile") == reply.error
                assert [] == asked.heard()
            await _told(asked, way)
            assert [] == asked.heard()


async def _told(asked: Three, way: Way) -> None:
    """What is listed and explained is what would be done."""
    permitted = asked.permitted(way)
    seen = Way(way.key, way.header)
    listed = await asked.client.ask("GET", "/v1/models", headers=seen.headers)
    owners = {model["owned_by"] for model in listed.json["data"]}
    assert set(asked.permitted(seen)) == owners - {"casework"}
    excluded = len(CLASSES) > len(asked.permitted(seen))
    assert excluded == ("note" in listed.json)
    body = {"model": "auto", "messages": [], **way.members}
    body["messages"] = [{"role": "user", "content": "Hello."}]
    told = await asked.client.ask("POST", "/v1/explain", body, headers=way.headers)
    assert permitted == [target["provider"] for target in told.json["targets"]]
    assert way.within(asked.profile).value == told.json["privacy_profile"]["effective"]


FAULTS: Final = {
    "400 code=context_length_exceeded": False,
    "400 code=content_filter": False,
    "400": False,
    "413": False,
    "422": False,
    "302 location=http://203.0.113.7/v1/chat/completions": False,
    "404": True,
    "408": True,
    "409": True,
    "429": True,
    "429 retry-after=1": True,
    "500": True,
    "503": True,
    "529": True,
    "reset": True,
    "close": True,
    "json body=html": True,
    "json body=null": True,
    "401": True,
}
"""Ways in which a server fails, and whether another one is asked then; the last one makes a key
rest, whatever is asked of it."""


@pytest.mark.parametrize("profile", PrivacyProfile)
async def test_no_failure_leads_out_of_the_profile(tmp_path: Path, profile: PrivacyProfile) -> None:
    """Whatever the nearest provider fails of, only who is permitted is asked next."""
    way = Way()
    async with three(tmp_path / "project", profile, OUTWARDS) as asked:
        permitted = asked.permitted(way)
        for fault in list(FAULTS)[:-1]:
            expected = permitted if FAULTS[fault] else permitted[:1]
            for variant in VARIANTS:
                assert expected == await _who_fails(asked, way, variant, fault), (variant, fault)
                heard, answered = await _who_mends(asked, way, variant, fault)
                assert expected[:2] == heard, (variant, fault)
                assert "".join(expected[1:2]) == answered
        assert permitted == await _who_fails(asked, way, "whole", "401")


@pytest.mark.parametrize("way", [Way("local", CLOUD), Way(header=LOCAL), Way(body=HOUSE)])
async def test_no_failure_leads_out_of_what_a_request_may_reach(tmp_path: Path, way: Way) -> None:
    """The same where it is the key, the header or the body that narrows."""
    async with three(tmp_path / "project", CLOUD, OUTWARDS) as asked:
        permitted = asked.permitted(way)
        for fault, goes_on in FAULTS.items():
            expected = permitted if goes_on else permitted[:1]
            assert expected == await _who_fails(asked, way, "stream", fault), fault


async def _who_fails(asked: Three, way: Way, variant: str, fault: str) -> list[str]:
    """Let everybody fail; return who was asked."""
    asked.forget()
    reply = await asked.ask(variant, asked.next_try(), way, f"[[fault:{fault}]]")
    assert 400 <= reply.status
    return asked.heard()


async def _who_mends(asked: Three, way: Way, variant: str, fault: str) -> tuple[list[str], str]:
    """Let the nearest provider fail; return who was asked, and who answered, if anybody did."""
    asked.forget()
    asked.servers["near"].queue(fault)
    reply = await asked.ask(variant, asked.next_try(), way)
    return asked.heard(), reply.headers.get("x-casework-provider", "")


async def test_no_batch_joins_two_profiles(tmp_path: Path) -> None:
    """Texts that arrive together go each to where it may go, though one call could carry all."""
    ways = [Way(), Way(header=HOUSE), Way("local"), Way(body=LOCAL), Way("house"), Way(body=CLOUD)]
    async with (
        AsyncExitStack() as stack,
        three(tmp_path / "project", CLOUD, INWARDS, window_seconds=0.5) as asked,
    ):

        async def embed(way: Way) -> Bytes:
            client = BareClient(asked.client.port)
            await stack.enter_async_context(client)
            text = f"for {way.within(CLOUD).value}"
            body = {"model": "auto", "input": [text], **way.members}
            return await client.ask("POST", "/v1/embeddings", body, headers=way.headers)

        replies = await asyncio.gather(*map(embed, ways * 3))
        assert [200] * len(replies) == [reply.status for reply in replies]
        heard = {
            name: {text for one in server.asked for text in one.json["input"]}
            for name, server in asked.servers.items()
        }
    assert {
        "far": {"for cloud_allowed"},
        "house": {"for self_hosted"},
        "near": {"for local_only"},
    } == heard
