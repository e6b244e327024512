"""Where a project's files lie."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from casework.errors import ConfigurationError

CONFIG_FILE: Final = Path("config") / "llm.local.toml"
PIPELINE_FILE: Final = "pipeline.toml"
PIPELINES_FOLDER: Final = "pipelines"


@dataclass(frozen=True, slots=True)
class Project:
    """A folder with a configuration, pipelines, and a runtime folder that Casework owns."""

    folder: Path

    @property
    def config_file(self) -> Path:
        """Return where the settings lie."""
        return self.folder / CONFIG_FILE

    @property
    def runtime(self) -> Path:
        """Return the only folder that Casework writes to."""
        return self.folder / "runtime"

    @property
    def name(self) -> str:
        """Return the name that people call the project by."""
        return self.folder.resolve().name

    def pipeline_file(self, given: Path | None = None) -> Path:
        """Return the pipeline to use: the one given, ``pipeline.toml``, or the only other one.

        Raises:
            ConfigurationError: There is none, or nobody said which of several.
        """
        if given is not None:
            return given
        usual = self.folder / PIPELINE_FILE
        if usual.is_file():
            return usual
        found = sorted((self.folder / PIPELINES_FOLDER).glob("*.toml"))
        if len(found) == 1:
            return found[0]
        if not found:
            raise ConfigurationError(
                "the project has no pipeline",
                code="no_pipeline",
                where=str(usual),
                remedy="write one, start with `casework init`, or name it with --pipeline",
            )
        names = ", ".join(path.name for path in found)
        raise ConfigurationError(
            f"there are several pipelines: {names}",
            code="several_pipelines",
            where=str(self.folder / PIPELINES_FOLDER),
            remedy="name one with --pipeline",
        )


def find_project(given: Path | None, *, start: Path) -> Project:
    """Return the project in a folder, or else the nearest one at or above ``start``.

    Without any project above it, ``start`` itself counts as one that has no configuration yet.

    Raises:
        ConfigurationError: The folder given does not exist.
    """
    if given is not None:
        if not given.is_dir():
            raise ConfigurationError(
                "there is no such folder",
                code="no_project",
                where=str(given),
                remedy="make one with `casework init --project DIR`",
            )
        return Project(given)
    for folder in (start, *start.parents):
        if (folder / CONFIG_FILE).is_file():
            return Project(folder)
    return Project(start)
