"""The verb that stays: ``worker``."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from casework.runtime.cli.exit_codes import ExitCode
from casework.runtime.cli.project_verbs import PipelineOption
from casework.runtime.cli.run_verbs import (
    CONCURRENCY_DEFAULT,
    CONCURRENCY_MAX,
    concurrency_in,
    drive,
    governor_of,
)
from casework.runtime.cli.verb import Invocation, verb

AGE_SECONDS_MAX = 30.0


def register(app: typer.Typer) -> None:
    """Add the verb of this file."""
    verb(
        app,
        "worker",
        json="at its end one document, as `casework run` writes it; with --check-health "
        '{"healthy", "complaint"}',
    )(worker)


def worker(
    invocation: Invocation,
    *,
    pipeline: PipelineOption = None,
    concurrency: Annotated[
        int,
        typer.Option("--concurrency", min=1, max=CONCURRENCY_MAX, help="Cases in flight at once."),
    ] = CONCURRENCY_DEFAULT,
    health: Annotated[
        Path | None,
        typer.Option("--health", metavar="FILE", help="Tell in this file how the worker is."),
    ] = None,
    check_health: Annotated[
        Path | None,
        typer.Option(
            "--check-health",
            metavar="FILE",
            help="Start nothing; end with 0 if the worker that writes this file is well, else 1.",
        ),
    ] = None,
    max_age: Annotated[
        float,
        typer.Option("--max-age", metavar="S", min=1.0, help="How old its word may be."),
    ] = AGE_SECONDS_MAX,
) -> ExitCode:
    """Work for days: take up cases and retries as they come, until a signal asks to stop.

    For systemd, containers and a second terminal. Several workers may share a project; a case is
    worked on by one at a time, and what a dead or frozen worker leaves is finished by another.
    SIGTERM or Ctrl-C lets running calls end and ends with 0; a second one leaves at once.
    """
    if check_health is not None:
        return _check(invocation, check_health, max_age)
    return _work(invocation, pipeline=pipeline, concurrency=concurrency, health=health)


def _work(
    invocation: Invocation, *, pipeline: Path | None, concurrency: int, health: Path | None
) -> ExitCode:
    """Start a worker and let it work to its end."""
    from casework.runtime.cli.run_session import RunSession
    from casework.runtime.line.claimant import new_worker
    from casework.runtime.run.batch import BatchEnd, BatchOptions
    from casework.runtime.run.health import HealthFile
    from casework.runtime.run.pipeline_run import PipelineRun
    from casework.runtime.run.session_record import SessionKind
    from casework.runtime.workspace import Workspace

    workspace = Workspace.open(invocation.project())
    options = BatchOptions(
        concurrency=concurrency_in(invocation, concurrency),
        stay=True,
        worker=new_worker(workspace.clock.now()),
    )
    governor = governor_of(workspace, options)
    planned = PipelineRun(
        workspace, workspace.pipeline(pipeline), options=options, governor=governor
    )
    invocation.terminal.note(f"worker {planned.batch.worker} on {workspace.project.name}")
    session = RunSession(
        planned,
        invocation.terminal,
        stays=True,
        kind=SessionKind.WORKER,
        health=HealthFile(health) if health else None,
    )
    result = drive(session, governor, invocation)
    if result.report.end is BatchEnd.INTERRUPTED:
        return ExitCode.SUCCESS
    return result.exit_code()


def _check(invocation: Invocation, file: Path, age_seconds_max: float) -> ExitCode:
    """Tell whether a worker is well."""
    from casework.runtime.run.health import HealthFile

    terminal = invocation.terminal
    complaint = HealthFile(file).complaint(datetime.now(UTC), age_seconds_max)
    if terminal.as_json:
        terminal.document({"healthy": complaint is None, "complaint": complaint})
    elif complaint is None:
        terminal.text("well")
    else:
        terminal.warn(f"casework: {complaint} [unhealthy]")
    return ExitCode.SUCCESS if complaint is None else ExitCode.INTERNAL
