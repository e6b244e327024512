"""Showing an estimate, for the two verbs that make one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from casework.runtime.cli.exit_codes import ExitCode
from casework.runtime.cli.verb import Invocation


def show_plan(invocation: Invocation, *, pipeline: Path | None, cases: Sequence[str]) -> ExitCode:
    """Estimate a run and show the estimate."""
    from casework.checkpoints.index_pages import pipeline_cases
    from casework.runtime.run.run_estimate import estimate_run
    from casework.runtime.views.estimate_view import (
        COLUMNS,
        estimate_notes,
        estimate_rows,
        estimate_to_json,
    )
    from casework.runtime.workspace import Workspace, existing_store, require_cases

    existing_store(invocation.project())
    workspace, terminal = Workspace.open(invocation.project()), invocation.terminal
    require_cases(workspace.store, cases)
    chosen = list(dict.fromkeys(cases)) or list(pipeline_cases(workspace.store))
    estimate = estimate_run(workspace, workspace.pipeline(pipeline), cases=chosen)
    if terminal.as_json:
        terminal.document(estimate_to_json(estimate))
        return ExitCode.SUCCESS
    terminal.table(COLUMNS, estimate_rows(estimate))
    for note in estimate_notes(estimate):
        terminal.text(note)
    return ExitCode.SUCCESS
