"""Two public checkers of OpenAI compatibility have nothing to say against the service."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.conftest import CLIENT_KEY
from tests.clients.serving import Double, Served, double, serving

SETTINGS = """
[[providers]]
id = "double"
adapter = "openai_compatible"
base_url = "{url}"
model = "echo"

[models.aliases]
"o3-public" = "double"
"org/public name" = "double/echo"
"""


@pytest.fixture(scope="module")
def echoing() -> Iterator[Double]:
    """Run an upstream that lists models of chat only, and pauses as a model does."""
    with double(["echo"], pause_seconds=0.003) as running:
        yield running


@pytest.fixture(scope="module")
def checked(echoing: Double, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Run a service on it."""
    folder = tmp_path_factory.mktemp("compliance") / "project"
    settings = SETTINGS.replace("{url}", echoing.base_url)
    with serving(folder, settings, {"PROXY_API_KEY": CLIENT_KEY}) as running:
        yield running


@pytest.fixture(scope="module", params=["upstream", "casework"])
def base_url(request: pytest.FixtureRequest, echoing: Double, checked: Served) -> str:
    """Return each address that is checked; the upstream itself must be beyond doubt."""
    return echoing.base_url if request.param == "upstream" else checked.base_url


def written(command: list[str | Path]) -> Any:
    """Run a checker and return the JSON it writes; it must not find a failure."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert 0 == done.returncode, done.stdout + done.stderr
    return json.loads(done.stdout)


def test_llm_comply_has_no_warning(base_url: str, installed: Path) -> None:
    """All its tests of the chat format pass, none is left out, none warns."""
    program = installed / "libraries" / "bin" / "llm-comply"
    words = ["run", "-u", base_url, "-k", CLIENT_KEY, "-m", "o3-public", "--json"]
    told = written([program, *words, "--format", "openai-chat"])
    odd = [one for one in told["results"] if one["status"] != "passed" or one.get("warnings")]
    assert [] == odd
    assert 9 == told["summary"]["passed"]


def test_the_provider_check_has_no_warning(base_url: str, installed: Path) -> None:
    """Its tiers 1 to 5 pass; the catalogue of its own market place is not ours to publish."""
    program = installed / "libraries" / "bin" / "trustedrouter-provider-check"
    words = ["--base-url", base_url, "--api-key", CLIENT_KEY, "--tier", "5", "--json", "-"]
    told = written([program, *words])
    odd = {one["id"]: one["status"] for one in told["checks"] if one["status"] != "pass"}
    assert {"catalog.declared-v2": "skip"} == odd
    assert 21 == told["summary"]["passed"]
