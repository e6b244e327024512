"""The page on the facade names what there is, and its commands work as they stand there."""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from casework.gateway.plan import RoundPolicy
from casework.gateway.routing import RefusalReason, RouteReason
from tests.facade.bare_requests import ask
from tests.facade.openapi_description import DESCRIPTION, described_operations
from tests.facade.serving import facade, provider
from tests.support.fault_upstream.server import FaultUpstream

PAGE: Final = (Path(__file__).resolve().parents[2] / "docs" / "facade.md").read_text("utf-8")


def commands() -> Iterator[argparse.Namespace]:
    """Yield every curl command of the page."""
    words = argparse.ArgumentParser("curl")
    words.add_argument("url")
    words.add_argument("-H", dest="headers", action="append", default=[])
    words.add_argument("-d", dest="body")
    words.add_argument("-N", action="store_true")
    for line in re.findall(r"^curl (?:.*\\\n)*.*$", PAGE, re.MULTILINE):
        yield words.parse_args(shlex.split(line.replace("\\\n", " "))[1:])


async def test_every_command_of_the_page_works(tmp_path: Path) -> None:
    """Sent to a project like the example's, each is answered with 200, as described."""
    async with FaultUpstream() as upstream:
        settings = provider("local", upstream.base_url) + provider("cloud", "https://x.example/v1")
        async with facade(settings, tmp_path) as served:
            replies = []
            for words in commands():
                path = urlsplit(words.url).path
                body = words.body and words.body.encode()
                headers = dict(line.split(": ", 1) for line in words.headers)
                reply = await ask(served, "POST" if body else "GET", path, body, headers=headers)
                replies.append((reply.status, path))
    asked = {
        "/v1/chat/completions",
        "/v1/embeddings",
        "/v1/explain",
        "/v1/models",
        "/v1/models/local%2Fauto",
        "/v1/providers",
        "/v1/token-count",
    }
    assert {(200, path) for path in asked} == set(replies)


def test_the_page_names_every_route_header_status_and_reason() -> None:
    """Whoever adds one has to tell of it."""
    named = [f"`{method} {path}`" for method, path in described_operations()]
    components = DESCRIPTION["components"]
    named += [
        f"`{one['name']}" for one in components["parameters"].values() if one["in"] == "header"
    ]
    statuses = {
        status
        for path in DESCRIPTION["paths"].values()
        for operation in path.values()
        for status in operation["responses"]
    }
    named += [f"{status}" for status in statuses - {"200"}]
    named += [f"`{one}`" for kind in (RouteReason, RefusalReason) for one in kind]
    named += [f"`{one}`" for one in set(RoundPolicy) - {RoundPolicy.DURABLE}]
    assert [] == [one for one in named if one not in PAGE]


def test_the_page_names_every_header_of_replies() -> None:
    """In the spelling of people, which is all the same to machines."""
    page = PAGE.lower()
    operation = DESCRIPTION["paths"]["/v1/chat/completions"]["post"]
    headers = set(operation["responses"]["200"]["headers"]) | {"retry-after", "allow"}
    assert [] == [name for name in headers if f"`{name}" not in page]
