"""A new project: settings, a pipeline, two sample cases; nothing that exists is touched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Final

from casework.config.gateway_config import example_toml
from casework.runtime.project import CONFIG_FILE, PIPELINE_FILE

_COPIES: Final = (
    PIPELINE_FILE,
    "prompts/triage.txt",
    "schemas/triage.json",
    "cases/incident-0001.txt",
    "cases/incident-0002.md",
)
IGNORE_FILE: Final = ".gitignore"

_HINTS: Final = {
    "OPENAI_API_KEY": "to use a cloud, set privacy_profile and name this variable in api_key_env",
    "OPENAI_BASE_URL": "a server's address is set; copy it into base_url of a provider",
    "OLLAMA_HOST": "Ollama speaks this protocol; its base_url is http://127.0.0.1:11434/v1",
}


@dataclass(frozen=True, slots=True)
class ScaffoldFile:
    """One file of the new project."""

    path: str
    created: bool
    """False where there was one already, which stays as it is."""


def scaffold(folder: Path) -> tuple[ScaffoldFile, ...]:
    """Write the files of a new project that are not there yet."""
    contents = {
        CONFIG_FILE.as_posix(): example_toml(),
        **{name: _text(name) for name in _COPIES},
        IGNORE_FILE: _text("gitignore.txt"),
    }
    return tuple(_create(folder, name, content) for name, content in contents.items())


def ignores_settings(folder: Path) -> bool:
    """Tell whether the project's ignore file keeps the settings and the runtime folder out."""
    try:
        lines = (folder / IGNORE_FILE).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    words = {line.strip().strip("/") for line in lines}
    return {CONFIG_FILE.as_posix(), "runtime"} <= words


def hints(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Say what the environment suggests; variables are named, their values never shown."""
    return tuple(f"{name} is set: {hint}" for name, hint in _HINTS.items() if environ.get(name))


def _create(folder: Path, name: str, content: str) -> ScaffoldFile:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        with path.open("x", encoding="utf-8", newline="\n") as stream:
            stream.write(content)
    except FileExistsError:
        return ScaffoldFile(name, created=False)
    return ScaffoldFile(name, created=True)


def _text(name: str) -> str:
    source = files("casework.runtime").joinpath("scaffold_files", *name.split("/"))
    return source.read_text(encoding="utf-8")
