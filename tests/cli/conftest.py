"""A project and its command line for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import CommandLine, make_project


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Give the command line of a project with three texts and a provider that answers."""
    return CommandLine(make_project(tmp_path / "project"), capsys)
