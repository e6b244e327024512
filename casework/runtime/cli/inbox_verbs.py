"""The group ``inbox``: what waits for a person, looking at it, letting it go on, receiving."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from casework.runtime.cli.again_verbs import AGAIN_JSON, ReasonOption, tell_again
from casework.runtime.cli.decision_verbs import register as register_decisions
from casework.runtime.cli.exit_codes import ExitCode
from casework.runtime.cli.verb import Invocation, verb
from casework.strict_json import JSON, JSONObject

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from casework.checkpoints.index_rows import IndexedOperation
    from casework.runner.inbox import InboxEvent


def register(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    inbox = typer.Typer(help="What waits for a person: blocked operations, and some errors.")
    app.add_typer(inbox, name="inbox")
    item = '{"case_id", "operation_id", "status", "reason", "waits_for", "verdict", ...}'
    verb(inbox, "list", json=f"JSON lines: {item}")(list_)
    verb(
        inbox,
        "show",
        json='one document: {"case_id", "operations": [{..., "output", "view", "evidence"}], '
        '"texts"}',
        ends=(ExitCode.INTEGRITY,),
    )(show)
    register_decisions(inbox)
    verb(inbox, "release", json=AGAIN_JSON, ends=(ExitCode.UNFINISHED, ExitCode.LOCKED))(release)
    verb(
        inbox,
        "receive",
        json='JSON lines: {"arrival", "file", "case_id", "generation", "waiting", "code", ...}',
        ends=(ExitCode.UNFINISHED, ExitCode.INTEGRITY, ExitCode.LOCKED),
    )(receive)


def list_(
    invocation: Invocation,
    *,
    reason: ReasonOption = None,
    reviewed: Annotated[
        bool, typer.Option("--reviewed", help="What was decided, instead of what waits.")
    ] = False,
    unreviewed: Annotated[
        bool, typer.Option("--unreviewed", help="Answers that nobody decided about, instead.")
    ] = False,
) -> ExitCode:
    """List what waits for a person, and why.

    Blocked operations come first: every round found every provider unavailable. Then errors of
    the document itself, like an empty text or a refusal, which asking again does not cure. What a
    person decided about leaves the list.
    """
    from casework.runner import inbox_items
    from casework.runtime.workspace import existing_store

    index, terminal = existing_store(invocation.project()).index, invocation.terminal
    items: Iterator[IndexedOperation]
    if reviewed:
        items = inbox_items.decided_items(index, reason=reason)
    elif unreviewed:
        items = inbox_items.unreviewed_answers(index)
    else:
        items = inbox_items.inbox_items(index, reason=reason)
    if terminal.as_json:
        for item in items:
            terminal.json_line(_item_to_json(item))
        return ExitCode.SUCCESS
    shown = list(items)
    if not shown:
        terminal.note(
            "nothing of that kind" if reviewed or unreviewed else "nothing waits for a person"
        )
        return ExitCode.SUCCESS
    terminal.table(
        ("case", "operation", "status", "reason", "rounds", "waits for", "may go on from"),
        [_item_row(item) for item in shown],
    )
    waits = map(inbox_items.waits_for, shown)
    way_on = ", casework inbox release --all" if inbox_items.Waits.EXPLICIT_RESUME in waits else ""
    terminal.note(f"next: casework inbox show CASE{way_on}")
    return ExitCode.SUCCESS


def show(
    invocation: Invocation,
    *,
    case: Annotated[str, typer.Argument(metavar="CASE")],
    operation: Annotated[str | None, typer.Argument(metavar="[OP]")] = None,
) -> ExitCode:
    """Show a case: each result with the lines of the source that it quotes, then the source.

    Each result that can be decided about has a view; approve, correct and reject take it with
    --view, and refuse if the result has changed since.
    """
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


def release(
    invocation: Invocation,
    *,
    case: Annotated[list[str] | None, typer.Argument(metavar="[CASE]...")] = None,
    reason: ReasonOption = None,
    every: Annotated[bool, typer.Option("--all", help="Every blocked operation.")] = False,
) -> ExitCode:
    """Let blocked operations go on, under a new id and with fresh rounds.

    Only after their retry time; those that are too early are named with the time, and the verb
    ends with 5. Choose cases, a reason, or --all. What a person decided about stays as decided.
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
    return tell_again(invocation, store, chosen)


def receive(
    invocation: Invocation,
    *,
    files: Annotated[list[Path] | None, typer.Argument(metavar="[FILE]...")] = None,
) -> ExitCode:
    """Take in packages: sealed ZIPs, as `casework export --format zip` writes them.

    Files are copied into runtime/inbox/ first; without files, what lies there is taken up. Each is
    judged before anything is written. Unknown cases come in unchanged, longer histories extend
    known ones, duplicates go to runtime/archive/, the rest to runtime/rejected/ with the reason.
    """
    from casework.errors import ConfigurationError
    from casework.gateway.clock import SystemClock
    from casework.runtime.receiving import arrivals, inbox_folder, inbox_processor
    from casework.runtime.workspace import open_store

    clock = SystemClock()
    store = open_store(invocation.project(), clock)
    folder = inbox_folder(store, clock.now)
    for path in files or ():
        if not path.is_file():
            raise ConfigurationError(
                "there is no such file",
                code="no_file",
                where=str(path),
                remedy="name sealed packages, or none to take up what lies in runtime/inbox/",
            )
    for path in files or ():
        folder.put(path)
    return _tell_arrivals(invocation, arrivals(inbox_processor(store, clock.now)))


def _tell_arrivals(invocation: Invocation, events: Iterable[InboxEvent]) -> ExitCode:
    from casework.runner.inbox import Arrival

    terminal, seen = invocation.terminal, set[Arrival]()
    rows: list[tuple[str, ...]] = []
    for event in events:
        seen.add(event.arrival)
        if terminal.as_json:
            terminal.json_line(_event_to_json(event))
        else:
            rows.append(_event_row(event))
    if rows:
        terminal.table(("file", "became", "case", "generation", "told"), rows)
    elif not terminal.as_json:
        terminal.note("nothing had arrived")
    if Arrival.REJECTED in seen:
        terminal.note("rejected files lie in runtime/rejected/, each with its reason")
        return ExitCode.INTEGRITY
    return ExitCode.UNFINISHED if Arrival.LEFT in seen else ExitCode.SUCCESS


def _event_to_json(event: InboxEvent) -> JSONObject:
    waiting: list[JSON] = list(event.waiting)
    return {
        "arrival": event.arrival.value,
        "file": event.file,
        "case_id": event.case_id,
        "generation": event.generation,
        "operation_id": event.operation_id,
        "new_operation_id": event.new_operation_id,
        "waiting": waiting,
        "code": event.code,
        "message": event.message,
    }


def _event_row(event: InboxEvent) -> tuple[str, ...]:
    told = event.message or ""
    if event.code is not None:
        told += f" [{event.code}]"
    if event.new_operation_id is not None:
        told = f"{event.operation_id} goes on as {event.new_operation_id}"
    if event.waiting:
        told += f"waiting for explicit resume: {', '.join(event.waiting)}"
    generation = "" if event.generation is None else str(event.generation)
    return event.file or "-", event.arrival.value, event.case_id or "", generation, told


def _item_to_json(item: IndexedOperation) -> JSONObject:
    from casework.runner.inbox_items import reason_of, waits_for
    from casework.runtime.views import phrases

    return {
        "case_id": item.case_id,
        "operation_id": item.operation_id,
        "status": item.status.value if item.status else None,
        "reason": reason_of(item) if item.error_code else None,
        "retry_at": phrases.utc_time(item.routing.retry_at),
        "rounds": item.rounds_completed,
        "waits_for": waits_for(item).value,
        "verdict": item.verdict.value if item.verdict else None,
    }


def _item_row(item: IndexedOperation) -> tuple[str, ...]:
    from casework.runner.inbox_items import reason_of, waits_for
    from casework.runtime.views import phrases

    waits = item.verdict.value if item.verdict else waits_for(item).value.replace("_", " ")
    return (
        item.case_id,
        item.operation_id,
        item.status.value if item.status else "",
        reason_of(item) if item.error_code else "",
        str(item.rounds_completed),
        waits,
        phrases.local_time(item.routing.retry_at),
    )
