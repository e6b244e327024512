"""Verbs by which a person orders the line about: ``pause``, ``resume``, ``cancel``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from casework.runtime.cli.exit_codes import ExitCode
from casework.runtime.cli.project_verbs import PipelineOption
from casework.runtime.cli.verb import Invocation, verb
from casework.strict_json import JSON

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from casework.checkpoints.store import CheckpointStore
    from casework.runtime.line.work import WorkKey


def register(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    verb(app, "pause", json='one document: {"paused", "reason"}')(pause)
    verb(app, "resume", json='one document: {"paused", "was_paused"}')(resume)
    verb(
        app,
        "cancel",
        json='one document: {"cancelled": [{"case_id", "operation_id"}]}, '
        'with --undo {"lifted": number}',
    )(cancel)


def pause(
    invocation: Invocation,
    *,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why; shown by `casework status`.")
    ] = "",
) -> ExitCode:
    """Let no run or worker of the project begin another round; running rounds end.

    Runs stay and wait; `casework resume` lets them go on. The order outlives every process.
    """
    from casework.gateway.clock import SystemClock
    from casework.runtime.line.orders import REASON_CHARACTERS_MAX, LineOrders
    from casework.runtime.workspace import existing_store

    store = existing_store(invocation.project())
    said = " ".join(reason.split())[:REASON_CHARACTERS_MAX]
    LineOrders(store.folder).pause(at=SystemClock().now(), reason=said)
    if invocation.terminal.as_json:
        invocation.terminal.document({"paused": True, "reason": said})
    else:
        invocation.terminal.text("paused: running rounds end, no other is begun")
        invocation.terminal.note("go on with `casework resume`")
    return ExitCode.SUCCESS


def resume(invocation: Invocation) -> ExitCode:
    """Let the line go on after `casework pause`; harmless where it was not paused."""
    from casework.runtime.line.orders import LineOrders
    from casework.runtime.workspace import existing_store

    store = existing_store(invocation.project())
    was_paused = LineOrders(store.folder).resume()
    if invocation.terminal.as_json:
        invocation.terminal.document({"paused": False, "was_paused": was_paused})
    else:
        invocation.terminal.text("resumed" if was_paused else "was not paused")
    return ExitCode.SUCCESS


def cancel(
    invocation: Invocation,
    case: Annotated[str | None, typer.Argument(metavar="CASE", help="Of this case.")] = None,
    operation: Annotated[
        str | None, typer.Argument(metavar="OP", help="Only this operation; else all of the case.")
    ] = None,
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="Of all cases that are there now.")
    ] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Lift what was cancelled.")] = False,
    pipeline: PipelineOption = None,
) -> ExitCode:
    """Let operations that are not begun, or wait for their next round, not be begun any more.

    A round that runs ends and is kept. What is cancelled stays so, whatever runs, until --undo;
    a run leaves it out and counts it as waiting.
    """
    from casework.errors import ConfigurationError
    from casework.gateway.clock import SystemClock
    from casework.runtime.line.orders import LineOrders
    from casework.runtime.workspace import existing_store, require_cases

    if (case is None) is not everything:
        raise ConfigurationError("name a case or give --all", code="nothing_chosen", where="cancel")
    store = existing_store(invocation.project())
    orders = LineOrders(store.folder)
    if case is not None:
        require_cases(store, [case])
    if undo:
        return _undo(invocation, orders.lift(_lifted(orders.cancelled(), case, operation)))
    ids = _pipeline_ids(invocation, pipeline)
    cases = [case] if case is not None else list(store.list())
    chosen = [
        (case_id, operation_id)
        for case_id in cases
        for operation_id in _unsettled(store, case_id, ids)
        if operation in (None, operation_id)
    ]
    if operation is not None and not chosen:
        raise ConfigurationError(
            f"there is no operation {operation!r} that could still be begun",
            code="nothing_chosen",
            where=case,
            remedy="see `casework inspect CASE`",
        )
    fresh = [pair for pair in chosen if pair not in orders.cancelled()]
    if fresh:
        orders.cancel(fresh, at=SystemClock().now())
    _tell_cancelled(invocation, fresh)
    return ExitCode.SUCCESS


def _lifted(
    cancelled: frozenset[WorkKey], case: str | None, operation: str | None
) -> list[WorkKey] | None:
    if case is None:
        return None
    return [pair for pair in cancelled if pair[0] == case and operation in (None, pair[1])]


def _pipeline_ids(invocation: Invocation, pipeline: Path | None) -> tuple[str, ...]:
    """Return the pipeline's operations, which a case that never ran is to get."""
    from casework.errors import ConfigurationError
    from casework.runner.pipeline import Pipeline

    try:
        found = Pipeline.load(invocation.project().pipeline_file(pipeline))
    except ConfigurationError:
        if pipeline is not None:
            raise
        return ()
    return tuple(spec.id for spec in found.operations)


def _unsettled(store: CheckpointStore, case_id: str, ids: tuple[str, ...]) -> Iterator[str]:
    """Yield the operations of a case that may still be begun."""
    from casework.checkpoints.records import OperationStatus

    known = {operation.operation_id: operation for operation in store.index.operations(case_id)}
    for operation_id in dict.fromkeys((*known, *ids)):
        operation = known.get(operation_id)
        if operation is None or operation.status in (None, OperationStatus.RETRY_PENDING):
            yield operation_id


def _tell_cancelled(invocation: Invocation, pairs: list[WorkKey]) -> None:
    from casework.runtime.views import phrases

    terminal = invocation.terminal
    if terminal.as_json:
        told: list[JSON] = [
            {"case_id": case_id, "operation_id": operation_id} for case_id, operation_id in pairs
        ]
        terminal.document({"cancelled": told})
        return
    terminal.text(f"{phrases.plural(len(pairs), 'operation')} cancelled")
    if pairs:
        terminal.note("begin them after all with `casework cancel --undo`, CASE or --all beside it")


def _undo(invocation: Invocation, lifted: int) -> ExitCode:
    from casework.runtime.views import phrases

    if invocation.terminal.as_json:
        invocation.terminal.document({"lifted": lifted})
    else:
        invocation.terminal.text(f"{phrases.plural(lifted, 'operation')} may be begun after all")
    return ExitCode.SUCCESS
