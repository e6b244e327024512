"""The shipped description is of the routes that are served, all of them and no other."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from starlette.routing import Route

from casework.config.gateway_config import GatewayConfig
from casework.config.privacy_profile import PrivacyProfile, ProviderClass
from casework.facade.app import create_app
from casework.facade.client_keys import ClientKeys
from casework.facade.client_limits import ClientLimits
from casework.facade.endpoint import Door
from casework.facade.open_requests import OpenRequests
from casework.facade.unknown_routes import ByMethod
from casework.gateway.clock import ManualClock
from casework.gateway.embeddings.request import INPUTS_MAX
from casework.gateway.llm_gateway import LLMGateway
from casework.gateway.plan import RoundPolicy
from casework.gateway.routing import RefusalReason, RouteReason
from tests.facade.bare_requests import ask
from tests.facade.openapi_description import DESCRIPTION, described_operations
from tests.facade.serving import facade, provider

SCHEMAS = DESCRIPTION["components"]["schemas"]


def routes(folder: Path) -> list[Any]:
    """Return the routes of an application, in order."""
    clock = ManualClock()
    keys = ClientKeys(folder / "none.json", {}, clock=clock)
    door = Door(keys, ClientLimits(clock), OpenRequests(10), lambda _: None, clock)
    config = GatewayConfig.parse(provider("near", "http://127.0.0.1:9/v1"))
    return create_app(LLMGateway(config, clock=clock), door).routes


def test_every_route_is_described_and_every_description_served(tmp_path: Path) -> None:
    """Paths and methods are the same; what is asked most comes first."""
    served = {
        (method, route.path.replace(":path", ""))
        for route in routes(tmp_path)
        if isinstance(route, Route) and isinstance(route.endpoint, ByMethod)
        for method in route.endpoint.methods
    }
    assert described_operations() == served
    assert "/v1/chat/completions" == routes(tmp_path)[0].path
    assert len(served) == len(routes(tmp_path))


async def test_the_description_is_sent_as_it_is_shipped(tmp_path: Path) -> None:
    """Byte for byte, whatever the configuration."""
    async with facade(provider("near", "http://127.0.0.1:9/v1"), tmp_path) as served:
        reply = await ask(served, "GET", "/openapi.json")
    assert DESCRIPTION == reply.json


def test_every_reference_leads_somewhere() -> None:
    """Inside the document, and nothing that could be referred to is left unused."""
    used = set()

    def visit(value: Any) -> None:
        if isinstance(value, dict):
            if "$ref" in value:
                _, section, kind, name = value["$ref"].split("/")
                assert name in DESCRIPTION[section][kind]
                used.add((kind, name))
            for item in value.values():
                visit(item)
        elif isinstance(value, list):
            for item in value:
                visit(item)

    visit(DESCRIPTION)
    defined = {
        (kind, name)
        for kind, named in DESCRIPTION["components"].items()
        if kind != "securitySchemes"
        for name in named
    }
    assert defined == used


@pytest.mark.parametrize("name", sorted(SCHEMAS))
def test_every_schema_is_one(name: str) -> None:
    """Each is a JSON Schema of the dialect of OpenAPI 3.1."""
    assert jsonschema_rs.meta.is_valid(SCHEMAS[name])


def test_operations_are_named_apart() -> None:
    """Each has an id of its own, a summary and at least one good reply."""
    operations = [one for path in DESCRIPTION["paths"].values() for one in path.values()]
    assert len(operations) == len({one["operationId"] for one in operations})
    assert all(one["summary"] and "200" in one["responses"] for one in operations)


def test_closed_sets_are_those_of_the_code() -> None:
    """Whoever adds a member has to describe it."""
    explanation = SCHEMAS["Explanation"]["properties"]
    assert {*RouteReason, None} == set(explanation["rule"]["enum"])
    assert {*RoundPolicy, None} - {RoundPolicy.DURABLE} == set(explanation["policy"]["enum"])
    profiles = explanation["privacy_profile"]["properties"]
    assert {*PrivacyProfile} == set(profiles["effective"]["enum"])
    provider_told = SCHEMAS["Provider"]["properties"]
    assert {*RefusalReason, "eligible"} == set(provider_told["reason"]["enum"])
    assert {*ProviderClass} == set(provider_told["class"]["enum"])
    inputs = SCHEMAS["EmbeddingRequest"]["properties"]["input"]["oneOf"]
    assert {INPUTS_MAX} == {one["maxItems"] for one in inputs if "maxItems" in one}


def test_it_names_no_machine() -> None:
    """A client finds the service where it got the description from."""
    assert "servers" not in DESCRIPTION
    assert "http" not in json.dumps(DESCRIPTION["paths"])
