"""The verb ``logs``: what the failure log of a project says."""

from __future__ import annotations

from typing import Annotated

import typer

from casework.runtime.cli.exit_codes import ExitCode
from casework.runtime.cli.verb import Invocation, verb

LINES_MAX = 1_000_000


def register(app: typer.Typer) -> None:
    """Add the verb of this file."""
    verb(
        app,
        "logs",
        json='JSON lines as they were written: {"ts", "event", "case_id", "operation_id", '
        '"round", "code", "attempts", ...}',
    )(logs)


def logs(
    invocation: Invocation,
    *,
    case: Annotated[str | None, typer.Option("--case", metavar="ID", help="This case.")] = None,
    event: Annotated[
        str | None,
        typer.Option(
            "--event", metavar="EVENT", help="This event, like round_failed or operation_error."
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option("--since", metavar="TIME", help="ISO 8601, or how long ago: 90m, 12h, 2d."),
    ] = None,
    last: Annotated[
        int | None,
        typer.Option("--lines", "-n", min=1, max=LINES_MAX, metavar="N", help="Only the newest N."),
    ] = None,
) -> ExitCode:
    """Show the failure log, as it was written: rounds without an answer; codes, never texts.

    Rotated files are read too. A line that is torn or damaged is skipped and counted on standard
    error. Ends with 0 also if there is no line.
    """
    from casework.gateway.clock import SystemClock
    from casework.runner.failure_log_reader import FailureLogReader
    from casework.runtime.cli.moments import read_moment
    from casework.runtime.views import log_view, phrases

    terminal = invocation.terminal
    moment = read_moment(since, SystemClock().now(), option="--since") if since else None
    reader = FailureLogReader(invocation.project().runtime / "logs" / "llm.jsonl")
    wanted = log_view.LogFilter(case_id=case, event=event, since=moment, last=last)
    lines = wanted.chosen(reader.lines())
    if terminal.as_json:
        for line in lines:
            terminal.json_line(line.fields)
    else:
        rows = [log_view.row(line) for line in lines]
        if rows:
            terminal.table(log_view.COLUMNS, rows)
        else:
            terminal.note("the log has no such line")
    if reader.skipped:
        terminal.warn(
            f"casework: {phrases.plural(reader.skipped, 'line')} skipped, torn or damaged"
        )
    return ExitCode.SUCCESS
