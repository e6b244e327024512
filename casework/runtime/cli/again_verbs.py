"""Verbs that ask again: ``retry`` and ``inbox``."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Annotated

import typer

from casework.runtime.cli.exit_codes import ExitCode
from casework.runtime.cli.run_verbs import CaseOption
from casework.runtime.cli.verb import Invocation, verb
from casework.strict_json import JSONObject

if TYPE_CHECKING:
    from collections.abc import Iterable

    from casework.checkpoints.index_rows import IndexedOperation
    from casework.checkpoints.store import CheckpointStore
    from casework.runtime.run.campaigns import Again

ReasonOption = Annotated[
    str | None,
    typer.Option("--reason", metavar="CODE", help="Only those with this code."),
]

_AGAIN_JSON = (
    'JSON lines: {"case_id", "operation_id", "answer", "reason", "new_operation_id", "due_at"}'
)


def register(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    ends = (ExitCode.UNFINISHED, ExitCode.LOCKED)
    verb(app, "retry", json=_AGAIN_JSON, ends=ends)(retry)
    inbox = typer.Typer(help="What waits for a person: blocked operations, and some errors.")
    app.add_typer(inbox, name="inbox")
    item = '{"case_id", "operation_id", "status", "reason", "retry_at", "rounds"}'
    verb(inbox, "list", json=f"JSON lines: {item}")(list_)
    verb(
        inbox,
        "show",
        json='one document: {"case_id", "operations": [{..., "output", "evidence"}], "text"}',
        ends=(ExitCode.INTEGRITY,),
    )(show)
    verb(inbox, "release", json=_AGAIN_JSON, ends=ends)(release)


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
) -> ExitCode:
    """Ask again what failed: under a new id (extract@2, extract@3, ...), old outcomes stay.

    Nothing is called yet; the next run does that, under today's settings and with fresh rounds.
    What is blocked may be asked again only after its retry time; until then it is named with that
    time, and the verb ends with 5.
    """
    from casework.checkpoints.records import OperationStatus
    from casework.errors import ConfigurationError
    from casework.runtime.run.campaigns import stopped_operations
    from casework.runtime.workspace import existing_store

    if not (failed or pending or reason or case):
        raise ConfigurationError(
            "nothing was chosen",
            code="nothing_chosen",
            where="retry",
            remedy="choose with --failed, --pending, --reason CODE or --case ID",
        )
    store = existing_store(invocation.project())
    statuses: tuple[OperationStatus, ...] = (OperationStatus.ERROR, OperationStatus.BLOCKED)
    if pending:
        waiting = (OperationStatus.RETRY_PENDING,)
        statuses = (*statuses, *waiting) if failed else waiting
    chosen = stopped_operations(store, statuses, reason=reason, cases=case or ())
    return _ask_again(invocation, store, chosen)


def release(
    invocation: Invocation,
    *,
    case: Annotated[list[str] | None, typer.Argument(metavar="[CASE]...")] = None,
    reason: ReasonOption = None,
    every: Annotated[bool, typer.Option("--all", help="Every blocked operation.")] = False,
) -> ExitCode:
    """Let blocked operations go on, under a new id and with fresh rounds.

    Only after their retry time; those that are too early are named with the time, and the verb
    ends with 5. Choose cases, a reason, or --all.
    """
    from casework.checkpoints.records import OperationStatus
    from casework.errors import ConfigurationError
    from casework.runtime.run.campaigns import stopped_operations
    from casework.runtime.workspace import existing_store

    if not case and reason is None and not every:
        raise ConfigurationError(
            "nothing was chosen",
            code="nothing_chosen",
            where="inbox release",
            remedy="name cases, a --reason CODE, or --all",
        )
    store = existing_store(invocation.project())
    chosen = stopped_operations(store, (OperationStatus.BLOCKED,), reason=reason, cases=case or ())
    return _ask_again(invocation, store, chosen)


def list_(invocation: Invocation, *, reason: ReasonOption = None) -> ExitCode:
    """List what waits for a person, and why.

    Blocked operations come first: every round found every provider unavailable. Then errors of
    the document itself, like an empty text or a refusal, which asking again does not cure.
    """
    from casework.checkpoints.records import OperationStatus
    from casework.runtime.views.inbox import inbox_items
    from casework.runtime.workspace import existing_store

    store, terminal = existing_store(invocation.project()), invocation.terminal
    items = inbox_items(store.index, reason=reason)
    if terminal.as_json:
        for item in items:
            terminal.json_line(_item_to_json(item))
        return ExitCode.SUCCESS
    shown = list(items)
    rows = [_item_row(item) for item in shown]
    if not rows:
        terminal.note("nothing waits for a person")
        return ExitCode.SUCCESS
    terminal.table(("case", "operation", "status", "reason", "rounds", "may go on from"), rows)
    blocked = any(item.status is OperationStatus.BLOCKED for item in shown)
    way_on = ", casework inbox release --all" if blocked else ""
    terminal.note(f"next: casework inbox show CASE{way_on}")
    return ExitCode.SUCCESS


def show(
    invocation: Invocation,
    *,
    case: Annotated[str, typer.Argument(metavar="CASE")],
    operation: Annotated[str | None, typer.Argument(metavar="[OP]")] = None,
) -> ExitCode:
    """Show a case: each result with the lines of the source that it quotes, then the source."""
    from casework.runtime.views.evidence import case_evidence
    from casework.runtime.workspace import existing_store, require_cases

    store, terminal = existing_store(invocation.project()), invocation.terminal
    require_cases(store, [case])
    found = case_evidence(store, case, operation)
    if terminal.as_json:
        terminal.document(found.to_json())
    else:
        for line in found.lines():
            terminal.text(line)
    return ExitCode.SUCCESS


def _ask_again(
    invocation: Invocation, store: CheckpointStore, chosen: Iterable[IndexedOperation]
) -> ExitCode:
    """Ask each chosen operation again and tell what came of it."""
    from casework.runtime.run.campaigns import Answer, ask_again
    from casework.runtime.views import phrases

    terminal = invocation.terminal
    answers: Counter[Answer] = Counter()
    rows: list[tuple[str, ...]] = []
    for again in ask_again(store, chosen):
        answers[again.answer] += 1
        if terminal.as_json:
            terminal.json_line(_again_to_json(again))
        else:
            what = again.new_operation_id or again.answer.value.replace("_", " ")
            due = phrases.local_time(again.due_at)
            rows.append((again.case_id, again.operation_id, again.reason, what, due))
    if rows:
        terminal.table(("case", "operation", "reason", "asked again as", "not before"), rows)
    told = ", ".join(f"{n:,} {answer.value.replace('_', ' ')}" for answer, n in answers.items())
    terminal.note(told or "nothing of that kind was found")
    if answers[Answer.ASKED_AGAIN]:
        terminal.note("next: casework run")
    if answers[Answer.NOT_DUE]:
        return ExitCode.UNFINISHED
    return ExitCode.LOCKED if answers[Answer.LOCKED] else ExitCode.SUCCESS


def _again_to_json(again: Again) -> JSONObject:
    from casework.runtime.views import phrases

    return {
        "case_id": again.case_id,
        "operation_id": again.operation_id,
        "answer": again.answer.value,
        "reason": again.reason,
        "new_operation_id": again.new_operation_id,
        "due_at": phrases.utc_time(again.due_at),
    }


def _item_to_json(item: IndexedOperation) -> JSONObject:
    from casework.runtime.views import phrases
    from casework.runtime.views.inbox import reason_of

    return {
        "case_id": item.case_id,
        "operation_id": item.operation_id,
        "status": item.status.value if item.status else None,
        "reason": reason_of(item),
        "retry_at": phrases.utc_time(item.routing.retry_at),
        "rounds": item.rounds_completed,
    }


def _item_row(item: IndexedOperation) -> tuple[str, ...]:
    from casework.runtime.views import phrases
    from casework.runtime.views.inbox import reason_of

    return (
        item.case_id,
        item.operation_id,
        item.status.value if item.status else "",
        reason_of(item),
        str(item.rounds_completed),
        phrases.local_time(item.routing.retry_at),
    )
