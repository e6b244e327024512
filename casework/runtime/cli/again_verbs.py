"""The verb that asks again, ``retry``, and how such verbs tell what came of it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from casework.runtime.cli.exit_codes import ExitCode
from casework.runtime.cli.project_verbs import PipelineOption
from casework.runtime.cli.run_verbs import CaseOption
from casework.runtime.cli.verb import Invocation, verb
from casework.strict_json import JSONObject

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from casework.checkpoints.index_rows import IndexedOperation
    from casework.checkpoints.store import CheckpointStore
    from casework.runtime.run.campaigns import Again

ReasonOption = Annotated[
    str | None,
    typer.Option("--reason", metavar="CODE", help="Only those with this code."),
]

AGAIN_JSON = (
    'JSON lines: {"case_id", "operation_id", "answer", "reason", "new_operation_id", "due_at"}'
)


def register(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    ends = (ExitCode.UNFINISHED, ExitCode.LOCKED)
    verb(app, "retry", json=AGAIN_JSON, ends=ends)(retry)


def retry(
    invocation: Invocation,
    *,
    failed: Annotated[
        bool, typer.Option("--failed", help="Everything that ended in ERROR or is blocked.")
    ] = False,
    pending: Annotated[
        bool,
        typer.Option("--pending", help="What waits for its next round, after settings changed."),
    ] = False,
    reason: ReasonOption = None,
    case: CaseOption = None,
    reviewed: Annotated[
        bool, typer.Option("--reviewed", help="Also what a person rejected (--stale: decided).")
    ] = False,
    stale: Annotated[
        bool,
        typer.Option("--stale", help="What was made from something else than is asked now."),
    ] = False,
    operation: Annotated[
        str | None, typer.Option("--op", metavar="ID", help="With --stale: only this operation.")
    ] = None,
    pipeline: PipelineOption = None,
) -> ExitCode:
    """Ask again what failed: under a new id (extract@2, extract@3, ...), old outcomes stay.

    Nothing is called yet; the next run does that, under today's settings and with fresh rounds.
    What is blocked may be asked again only after its retry time; until then it is named with that
    time, and the verb ends with 5. What a person decided about stays as decided. With --stale
    exactly those results are asked again, answers too, whose prompt, schema, parameters, providers
    or earlier answers are not today's.
    """
    from casework.checkpoints.records import OperationStatus
    from casework.errors import ConfigurationError
    from casework.runtime.run.campaigns import stopped_operations
    from casework.runtime.workspace import existing_store

    if stale and not (failed or pending or reason):
        return _ask_stale(
            invocation, cases=case or (), operation=operation, pipeline=pipeline, decided=reviewed
        )
    if stale or not (failed or pending or reason or case):
        raise ConfigurationError(
            "--stale chooses by itself" if stale else "nothing was chosen",
            code="nothing_chosen",
            where="retry",
            remedy="choose with --failed, --pending, --reason CODE and --case ID, or with --stale",
        )
    store = existing_store(invocation.project())
    statuses: tuple[OperationStatus, ...] = (OperationStatus.ERROR, OperationStatus.BLOCKED)
    if pending:
        waiting = (OperationStatus.RETRY_PENDING,)
        statuses = (*statuses, *waiting) if failed else waiting
    chosen = stopped_operations(store, statuses, reason=reason, cases=case or (), decided=reviewed)
    return tell_again(invocation, store, chosen)


def _ask_stale(
    invocation: Invocation,
    *,
    cases: Sequence[str],
    operation: str | None,
    pipeline: Path | None,
    decided: bool,
) -> ExitCode:
    """Ask again what was made from something else than the pipeline says now."""
    from casework.runtime.run.campaigns import ask_stale
    from casework.runtime.run.stale_results import StaleCheck, begun_operations
    from casework.runtime.views import phrases
    from casework.runtime.workspace import Workspace, existing_store, require_cases

    existing_store(invocation.project())
    workspace = Workspace.open(invocation.project())
    found = workspace.pipeline(pipeline)
    wanted = None if operation is None else found.operation(operation).id
    require_cases(workspace.store, cases)
    check = StaleCheck(found, workspace.store, workspace.gateway)
    chosen = list(check.of(begun_operations(workspace.store, cases), only=wanted))
    open_ones = [one for one in chosen if decided or one.operation.verdict is None]
    asked = list(ask_stale(workspace.store, open_ones))
    code = _tell(invocation, asked)
    if left := len(chosen) - len(open_ones):
        stand = f"left as decided: {phrases.plural(left, 'result')}"
        invocation.terminal.note(f"{stand}; --stale --reviewed asks again for these too")
    if asked and any(spec.needs for spec in found.operations):
        invocation.terminal.note("after that run, what read other answers may be stale in its turn")
    return code


def tell_again(
    invocation: Invocation, store: CheckpointStore, chosen: Iterable[IndexedOperation]
) -> ExitCode:
    """Ask each chosen operation again and tell what came of it."""
    from casework.runtime.run.campaigns import ask_again

    return _tell(invocation, ask_again(store, chosen))


def _tell(invocation: Invocation, asked: Iterable[Again]) -> ExitCode:
    from casework.runtime.run.campaigns import Became
    from casework.runtime.views import phrases

    terminal = invocation.terminal
    counted: Counter[Became] = Counter()
    rows: list[tuple[str, ...]] = []
    for again in asked:
        counted[again.became] += 1
        if terminal.as_json:
            terminal.json_line(_again_to_json(again))
        else:
            what = again.new_operation_id or again.became.value.replace("_", " ")
            due = phrases.local_time(again.due_at)
            rows.append((again.case_id, again.operation_id, again.reason, what, due))
    if rows:
        terminal.table(("case", "operation", "reason", "asked again as", "not before"), rows)
    told = ", ".join(f"{n:,} {became.value.replace('_', ' ')}" for became, n in counted.items())
    terminal.note(told or "nothing of that kind was found")
    if counted[Became.ASKED_AGAIN]:
        terminal.note("next: casework run")
    if counted[Became.NOT_DUE]:
        return ExitCode.UNFINISHED
    return ExitCode.LOCKED if counted[Became.LOCKED] else ExitCode.SUCCESS


def _again_to_json(again: Again) -> JSONObject:
    from casework.runtime.views import phrases

    return {
        "case_id": again.case_id,
        "operation_id": again.operation_id,
        "answer": again.became.value,
        "reason": again.reason,
        "new_operation_id": again.new_operation_id,
        "due_at": phrases.utc_time(again.due_at),
    }
