"""Verbs that look at the whole project: ``status`` and ``explain``."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from casework.runtime.cli.exit_codes import ExitCode
from casework.runtime.cli.project_verbs import PipelineOption
from casework.runtime.cli.verb import Invocation, verb
from casework.strict_json import JSON

if TYPE_CHECKING:
    from collections import Counter
    from pathlib import Path

    from casework.runner.operation_spec import OperationSpec


class By(StrEnum):
    """Along which line to count."""

    OP = "op"
    PROVIDER = "provider"
    REASON = "reason"
    STALE = "stale"


def register(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    verb(
        app,
        "status",
        json='one document: {"counts", "session", "usage", "reasons", "interrupted", ...}; '
        'with --by {"by", "rows"}',
    )(status)
    verb(
        app,
        "explain",
        json='one document: {"privacy_profile", "travel", "providers": [...], "operations": [...]}',
    )(explain)


def status(
    invocation: Invocation,
    *,
    pipeline: PipelineOption = None,
    by: Annotated[
        By | None,
        typer.Option("--by", help="Count by operation, provider, reason or staleness instead."),
    ] = None,
) -> ExitCode:
    """Say how the project stands: counts that reconcile, speed, money, what was interrupted.

    Answered from the index, however many cases there are; settings are not needed. --by provider
    reads every finished outcome, and --by stale compares every result with what the pipeline would
    ask now, which takes its time. Always ends with 0 if it could look.
    """
    from casework.runtime.views.status_report import project_status, read_settings, stale_samples
    from casework.runtime.views.status_view import status_lines, view_to_json, way_on_from
    from casework.runtime.workspace import existing_store

    project, terminal = invocation.project(), invocation.terminal
    store = existing_store(project)
    if by is By.STALE:
        _show_breakdown(invocation, by, _stale_table(invocation, pipeline))
        return ExitCode.SUCCESS
    if by is not None:
        from casework.runtime.views.status_breakdown import Cut, breakdown

        _show_breakdown(invocation, by, breakdown(store, Cut(by.value)))
        return ExitCode.SUCCESS
    settings = read_settings(project, pipeline)
    view = project_status(project, store, settings)
    stale = list(stale_samples(store, settings))
    if terminal.as_json:
        shown: list[JSON] = [
            {"operation_id": one.operation.operation_id, "differs": list(one.parts)}
            for one in stale
        ]
        terminal.document({**view_to_json(view), "stale": shown})
    else:
        for line in status_lines(view):
            terminal.text(line)
        for one in stale:
            terminal.text(
                f"stale  {one.operation.operation_id}: made from other {', '.join(one.parts)}: "
                "casework status --by stale counts, casework retry --stale asks again"
            )
        if (way_on := way_on_from(view)) is not None:
            terminal.note(f"next: {way_on}")
    if settings.problem is not None:
        terminal.note(f"casework: {settings.problem}")
    return ExitCode.SUCCESS


def explain(
    invocation: Invocation,
    *,
    pipeline: PipelineOption = None,
    operation: Annotated[
        str | None, typer.Option("--op", metavar="ID", help="Only this operation.")
    ] = None,
) -> ExitCode:
    """Say who would be asked, in which order, and why the others would not; contacts nobody.

    The verdicts are those that a real call acts on. An operation of the pipeline may narrow the
    configured profile; where it does, its own verdicts are shown.
    """
    from casework.errors import ConfigurationError
    from casework.runtime.views import explanation
    from casework.runtime.workspace import Workspace

    workspace, terminal = Workspace.open(invocation.project()), invocation.terminal
    specs: tuple[OperationSpec, ...] = ()
    try:
        found = workspace.pipeline(pipeline)
        specs = found.operations if operation is None else (found.operation(operation),)
    except ConfigurationError:
        if pipeline is not None or operation is not None:
            raise
    whole, *operations = explanation.explain(workspace, specs)
    if terminal.as_json:
        terminal.document({**whole.to_json(), "operations": [o.to_json() for o in operations]})
        return ExitCode.SUCCESS
    narrowed = [o for o in operations if o.profile is not whole.profile or operation is not None]
    for part in (whole, *narrowed):
        terminal.text(part.title())
        terminal.table(explanation.COLUMNS, part.rows())
    return ExitCode.SUCCESS


def _stale_table(invocation: Invocation, pipeline: Path | None) -> dict[str, Counter[str]]:
    """Count the results of each operation that were made from something else, by what differs."""
    from collections import Counter

    from casework.runtime.run.stale_results import StaleCheck, begun_operations
    from casework.runtime.workspace import Workspace

    workspace = Workspace.open(invocation.project())
    check = StaleCheck(workspace.pipeline(pipeline), workspace.store, workspace.gateway)
    table: dict[str, Counter[str]] = {}
    for one in check.of(begun_operations(workspace.store)):
        key = f"{one.operation.operation_id}: {', '.join(one.parts)}"
        table.setdefault(key, Counter())[str(one.operation.status)] += 1
    return table


def _show_breakdown(invocation: Invocation, by: By, table: dict[str, Counter[str]]) -> None:
    """Write the counts of one cut, the largest first."""
    states = sorted({state for row in table.values() for state in row})
    ordered = sorted(table.items(), key=lambda item: (-item[1].total(), item[0]))
    if invocation.terminal.as_json:
        rows: list[JSON] = [
            {by.value: key, "total": row.total(), **{state: row[state] for state in states}}
            for key, row in ordered
        ]
        invocation.terminal.document({"by": by.value, "rows": rows})
        return
    invocation.terminal.table(
        (by.value, "total", *states),
        [
            (key, f"{row.total():,}", *(f"{row[state]:,}" for state in states))
            for key, row in ordered
        ],
    )
