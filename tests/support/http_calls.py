"""Requests to a server of a test, and how they fail."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

from casework.gateway.clock import Deadline, SystemClock
from casework.gateway.errors import ProviderFailure
from casework.gateway.transport import HTTPRequest, HTTPTransport

CANARY = "sk-canary-1f"  # a mark to look for


def request(url: str, **changes: Any) -> HTTPRequest:
    """Return a request to an address."""
    fields: dict[str, Any] = {"body": b'{"x": 1}', "credential": None, "response_bytes_max": 1000}
    return HTTPRequest(url=url, **{**fields, **changes})


def within(seconds: float) -> Deadline:
    """Return a real deadline."""
    return Deadline.after(seconds, SystemClock())


async def failure(
    transport: HTTPTransport, url: str, *, seconds: float = 20.0, **changes: Any
) -> ProviderFailure:
    """Send one request and return how it failed, after a look that nothing leaks out of it."""
    with pytest.raises(ProviderFailure) as caught:
        await transport.post_json(request(url, **changes), deadline=within(seconds))
    found = caught.value
    told = "".join(traceback.format_exception(found)) + repr(vars(found))
    assert found.__context__ is None
    assert found.__cause__ is None
    assert "127.0.0.1" not in told
    assert CANARY not in told
    return found
