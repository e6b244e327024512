"""The installed clients, the upstream double, and a service between them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.serving import ROOT, Double, Served, double, serving

INSTALLED = ROOT / "build" / "clients"
CLIENT_KEY = "sk-client-for-tests"
ENVIRON = {"PROXY_API_KEY": CLIENT_KEY}
MODELS = (
    "echo",
    "org/name",
    "org/name:tag",
    "a model",
    "ft:gpt:x::id",
    "text-embedding-3-small",
    "gpt-6-astra",
)

SETTINGS = """
[interactive]
max_retries = 0
idle_seconds = 3.0
keepalive_seconds = 0.2
first_keepalive_seconds = 10.0

[breaker]
failures = 1000

[[providers]]
id = "double"
adapter = "openai_compatible"
base_url = "{url}"
model = "echo"

[[providers]]
id = "far"
adapter = "openai_compatible"
base_url = "https://far.example/v1"
model = "far-model"
"""

AT = """
[[providers]]
id = "at-{status}{stream}"
adapter = "openai_compatible"
base_url = "{url}"
model = "at-{status}{stream}"
"""

STATUSES = (302, 400, 401, 403, 404, 409, 422, 429, 500, 503, 529)


@pytest.fixture(scope="session")
def installed() -> Path:
    """Return where the clients are installed; without them, nothing here can pass."""
    assert (INSTALLED / "installed").is_file(), "run `make test`, which installs the clients"
    return INSTALLED


@pytest.fixture(scope="session")
def upstream() -> Iterator[Double]:
    """Run one upstream for all clients."""
    with double(MODELS) as running:
        yield running


@pytest.fixture(scope="session")
def casework(upstream: Double, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Run one service for all clients, which has a target for each status."""
    settings = SETTINGS + "".join(
        AT.replace("{status}", str(status)).replace("{stream}", stream)
        for status in STATUSES
        for stream in ("", "-stream")
    )
    folder = tmp_path_factory.mktemp("clients") / "project"
    with serving(folder, settings.replace("{url}", upstream.base_url), ENVIRON) as running:
        yield running
        assert 0 == upstream.state(idle=1)["active"]  # whatever clients left was left upstream
