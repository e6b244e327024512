"""The verb ``forget``: a case's content is removed for good, and a tombstone stays."""

from __future__ import annotations

from typing import Annotated

import typer

from casework.runtime.cli.exit_codes import ExitCode
from casework.runtime.cli.verb import Invocation, verb


def register(app: typer.Typer) -> None:
    """Add the verb of this file."""
    verb(
        app,
        "forget",
        json='one document: {"case_id", "generation", "set_aside_removed"}',
        ends=(ExitCode.INTEGRITY, ExitCode.LOCKED),
    )(forget)


def forget(
    invocation: Invocation,
    *,
    case: Annotated[str, typer.Argument(metavar="CASE")],
    yes: Annotated[bool, typer.Option("--yes", help="Really; it cannot be undone.")] = False,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Why; it stays.")
    ] = None,
    actor: Annotated[
        str | None,
        typer.Option("--actor", metavar="NAME", help="Who; your login name by default."),
    ] = None,
) -> ExitCode:
    """Remove a case's content for good: inputs, products, requests, answers and reviews.

    Its records stay, with a tombstone that says who, when, why and which digests; `casework verify`
    accepts that. Copies that were exported, backups and what providers keep are not reached. Forget
    again to finish what a crash cut off.
    """
    from casework.errors import ConfigurationError
    from casework.gateway.clock import SystemClock
    from casework.runtime.login import login_name
    from casework.runtime.receiving import inbox_folder
    from casework.runtime.views import phrases
    from casework.runtime.workspace import existing_store, require_cases

    store, terminal = existing_store(invocation.project()), invocation.terminal
    require_cases(store, [case])
    if not yes:
        raise ConfigurationError(
            "the case's content would be removed for good; nothing was done",
            code="not_confirmed",
            where=case,
            remedy="say so with --yes",
        )
    head = store.forget(case, reason=reason, actor=actor or login_name())
    aside = inbox_folder(store, SystemClock().now).forget(case)
    if terminal.as_json:
        terminal.document(
            {"case_id": case, "generation": head.generation, "set_aside_removed": aside}
        )
        return ExitCode.SUCCESS
    terminal.text(f"{case}: forgotten, generation {head.generation} is its tombstone")
    if aside:
        terminal.text(f"{case}: removed with {phrases.plural(aside, 'file')} that had arrived")
    terminal.note("not reached: exported copies, backups, what providers keep")
    return ExitCode.SUCCESS
