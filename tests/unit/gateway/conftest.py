"""What talks to sockets is tried on both kinds of event loop that it runs on."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping

import pytest

ON_BOTH_LOOPS = {
    "test_kept_connections.py",
    "test_server_events.py",
    "test_transport.py",
    "test_transport_trust.py",
}


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Return the loops that a test runs on."""
    loops: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {"asyncio": asyncio.new_event_loop}
    if item.path.name in ON_BOTH_LOOPS and sys.platform != "win32":
        import uvloop  # noqa: PLC0415 - not for Windows

        loops["uvloop"] = uvloop.new_event_loop
    return loops
