"""The doctor says what is ready and what could leave the machine, and names no secret."""

from __future__ import annotations

from pathlib import Path

import pytest

from casework.gateway.clock import ManualClock
from casework.runtime.project import Project
from casework.runtime.views.doctor import Check, CheckState, examine
from casework.runtime.views.probing import probe_all
from casework.runtime.workspace import Workspace
from tests.support.command_line import make_project

CLOUD = """
privacy_profile = "cloud_allowed"
[[providers]]
id = "cloud"
adapter = "openai_compatible"
base_url = "https://api.cloud.example/v1"
model = "big"
api_key_env = "CLOUD_KEY"
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(make_project(tmp_path))


def checks(project: Project, environ: dict[str, str] | None = None) -> dict[str, list[Check]]:
    found: dict[str, list[Check]] = {}
    for check in examine(project, environ or {}):
        found.setdefault(check.name, []).append(check)
    return found


def test_a_sound_project_has_no_problem(project: Project) -> None:
    """Settings, pipeline, disk and providers are ready."""
    found = checks(project)
    states = {check.state for group in found.values() for check in group}
    assert CheckState.PROBLEM not in states
    assert "no document may leave this machine" == found["travel"][0].detail


def test_what_could_leave_the_machine_is_named(project: Project) -> None:
    """A cloud that the profile admits is named with its class."""
    project.config_file.write_text(CLOUD, encoding="utf-8")
    travel = checks(project, {"CLOUD_KEY": "k"})["travel"][0]
    assert (CheckState.NOTE, "documents may leave this machine for cloud (cloud)") == (
        travel.state,
        travel.detail,
    )


def test_a_missing_key_is_named_by_its_variable(project: Project) -> None:
    """The variable is told, for the provider and once for the operation that needs it."""
    project.config_file.write_text(CLOUD, encoding="utf-8")
    found = checks(project)
    assert CheckState.PROBLEM is found["keys"][0].state
    assert "CLOUD_KEY" in found["keys"][0].detail
    assert CheckState.PROBLEM is found["operation first"][0].state


def test_no_value_of_the_environment_is_shown(project: Project) -> None:
    """Keys and proxies appear by name only."""
    project.config_file.write_text(CLOUD, encoding="utf-8")
    environ = {"CLOUD_KEY": "canary-1", "HTTPS_PROXY": "http://canary-2:1", "no_proxy": "canary-3"}
    found = checks(project, environ)
    text = " ".join(check.detail for group in found.values() for check in group)
    assert "canary" not in text
    assert "HTTPS_PROXY, no_proxy" in found["proxies"][0].detail


def test_a_schema_that_is_not_allowed_is_a_problem(project: Project) -> None:
    """A remote reference is refused before any run."""
    pipeline = project.folder / "pipeline.toml"
    text = pipeline.read_text().replace(
        '{ type = "object", required = ["answer"] }', '{ "$ref" = "https://x.example/s.json" }'
    )
    pipeline.write_text(text)
    (check,) = checks(project)["pipeline"]
    assert CheckState.PROBLEM is check.state
    assert "[schema_not_allowed]" in check.detail


def test_an_index_with_a_known_fault_is_explained(project: Project) -> None:
    """Whatever SQLite stands behind the index, its version is told."""
    (check,) = checks(project)["sqlite"]
    assert check.state is not CheckState.PROBLEM
    assert "3." in check.detail


def test_a_provider_in_this_process_needs_no_probe(project: Project) -> None:
    """Only eligible providers are probed, and one without an address is not connected to."""
    verdicts = Workspace.open(project).gateway.explain()
    assert ["desk: answers in this process"] == [
        check.detail for check in probe_all(verdicts, ManualClock())
    ]


def test_a_dead_address_is_a_problem(project: Project) -> None:
    """A refused connection is told by the provider's name, without its address."""
    settings = CLOUD.replace("https://api.cloud.example/v1", "http://127.0.0.1:9/v1")
    project.config_file.write_text(settings, encoding="utf-8")
    verdicts = Workspace.open(project).gateway.explain()
    (check,) = probe_all(verdicts, ManualClock())
    assert (CheckState.PROBLEM, False) == (check.state, "127.0.0.1" in check.detail)
