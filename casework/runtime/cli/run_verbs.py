"""The verb that does the work: ``run``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from casework.runtime.cli.exit_codes import ExitCode
from casework.runtime.cli.project_verbs import PipelineOption
from casework.runtime.cli.verb import Invocation, verb

if TYPE_CHECKING:
    from decimal import Decimal

    from casework.runtime.cli.run_session import RunResult, RunSession
    from casework.runtime.line.line_governor import LineGovernor
    from casework.runtime.run.batch import BatchOptions
    from casework.runtime.workspace import Workspace

CONCURRENCY_DEFAULT = 8
CONCURRENCY_MAX = 64

CaseOption = Annotated[
    list[str] | None,
    typer.Option("--case", metavar="ID", help="Only this case; may be repeated."),
]


def register(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    verb(
        app,
        "run",
        json='one document: {"ended", "calls", "reused", "counts", "usage", "problems", ...}',
        ends=(
            ExitCode.SOME_ERROR,
            ExitCode.SOME_WAITING,
            ExitCode.UNFINISHED,
            ExitCode.INTEGRITY,
            ExitCode.LOCKED,
            ExitCode.BUDGET,
        ),
    )(run)


def run(
    invocation: Invocation,
    *,
    pipeline: PipelineOption = None,
    case: CaseOption = None,
    once: Annotated[
        bool, typer.Option("--once", help="At most one round each; do not wait for later ones.")
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Stay, and take up new cases and retries as they come.")
    ] = False,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Begin at most so many rounds.")
    ] = None,
    concurrency: Annotated[
        int,
        typer.Option("--concurrency", min=1, max=CONCURRENCY_MAX, help="Cases in flight at once."),
    ] = CONCURRENCY_DEFAULT,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only estimate, as `casework plan` does.")
    ] = False,
    budget: Annotated[
        str | None,
        typer.Option(
            "--budget", metavar="AMOUNT", help="The most that this run may spend, like 5.00."
        ),
    ] = None,
) -> ExitCode:
    """Run the pipeline over all cases until nothing is left to do.

    What succeeded, failed or is blocked stays as it is and is never asked again, so running twice
    is harmless. An operation whose providers are all unavailable is asked again later; the run
    waits for that unless --once is given. Ctrl-C lets running calls end, a second one leaves at
    once; either way everything committed is kept. Several runs may share a project.
    """
    from casework.errors import ConfigurationError
    from casework.runtime.cli.plan_report import show_plan
    from casework.runtime.cli.run_session import RunSession
    from casework.runtime.line.claimant import new_worker
    from casework.runtime.run.batch import BatchOptions
    from casework.runtime.run.pipeline_run import PipelineRun
    from casework.runtime.workspace import Workspace

    if watch and once:
        raise ConfigurationError("--watch and --once exclude each other", code="bad_options")
    if dry_run:
        return show_plan(invocation, pipeline=pipeline, cases=case or ())
    workspace = Workspace.open(invocation.project())
    options = BatchOptions(
        concurrency=concurrency_in(invocation, concurrency),
        limit=limit,
        once=once,
        stay=watch,
        worker=new_worker(workspace.clock.now()),
    )
    governor = governor_of(workspace, options, amount_of_money(budget))
    found = workspace.pipeline(pipeline)
    planned = PipelineRun(workspace, found, options=options, cases=case or (), governor=governor)
    session = RunSession(planned, invocation.terminal, stays=watch)
    return drive(session, governor, invocation).exit_code()


def drive(session: RunSession, governor: LineGovernor, invocation: Invocation) -> RunResult:
    """Let a session work under its governor and tell what it came to; leave at once if asked."""
    from casework.runtime.cli.run_session import leave, show_result

    with governor.at_work():
        result = session.execute()
    show_result(result, invocation.terminal)
    if result.left_at_once:
        leave(ExitCode.INTERRUPTED)
    return result


def governor_of(
    workspace: Workspace, options: BatchOptions, run_budget: Decimal | None = None
) -> LineGovernor:
    """Return what holds back the line of the process that goes by these options."""
    return workspace.governor(
        options.worker, concurrency=options.concurrency, run_budget=run_budget
    )


def amount_of_money(text: str | None) -> Decimal | None:
    """Read an amount of money exactly.

    Raises:
        ConfigurationError: It is none.
    """
    from decimal import Decimal, InvalidOperation

    from casework.errors import ConfigurationError

    if text is None:
        return None
    try:
        amount = Decimal(text)
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or amount < 0:
        raise ConfigurationError(
            "--budget is no amount of money", code="bad_options", remedy="write it like 5.00"
        )
    return amount


def concurrency_in(invocation: Invocation, wanted: int) -> int:
    """Return how many cases may be in flight here, and say so if it is fewer than wanted."""
    from casework.runtime.run.descriptors import affordable_concurrency

    affordable = affordable_concurrency(wanted)
    if affordable < wanted:
        invocation.terminal.note(
            f"{affordable} cases in flight instead of {wanted}: the system allows no more "
            "open files; raise `ulimit -n`"
        )
    return affordable
