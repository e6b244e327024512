"""The walk through the inbox in the guide says what the commands say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent
HEADING: Final = "### A walk through the inbox"
PROMPT: Final = "$ "

VIEW: Final = re.compile(r"\b[0-9a-f]{12}\b")

VARYING: Final = (
    (VIEW, "VIEW"),
    (re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}[+-]\d{2}:\d{2}"), "TIME"),
    (re.compile(r"-\d[\w.]*"), "-VERSION"),
    (re.compile(r"\d[\d,.]*"), "N"),
    (re.compile(r"[ \t]+"), " "),
)
"""What differs from day to day and from machine to machine."""


def steps() -> Iterator[tuple[str, str]]:
    """Yield each command of the walk with the output that stands under it."""
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    section = text.split(HEADING, 1)[1].split("\n## ", 1)[0]
    for block in re.findall(r"```console\n(.*?)```", section, flags=re.DOTALL):
        for step in block.split(f"\n{PROMPT}"):
            command, _, output = step.removeprefix(PROMPT).partition("\n")
            yield command, output


def plain(text: str) -> str:
    """Return a text without what varies."""
    for pattern, name in VARYING:
        text = pattern.sub(name, text)
    return "\n".join(line.strip() for line in text.strip().splitlines())


def test_the_walk_shows_what_the_commands_say(tmp_path: Path) -> None:
    """Every command is typed, and says what is printed under it, but for what varies."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = {"PATH": path, "HOME": str(tmp_path), "LC_ALL": "C.UTF-8", "TZ": "UTC"}
    folder, typed = tmp_path, 0
    views: dict[str, str] = {}
    for command, expected in steps():
        if command.startswith("cd "):
            folder /= command.removeprefix("cd ")
            continue
        today = VIEW.sub(lambda found: views.get(found[0], found[0]), command)
        ended = subprocess.run(
            ["bash", "-c", f"{{ {today}\n}} 2>&1"],
            cwd=folder,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert plain(expected) == plain(ended.stdout), command
        views.update(zip(VIEW.findall(expected), VIEW.findall(ended.stdout), strict=True))
        typed += 1
    assert typed > 10
