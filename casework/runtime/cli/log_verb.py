"""The verb ``logs``: what the failure log or the request log of a project says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from casework.runtime.cli.exit_codes import ExitCode
from casework.runtime.cli.verb import Invocation, verb

if TYPE_CHECKING:
    from collections.abc import Iterable

    from casework.runner.failure_log_reader import LogLine
    from casework.runtime.cli.terminal import Terminal

LINES_MAX = 1_000_000


def register(app: typer.Typer) -> None:
    """Add the verb of this file."""
    verb(
        app,
        "logs",
        json='JSON lines as they were written: {"ts", "event", "case_id", "operation_id", '
        '"round", "code", "attempts", ...}; with --requests {"ts", "event", "request_id", '
        '"client", "route", "status", ...}',
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
    requests: Annotated[
        bool, typer.Option("--requests", help="The requests of clients of `casework serve`.")
    ] = False,
) -> ExitCode:
    """Show the failure log, as it was written: rounds without an answer; codes, never texts.

    With --requests the request log instead: one line for each request of a client.

    Rotated files are read too. A line that is torn or damaged is skipped and counted on standard
    error. Ends with 0 also if there is no line.
    """
    from casework.errors import ConfigurationError
    from casework.gateway.clock import SystemClock
    from casework.runner.failure_log_reader import FailureLogReader
    from casework.runtime.cli.moments import read_moment
    from casework.runtime.views import log_view, phrases

    if requests and case is not None:
        raise ConfigurationError(
            "requests of clients belong to no case",
            code="bad_options",
            where="logs",
            remedy="leave out --case or --requests",
        )
    terminal = invocation.terminal
    moment = read_moment(since, SystemClock().now(), option="--since") if since else None
    name = "requests.jsonl" if requests else "llm.jsonl"
    reader = FailureLogReader(invocation.project().runtime / "logs" / name)
    wanted = log_view.LogFilter(case_id=case, event=event, since=moment, last=last)
    lines = wanted.chosen(reader.lines())
    _show(terminal, lines, requests=requests)
    if reader.skipped:
        terminal.warn(
            f"casework: {phrases.plural(reader.skipped, 'line')} skipped, torn or damaged"
        )
    return ExitCode.SUCCESS


def _show(terminal: Terminal, lines: Iterable[LogLine], *, requests: bool) -> None:
    from casework.runtime.views import log_view

    if terminal.as_json:
        for line in lines:
            terminal.json_line(line.fields)
        return
    columns, row = log_view.REQUESTS if requests else log_view.FAILURES
    rows = [row(line) for line in lines]
    if rows:
        terminal.table(columns, rows)
    else:
        terminal.note("the log has no such line")
