"""Projects with a scripted provider, and commands run inside this process or in a child."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from casework.runtime.cli.command_line import run
from casework.strict_json import JSON, JSONObject

ROOT: Final = Path(__file__).resolve().parents[2]

COMMAND: Final = (
    sys.executable,
    "-c",
    "from casework.runtime.cli import main; main()",
)

YES: Final[JSONObject] = {"do": "reply", "text": '{"answer": "yes"}'}
DOWN: Final[JSONObject] = {"do": "fail", "kind": "http_5xx", "http_status": 503}

SETTINGS: Final = """
[[providers]]
id = "desk"
adapter = "scripted"
model = "m-1"
file = "script.json"

[[providers]]
id = "cloud"
adapter = "openai_compatible"
base_url = "https://api.cloud.example/v1"
model = "big"

[outage]
enabled = false

[retry]
max_attempts = {rounds}
retry_delay_seconds = {delay}
blocked_retry_seconds = {blocked}
"""

PIPELINE: Final = """
name = "review"
[[operations]]
id = "first"
task = "Answer."
output_schema = { type = "object", required = ["answer"] }
"""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command came to."""

    code: int
    out: str
    err: str

    def document(self) -> JSONObject:
        """Return the one JSON document on standard output."""
        value: JSON = json.loads(self.out)
        assert isinstance(value, dict)
        return value

    def lines(self) -> list[JSONObject]:
        """Return the JSON lines on standard output."""
        return [json.loads(line) for line in self.out.splitlines()]


def make_project(
    folder: Path,
    steps: Sequence[JSONObject] = (YES,),
    *,
    texts: Mapping[str, str] | None = None,
    rounds: int = 2,
    delay: float = 0.0,
    blocked: float = 3600.0,
) -> Path:
    """Write a project whose provider plays steps, the last one for ever, with texts to import."""
    (folder / "config").mkdir(parents=True, exist_ok=True)
    settings = SETTINGS.format(rounds=rounds, delay=float(delay), blocked=float(blocked))
    (folder / "config" / "llm.local.toml").write_text(settings, encoding="utf-8")
    write_script(folder, steps)
    (folder / "pipeline.toml").write_text(PIPELINE, encoding="utf-8")
    (folder / "inputs").mkdir(exist_ok=True)
    for name, text in (texts or {"a.txt": "One.", "b.txt": "Two.", "c.txt": "Three."}).items():
        (folder / "inputs" / name).write_text(text, encoding="utf-8")
    return folder


def write_script(folder: Path, steps: Sequence[JSONObject]) -> None:
    """Give the project's provider other steps."""
    script = json.dumps({"repeat_last": True, "steps": list(steps)})
    (folder / "config" / "script.json").write_text(script, encoding="utf-8")


class CommandLine:
    """Runs commands of one project inside this process.

    Args:
        project: The project's folder.
        captured: Where pytest keeps what was written.
    """

    def __init__(self, project: Path, captured: pytest.CaptureFixture[str]) -> None:
        self.project = project
        self._captured = captured

    def __call__(self, *words: str, project: bool = True) -> Ran:
        """Run a command and return its code and both streams."""
        option = ("--project", str(self.project)) if project else ()
        self._captured.readouterr()
        code = run([*words, *option])
        captured = self._captured.readouterr()
        return Ran(code, captured.out, captured.err)

    def imported(self) -> CommandLine:
        """Import the project's texts."""
        assert 0 == self("import", str(self.project / "inputs")).code
        return self


def child(
    *words: str, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a child to its end."""
    return subprocess.run(
        [*COMMAND, *words],
        cwd=cwd,
        env=child_environment(env),
        capture_output=True,
        check=False,
        timeout=60,
    )


def child_environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a child: this one, the checkout, and what is asked for."""
    return {**os.environ, "PYTHONPATH": str(ROOT), **(extra or {})}
