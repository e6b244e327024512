"""Nothing leaves the application but what is described, whatever goes wrong in it."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from casework.gateway.outlook import Outlook
from tests.facade.bare_requests import bare
from tests.facade.serving import Facade, facade, provider

NOWHERE = "http://127.0.0.1:9/v1"
CANARY = "the text of a document"


def broken(*_: object, **__: object) -> None:
    """Fail as nothing should."""
    raise ValueError(CANARY)


async def failed_everywhere(served: Facade, caplog: pytest.LogCaptureFixture) -> None:
    """Hold that routes with and without keys tell of a defect by its type alone."""
    for path in ("/readyz", "/v1/models/auto"):
        reply = await bare(served, "GET", path)
        assert (500, "internal_error") == reply.error
        assert CANARY.encode() not in reply.body
    told = [r for r in caplog.records if getattr(r, "action", "") == "facade_defect"]
    assert ["ValueError", "ValueError"] == [r.__dict__["exception"] for r in told]
    assert CANARY not in caplog.text


async def test_a_defect_is_told_without_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The client gets the request's id, and the log the type of the exception."""
    caplog.set_level(logging.WARNING)
    async with facade(provider("near", NOWHERE), tmp_path) as served:
        monkeypatch.setattr(Outlook, "route", broken)
        await failed_everywhere(served, caplog)
        assert 500 == served.lines[0].status


async def test_a_defect_before_any_route_is_told_in_the_same_shape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """What no endpoint catches ends in OpenAI's shape as well."""
    async with facade(provider("near", NOWHERE), tmp_path) as served:
        monkeypatch.setattr("casework.facade.endpoint.Endpoint._admitted", broken)
        reply = await bare(served, "GET", "/v1/models")
    assert (500, "internal_error") == reply.error
    assert CANARY.encode() not in reply.body
    assert CANARY not in caplog.text
