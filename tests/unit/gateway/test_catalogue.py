"""Providers are asked for their models once, under the profile, and nobody holds up the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest

from casework.config.gateway_config import GatewayConfig
from casework.config.providers import ProviderConfig
from casework.errors import ConfigurationError
from casework.gateway import catalogue as module
from casework.gateway.catalogue import ASKED_AT_ONCE_MAX, MODELS_MAX, Catalogue, Found
from casework.gateway.clock import Deadline, ManualClock
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.messages import Credential
from casework.gateway.routing import KnownModels

ENTRY = """
[[providers]]
id = "{id}"
adapter = "openai_compatible"
base_url = "{url}"
model = "m"
enabled = {enabled}
"""
NEAR, FAR = "http://127.0.0.1:1/v1", "https://far.example/v1"


def entry(name: str, url: str = NEAR, *, enabled: bool = True) -> str:
    """Return a provider's entry."""
    return ENTRY.format(id=name, url=url, enabled=str(enabled).lower())


@dataclass(slots=True)
class Listing:
    """An adapter that lists models by doing something."""

    act: Callable[[], Awaitable[tuple[str, ...]]]
    asked: int = 0
    credential: Credential | None = None

    async def models(self, *, credential: Credential | None, deadline: Deadline) -> tuple[str, ...]:
        """Do it."""
        self.asked += 1
        self.credential = credential
        assert not deadline.passed
        return await self.act()


def saying(*names: str) -> Listing:
    """Return an adapter that lists these."""

    async def act() -> tuple[str, ...]:
        return names

    return Listing(act)


def failing(error: Exception) -> Listing:
    """Return an adapter that fails."""

    async def act() -> tuple[str, ...]:
        raise error

    return Listing(act)


def hanging() -> Listing:
    """Return an adapter that never answers, whatever its deadline."""

    async def act() -> tuple[str, ...]:
        await asyncio.Event().wait()
        raise AssertionError

    return Listing(act)


def keyless(_: ProviderConfig) -> tuple[Credential | None, ...]:
    """Give no key."""
    return (None,)


def ignore(_: KnownModels) -> None:
    """Take no notice."""


def catalogue_of(adapters: dict[str, object], *entries: str, settings: str = "") -> Catalogue:
    """Make a catalogue over adapters by provider id."""
    config = GatewayConfig.parse(settings + "".join(entries or map(entry, adapters)))
    return Catalogue(config, ManualClock(), adapter_of=lambda p: adapters[p.id], keys_of=keyless)


async def test_each_provider_that_can_list_is_asked_once() -> None:
    """Who cannot list is left alone, and stays unknown."""
    listing = saying("b", "a", "b", "org/x:tag", "a name")
    catalogue = catalogue_of({"one": listing, "two": object()})
    assert not catalogue.discovered
    await catalogue.discover(ignore)
    assert catalogue.discovered
    assert 1 == listing.asked
    assert {"one": {"a", "b", "org/x:tag", "a name"}} == catalogue.known_models


async def test_nobody_beyond_the_profile_or_switched_off_is_asked() -> None:
    """Discovery reaches no further than a document may."""
    far, off = saying("x"), saying("y")
    catalogue = catalogue_of(
        {"far": far, "off": off}, entry("far", FAR), entry("off", enabled=False)
    )
    await catalogue.discover(ignore)
    assert (0, 0) == (far.asked, off.asked)
    assert {} == catalogue.known_models
    assert catalogue.discovered


async def test_nobody_is_asked_where_discovery_is_switched_off() -> None:
    """It counts as done from the beginning."""
    listing = saying("x")
    config = GatewayConfig.parse(entry("one") + "[models]\ndiscover = false\n")
    catalogue = Catalogue(config, ManualClock(), adapter_of=lambda _: listing, keys_of=keyless)
    assert catalogue.discovered
    await catalogue.discover(ignore)
    assert 0 == listing.asked


async def test_the_first_key_is_used() -> None:
    """A provider with several keys is asked with the first."""
    listing = saying("x")
    first = Credential("A#1", "secret")
    catalogue = Catalogue(
        GatewayConfig.parse(entry("one")),
        ManualClock(),
        adapter_of=lambda _: listing,
        keys_of=lambda _: (first, Credential("B#2", "other")),
    )
    await catalogue.discover(ignore)
    assert first == listing.credential


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ProviderFailure(FailureKind.HTTP_5XX, http_status=503), "http_5xx"),
        (ConfigurationError("no key", code="missing_credential"), "missing_credential"),
        (TimeoutError(), "timeout"),
        (ValueError("the text of a document"), "unknown"),
    ],
)
async def test_a_failure_leaves_what_was_known(error: Exception, code: str) -> None:
    """It is kept as a code, and a later answer takes its place."""
    adapters: dict[str, object] = {"one": saying("x")}
    catalogue = catalogue_of(adapters)
    await catalogue.discover(ignore)
    edition = catalogue.edition
    adapters["one"] = failing(error)
    await catalogue.discover(ignore)
    assert edition == catalogue.edition
    assert {"one": Found(frozenset({"x"}), 0, code)} == catalogue.found
    adapters["one"] = saying("y")
    await catalogue.discover(ignore)
    assert {"one": Found(frozenset({"y"}))} == catalogue.found
    assert edition != catalogue.edition


async def test_a_provider_that_never_answers_holds_up_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What others say is told at once, and its own time ends."""
    told = asyncio.Event()
    catalogue = catalogue_of({"slow": hanging(), "quick": saying("x")})

    def tell(known: KnownModels) -> None:
        if known.get("quick"):
            told.set()

    running = asyncio.ensure_future(catalogue.discover(tell))
    await told.wait()
    assert not catalogue.discovered
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    monkeypatch.setattr(module, "ANSWER_SECONDS_MAX", 0.01)
    await catalogue.discover(tell)
    assert "timeout" == catalogue.found["slow"].failure
    assert catalogue.discovered


async def test_only_so_many_are_asked_at_once() -> None:
    """The rest wait for their turn, and get it."""
    busy, most, asked = 0, 0, 0

    async def act() -> tuple[str, ...]:
        nonlocal busy, most, asked
        busy, asked = busy + 1, asked + 1
        most = max(most, busy)
        await asyncio.sleep(0)
        busy -= 1
        return ()

    count = 3 * ASKED_AT_ONCE_MAX
    await catalogue_of({f"p{n}": Listing(act) for n in range(count)}).discover(ignore)
    assert (ASKED_AT_ONCE_MAX, count) == (most, asked)


async def test_names_are_kept_within_bounds() -> None:
    """Too many, too long, empty and unprintable ones are counted and left out."""
    catalogue = catalogue_of(
        {
            "many": saying(*(f"m{n}" for n in range(MODELS_MAX + 3))),
            "odd": saying("ok", "", "x" * 256, "x" * 257, "a\nb", "\x1b[2J", "\ud800", "\u202e"),
        }
    )
    await catalogue.discover(ignore)
    assert (MODELS_MAX, 3) == (
        len(catalogue.found["many"].models),
        catalogue.found["many"].left_out,
    )
    assert Found(frozenset({"ok", "x" * 256}), 6) == catalogue.found["odd"]
