"""A project is found, laid out and never overwritten."""

from __future__ import annotations

from pathlib import Path

import pytest

from casework.config.gateway_config import GatewayConfig
from casework.errors import ConfigurationError, PackageNotFound
from casework.runner.pipeline import Pipeline
from casework.runtime.package_places import all_packages, package_at
from casework.runtime.project import CONFIG_FILE, Project, find_project
from casework.runtime.scaffold import hints, ignores_settings, scaffold
from tests.support.packages import CASE, Workshop


def test_the_nearest_project_above_is_found(tmp_path: Path) -> None:
    """From a folder inside a project, the project is meant."""
    scaffold(tmp_path)
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert Project(tmp_path) == find_project(None, start=inner)


def test_without_a_project_the_folder_itself_is_meant(tmp_path: Path) -> None:
    """A folder without settings can still hold cases."""
    assert Project(tmp_path) == find_project(None, start=tmp_path)


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """A mistyped folder is not made."""
    with pytest.raises(ConfigurationError):
        find_project(tmp_path / "nowhere", start=tmp_path)


def test_the_only_pipeline_is_taken_and_several_are_not_guessed(tmp_path: Path) -> None:
    """One file in ``pipelines/`` is meant; of two none is."""
    project, folder = Project(tmp_path), tmp_path / "pipelines"
    with pytest.raises(ConfigurationError) as missing:
        project.pipeline_file()
    folder.mkdir()
    (folder / "one.toml").touch()
    assert folder / "one.toml" == project.pipeline_file()
    (folder / "two.toml").touch()
    with pytest.raises(ConfigurationError) as several:
        project.pipeline_file()
    assert ("no_pipeline", "several_pipelines") == (missing.value.code, several.value.code)
    assert folder / "two.toml" == project.pipeline_file(folder / "two.toml")


def test_a_new_project_can_be_read_as_it_stands(tmp_path: Path) -> None:
    """Settings and pipeline of a fresh project are sound, and its secrets stay out of Git."""
    written = scaffold(tmp_path)
    assert all(file.created for file in written)
    assert GatewayConfig.load(tmp_path / CONFIG_FILE).enabled_providers
    assert Pipeline.load(tmp_path / "pipeline.toml").operations
    assert ignores_settings(tmp_path)


def test_nothing_that_exists_is_touched(tmp_path: Path) -> None:
    """A second time creates only what is missing."""
    scaffold(tmp_path)
    pipeline = tmp_path / "pipeline.toml"
    pipeline.write_text("mine")
    (tmp_path / ".gitignore").unlink()
    again = {file.path for file in scaffold(tmp_path) if file.created}
    assert ({".gitignore"}, "mine") == (again, pipeline.read_text())


def test_an_ignore_file_of_ones_own_is_judged(tmp_path: Path) -> None:
    """Without the two lines it does not protect the settings."""
    (tmp_path / ".gitignore").write_text("*.pyc\n")
    assert not ignores_settings(tmp_path)
    (tmp_path / ".gitignore").write_text("/config/llm.local.toml\nruntime\n")
    assert ignores_settings(tmp_path)


def test_hints_name_variables_and_never_their_values() -> None:
    """An empty variable counts as unset."""
    told = hints({"OPENAI_API_KEY": "sk-canary", "OPENAI_BASE_URL": "", "OLLAMA_HOST": "h"})
    assert ["OPENAI_API_KEY", "OLLAMA_HOST"] == [hint.split()[0] for hint in told]
    assert "canary" not in "".join(told)


def test_a_package_is_found_by_id_folder_and_zip(tmp_path: Path) -> None:
    """All three ways lead to the same case."""
    workshop = Workshop(tmp_path / "runtime")
    workshop.create()
    project, sealed = Project(tmp_path), tmp_path / "case.zip"
    workshop.store.export(CASE, sealed)
    folder = workshop.store.package_folder(CASE)
    assert folder == package_at(CASE, project)
    assert folder == package_at(str(folder), project)
    assert sealed == package_at(str(sealed), project)
    assert [folder] == list(all_packages(project))
    with pytest.raises(PackageNotFound):
        package_at("../../etc/passwd", project)
