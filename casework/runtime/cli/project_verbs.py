"""Verbs that set a project up and say how it stands before anything runs."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from casework.errors import ConfigurationError
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
    verb(
        app,
        "doctor",
        json='one document: {"ok", "checks": [{"check", "state", "detail"}]}',
    )(doctor)


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


def doctor(
    invocation: Invocation,
    *,
    pipeline: PipelineOption = None,
    probe: Annotated[
        bool, typer.Option("--probe", help="Connect once to each eligible provider; says nothing.")
    ] = False,
) -> ExitCode:
    """Check settings, pipeline, keys and disk; say what could leave this machine.

    Contacts nobody, unless --probe is given: then one connection is opened to each eligible
    provider and closed again, without a request. Ends with 2 if there is a problem.
    """
    from casework.gateway.clock import SystemClock
    from casework.runtime.views.doctor import CheckState, examine
    from casework.runtime.views.probing import probe_all
    from casework.runtime.workspace import Workspace

    project, terminal = invocation.project(), invocation.terminal
    checks = list(examine(project, os.environ, pipeline_file=pipeline))
    if probe:
        with suppress(ConfigurationError):  # told by the checks before
            verdicts = Workspace.open(project).gateway.explain()
            checks += probe_all(verdicts, SystemClock())
    ok = not any(check.state is CheckState.PROBLEM for check in checks)
    if terminal.as_json:
        told: list[JSON] = [
            {"check": check.name, "state": check.state.value, "detail": check.detail}
            for check in checks
        ]
        terminal.document({"ok": ok, "checks": told})
    else:
        rows = [(check.state.value, check.name, check.detail) for check in checks]
        terminal.table(("state", "check", "detail"), rows)
    return ExitCode.SUCCESS if ok else ExitCode.USAGE
