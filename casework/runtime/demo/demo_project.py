"""Writing the project folder of the demonstration."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.metadata import Distribution
from importlib.resources import files
from pathlib import Path
from typing import Final

from casework.errors import ConfigurationError
from casework.runner.documents import Refusal
from casework.runner.export import write_lines
from casework.runtime.demo.declared_licence import DeclaredLicence
from casework.runtime.demo.licence_cases import LicenceCase, collect_cases
from casework.runtime.project import CONFIG_FILE, PIPELINE_FILE
from casework.strict_json import JSON, InvalidJSON, canonical, parse

ANSWER_KEY_FILE: Final = "answer_key.json"
ANSWER_KEY_FORMAT: Final = "licence-answer-key/1"

_MODEL_CONFIG: Final = CONFIG_FILE.with_name("llm.model.toml")
_MODEL_PIPELINE: Final = "small_model.toml"

_COPIES: Final = {
    PIPELINE_FILE: PIPELINE_FILE,
    _MODEL_PIPELINE: _MODEL_PIPELINE,
    CONFIG_FILE.as_posix(): "llm.rules.toml",
    _MODEL_CONFIG.as_posix(): "llm.model.toml",
    f"{CONFIG_FILE.parent.as_posix()}/licence_rules.toml": "licence_rules.toml",
    "schemas/licence.json": "schemas/licence.json",
    "schemas/family.json": "schemas/family.json",
    "prompts/family_examples_v1.txt": "prompts/family_examples_v1.txt",
}
"""Each file of the project and the package data that it begins as."""


@dataclass(frozen=True, slots=True)
class DemoProject:
    """The demonstration's folder, ready to be run."""

    folder: Path
    items: tuple[LicenceCase | Refusal, ...] = field(repr=False)
    """Every distribution of the interpreter, as a case or with the reason why not."""

    @property
    def answer_key_file(self) -> Path:
        """Return where the declarations lie, out of reach of every prompt."""
        return self.folder / ANSWER_KEY_FILE

    def config_file(self, *, model: bool = False) -> Path:
        """Return the settings: the rules by default, or the tiny model."""
        return self.folder / (_MODEL_CONFIG if model else CONFIG_FILE)

    def pipeline_file(self, *, model: bool = False) -> Path:
        """Return the pipeline that goes with these settings."""
        return self.folder / (_MODEL_PIPELINE if model else PIPELINE_FILE)


def prepare(folder: Path, *, found: Iterable[Distribution] | None = None) -> DemoProject:
    """Write the demonstration's project and collect its cases; contacts nobody.

    Files that are there stay as they are, so that a second run asks the same and an edited
    pipeline stays edited; only the answer key is written anew, for it follows the environment.

    Args:
        folder: Made if it is missing.
        found: The distributions; by default those of the running interpreter.

    Raises:
        ConfigurationError: The folder cannot be written.
        StorageError: The answer key cannot be written.
    """
    try:
        for name, source in _COPIES.items():
            _create(folder / name, _package_data(source))
    except OSError as error:
        raise ConfigurationError(
            f"the demonstration's folder cannot be written: {error.strerror}",
            where=str(folder),
            remedy="name another folder",
        ) from None
    project = DemoProject(folder, tuple(collect_cases(found)))
    declared: dict[str, JSON] = {
        item.document.case_id: item.declared.to_json()
        for item in project.items
        if isinstance(item, LicenceCase)
    }
    key = canonical({"format": ANSWER_KEY_FORMAT, "cases": declared})
    write_lines(project.answer_key_file, [key + b"\n"])
    return project


def read_answer_key(path: Path) -> dict[str, DeclaredLicence]:
    """Return what each distribution declared, by case id.

    Raises:
        ConfigurationError: The file is missing or is no answer key.
    """
    try:
        value = parse(path.read_bytes())
    except (OSError, InvalidJSON):
        value = None
    cases = value.get("cases") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(cases, dict):
        raise ConfigurationError(
            "there is no answer key", where=str(path), remedy="run: casework demo"
        )
    return {case_id: DeclaredLicence.from_json(item) for case_id, item in cases.items()}


def _create(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("xb") as stream:
            stream.write(content)
    except FileExistsError:
        return


def _package_data(name: str) -> bytes:
    return files("casework.runtime.demo").joinpath("project_files", *name.split("/")).read_bytes()
