"""Real clients work against a real service: each program asserts what its library is told."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.clients.conftest import CLIENT_KEY
from tests.clients.serving import ROOT, Double, Served

PROGRAMS = ROOT / "tests" / "clients" / "programs"
PROGRAM_SECONDS = 120

PYTHON = {
    "sdk_chat": "sdk",
    "sdk_async": "sdk",
    "sdk_other": "sdk",
    "sdk_errors": "sdk",
    "instructor_cases": "libraries",
    "langchain_openai_cases": "libraries",
    "llm_cases": "libraries",
    "pydantic_ai_cases": "libraries",
}
"""Programs, and the environment that has what each needs."""


def ran(command: list[str], *, served: Served, upstream: Double, installed: Path) -> object:
    """Run a program and return what it tells of its cases."""
    environ = {
        **os.environ,
        "BASE_URL": served.base_url,
        "CLIENT_KEY": CLIENT_KEY,
        "DOUBLE_URL": upstream.base_url,
        "NODE_FOLDER": str(installed / "node"),
    }
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        timeout=PROGRAM_SECONDS,
        check=False,
    )
    assert 0 == done.returncode, done.stderr
    return json.loads(done.stdout)


def cases_in(program: Path) -> dict[str, None]:
    """Return the cases of a program, none of which failed."""
    found = re.findall(r"(case_\w+)\(", program.read_text(encoding="utf-8"))
    assert found
    return dict.fromkeys(found)


@pytest.mark.parametrize("program", sorted(PYTHON))
def test_a_python_client_works(
    program: str, casework: Served, upstream: Double, installed: Path
) -> None:
    """Every case of the program holds."""
    python = installed / PYTHON[program] / "bin" / "python"
    command = [str(python), "-m", f"tests.clients.programs.{program}"]
    told = ran(command, served=casework, upstream=upstream, installed=installed)
    assert cases_in(PROGRAMS / f"{program}.py") == told


def test_the_node_sdk_works(casework: Served, upstream: Double, installed: Path) -> None:
    """Every case of the program holds."""
    command = [str(installed / "node" / "node"), str(PROGRAMS / "node_sdk.mjs")]
    told = ran(command, served=casework, upstream=upstream, installed=installed)
    assert cases_in(PROGRAMS / "node_sdk.mjs") == told
