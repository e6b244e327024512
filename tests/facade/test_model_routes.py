"""A client sees exactly the models that it may ask for, by any name that a model may have."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

import pytest

from casework.config.privacy_profile import PrivacyProfile
from casework.facade.model_routes import LISTS_MAX
from tests.facade.bare_requests import ask
from tests.facade.serving import Facade, facade, provider
from tests.support.fault_upstream.server import FaultUpstream
from tests.support.key_files import key_entry, key_file
from tests.support.openai_schemas import MODEL, MODELS, violations

ODD_NAMES = ("org/name", "org/name:tag", "a model", "llama@sha256:12", "100%", "a%2Fb", "ü?#x")
KEY = {"Authorization": "Bearer cw-near"}


def settings(upstream: FaultUpstream, *, profile: str = "cloud_allowed") -> str:
    """Return a local and a cloud provider."""
    return (
        f'privacy_profile = "{profile}"\n'
        + provider("near", upstream.base_url)
        + provider("far", upstream.base_url, 'class = "cloud"')
        + '[models.aliases]\n"gpt-4o-mini" = "far"\n'
    )


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Facade]:
    """Give a facade whose providers were found to have models of every name."""
    async with (
        FaultUpstream(models=("echo", *ODD_NAMES)) as upstream,
        facade(settings(upstream), tmp_path) as served,
    ):
        await served.gateway.maintain()
        yield served


async def test_the_list_holds_every_name_once_in_openais_shape(served: Facade) -> None:
    """All of it validates against OpenAI's published schema, in one order."""
    reply = await ask(served, "GET", "/v1/models")
    assert [] == violations(reply.json, MODELS)
    names = [model["id"] for model in reply.json["data"]]
    assert sorted(set(names)) == names
    prefixed = {f"{who}/{name}" for who in ("near", "far") for name in ("auto", "echo", *ODD_NAMES)}
    assert {"auto", "gpt-4o-mini", "echo", *ODD_NAMES} | prefixed == set(names)
    assert "note" not in reply.json
    owners = {model["id"]: model["owned_by"] for model in reply.json["data"]}
    assert ("casework", "far", "near") == (
        owners["echo"],
        owners["gpt-4o-mini"],
        owners["near/auto"],
    )


async def test_the_list_says_the_same_twice(served: Facade) -> None:
    """The time of creation too is a stable one."""
    first = await ask(served, "GET", "/v1/models")
    assert first.body == (await ask(served, "GET", "/v1/models")).body


async def test_a_list_is_as_new_as_what_is_known(tmp_path: Path) -> None:
    """What was sent before is not sent again once other models are known."""
    async with FaultUpstream() as upstream, facade(settings(upstream), tmp_path) as served:
        before = await ask(served, "GET", "/v1/models")
        await served.gateway.maintain()
        after = await ask(served, "GET", "/v1/models")
    assert len(before.json["data"]) < len(after.json["data"])


async def test_each_of_many_clients_gets_its_own_list(tmp_path: Path) -> None:
    """However many there are, and however often they ask."""
    names = [f"m{number}" for number in range(2 * LISTS_MAX)]
    entries = [key_entry(name, f"cw-{name}", models=(f"near/{name}",)) for name in names]
    key_file(tmp_path, *entries)
    async with (
        FaultUpstream(models=tuple(names)) as upstream,
        facade(settings(upstream), tmp_path) as served,
    ):
        await served.gateway.maintain()
        for name in (*names, *names):
            headers = {"Authorization": f"Bearer cw-{name}"}
            listed = (await ask(served, "GET", "/v1/models", headers=headers)).json["data"]
            assert [name, f"near/{name}"] == [model["id"] for model in listed]


async def test_every_listed_name_can_be_fetched(served: Facade) -> None:
    """Slashes may be escaped or not; the reply is the very entry of the list."""
    listed = (await ask(served, "GET", "/v1/models")).json["data"]
    for model in listed:
        for safe in ("", "/:@"):
            reply = await ask(served, "GET", "/v1/models/" + quote(model["id"], safe=safe))
            assert (200, model) == (reply.status, reply.json)
            assert [] == violations(reply.json, MODEL)


@pytest.mark.parametrize(
    "path", ["nobody", "nobody/x", "near/absent", "near/absent%2Fx", "", "near%2F", "%00", "%FF"]
)
async def test_a_name_that_nobody_has_is_not_found(served: Facade, path: str) -> None:
    """So is one that its provider does not list."""
    reply = await ask(served, "GET", f"/v1/models/{path}")
    assert (404, "model_not_found") == reply.error


async def test_a_name_that_its_provider_might_have_is_found(tmp_path: Path) -> None:
    """Before a provider has said what it has, every model of it may be asked for."""
    async with FaultUpstream() as upstream, facade(settings(upstream), tmp_path) as served:
        reply = await ask(served, "GET", "/v1/models/NEAR/any")
        assert "NEAR/any" == reply.json["id"]
        assert "near" == reply.json["owned_by"]


@pytest.mark.parametrize("profile", [*PrivacyProfile])
async def test_a_header_narrows_what_is_listed(served: Facade, profile: PrivacyProfile) -> None:
    """Who lies beyond the profile is in no entry, and a line says that somebody does."""
    headers = {"X-Casework-Privacy-Profile": profile.value}
    listed = (await ask(served, "GET", "/v1/models", headers=headers)).json
    far = [model["id"] for model in listed["data"] if "far" in model["owned_by"]]
    reply = await ask(served, "GET", "/v1/models/far%2Fecho", headers=headers)
    if profile is PrivacyProfile.CLOUD_ALLOWED:
        assert far
        assert 200 == reply.status
    else:
        assert [] == far
        assert listed["note"].startswith("1 of 2 providers lies beyond the privacy profile")
        assert (403, "privacy_profile") == reply.error


async def test_a_header_that_names_no_profile_is_refused(served: Facade) -> None:
    """It is never taken for a profile that allows more."""
    headers = {"X-Casework-Privacy-Profile": "anything"}
    for path in ("/v1/models", "/v1/models/echo", "/v1/providers"):
        reply = await ask(served, "GET", path, headers=headers)
        assert (400, "invalid_header") == reply.error


async def test_a_key_sees_what_it_allows(tmp_path: Path) -> None:
    """Its profile and its patterns both narrow the list, and a name beyond them is forbidden."""
    key_file(
        tmp_path,
        key_entry("near", "cw-near", privacy_profile="local_only", models=("near/*", "auto")),
    )
    async with FaultUpstream() as upstream, facade(settings(upstream), tmp_path) as served:
        reply = await ask(served, "GET", "/v1/models", headers=KEY)
        assert ["auto", "echo", "near/auto", "near/echo"] == [m["id"] for m in reply.json["data"]]
        assert "not asked" in reply.json["note"]
        refused = await ask(served, "GET", "/v1/models/gpt-4o-mini", headers=KEY)
        assert (403, "privacy_profile") == refused.error
        assert 401 == (await ask(served, "GET", "/v1/models")).status
        assert 401 == (await ask(served, "GET", "/v1/models/auto")).status
        assert "near" == served.lines[0].client
