"""The verb ``diff``: two runs of the same cases, compared field by field."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from casework.runtime.cli.exit_codes import ExitCode
from casework.runtime.cli.verb import Invocation, verb

if TYPE_CHECKING:
    from casework.runner.run_diff import Comparison
    from casework.runtime.views.run_sources import RunName

SAMPLE_MAX = 1000


class DiffFormat(StrEnum):
    """What is written."""

    TEXT = "text"
    JSON = "json"
    HTML = "html"


def register(app: typer.Typer) -> None:
    """Add the verb of this file."""
    verb(
        app,
        "diff",
        json='one document: {"a", "b", "counts": {"same", "changed", "only_a", "only_b"}, '
        '"outcomes", "fields", "sample"}',
        ends=(ExitCode.INTEGRITY,),
    )(diff)


def diff(
    invocation: Invocation,
    *,
    run_a: Annotated[
        str, typer.Argument(metavar="RUN_A", help="An operation id, or PROJECT[:OP], FILE[:OP].")
    ],
    run_b: Annotated[str, typer.Argument(metavar="RUN_B", help="The same.")],
    field: Annotated[
        list[str] | None,
        typer.Option("--field", metavar="/POINTER", help="Only this; may be repeated."),
    ] = None,
    operation: Annotated[
        str | None,
        typer.Option("--op", metavar="OP", help="Operation of runs that are named without one."),
    ] = None,
    form: Annotated[DiffFormat, typer.Option("--format", help="What is written.")] = (
        DiffFormat.TEXT
    ),
    sample: Annotated[
        int, typer.Option("--sample", min=0, max=SAMPLE_MAX, help="Changed cases to show.")
    ] = 5,
) -> ExitCode:
    """Compare two runs of the same cases, field by field.

    A run is an operation or a campaign of it (extract, extract@2, extract_v7), another project's
    folder, or a file that `casework export --format jsonl` wrote. Cases are matched by id. Ends
    with 0 whether or not the runs differ; the counts tell.
    """
    from casework.runner.csv_table import check_fields
    from casework.runner.run_diff import AnswerSpool, compare
    from casework.runtime.views.run_sources import RunReader, read_run_name

    check_fields(field or ())
    names = read_run_name(run_a), read_run_name(run_b)
    _require_use(operation, names)
    reader = RunReader(invocation.project, operation)
    with AnswerSpool() as before, AnswerSpool() as after:
        reader.fill(before, names[0])
        reader.fill(after, names[1])
        found = compare(before, after, fields=field or None, sample=sample)
    _show(invocation, (run_a, run_b), found, form)
    for case_id, error in reader.damaged.items():
        invocation.terminal.warn(f"casework: case {case_id} is left out: {error}")
    return ExitCode.INTEGRITY if reader.damaged else ExitCode.SUCCESS


def _require_use(operation: str | None, names: tuple[RunName, RunName]) -> None:
    from casework.errors import ConfigurationError

    if operation is not None and all(name.operation_id is not None for name in names):
        raise ConfigurationError(
            "both runs name their operation",
            code="nothing_to_choose",
            where="--op",
            remedy="leave it out, or name a project or a file",
        )


def _show(
    invocation: Invocation, runs: tuple[str, str], found: Comparison, form: DiffFormat
) -> None:
    from casework.runtime.views import diff_view

    terminal = invocation.terminal
    if terminal.as_json or form is DiffFormat.JSON:
        terminal.document(diff_view.comparison_to_json(runs, found))
        return
    if form is DiffFormat.HTML:
        for part in diff_view.comparison_page(runs, found):
            terminal.raw(part.encode())
        return
    for line in diff_view.comparison_lines(runs, found):
        terminal.text(line)
    if found.fields:
        terminal.table(*diff_view.field_rows(found))
    for line in diff_view.sample_lines(found):
        terminal.text(line)
