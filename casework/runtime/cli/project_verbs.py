"""Verbs that set a project up and say how it stands before anything runs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from casework.runtime.cli.exit_codes import ExitCode
from casework.runtime.cli.verb import Invocation, verb
from casework.strict_json import JSON

PipelineOption = Annotated[
    Path | None,
    typer.Option(
        "--pipeline",
        metavar="FILE",
        show_default=False,
        help="Pipeline; by default pipeline.toml, or the only file in pipelines/.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    verb(
        app,
        "init",
        json='one document: {"project", "files": [{"path", "created"}], "hints": []}',
    )(init)


def init(invocation: Invocation) -> ExitCode:
    """Make a project: settings, a pipeline with prompt and schema, two sample cases.

    Files that exist stay as they are. Nothing is asked and nothing is contacted.
    """
    from casework.runtime.scaffold import hints, ignores_settings, scaffold

    terminal = invocation.terminal
    folder = invocation.project_folder or Path.cwd()
    written = scaffold(folder)
    suggestions = list(hints(os.environ))
    if not ignores_settings(folder):
        suggestions.append(".gitignore is yours: add config/llm.local.toml and runtime/ to it")
    if terminal.as_json:
        files: list[JSON] = [{"path": file.path, "created": file.created} for file in written]
        terminal.document({"project": str(folder), "files": files, "hints": [*suggestions]})
        return ExitCode.SUCCESS
    terminal.table(
        ("file", "what"),
        [(file.path, "created" if file.created else "was there, kept") for file in written],
    )
    for suggestion in suggestions:
        terminal.note(suggestion)
    terminal.note(
        "next: edit config/llm.local.toml, then `casework doctor`, `casework import cases`, "
        "`casework run`"
    )
    return ExitCode.SUCCESS
