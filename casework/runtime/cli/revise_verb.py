"""The verb ``revise``: a case is asked anew from the beginning, and what was found before stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from casework.runtime.cli.exit_codes import ExitCode
from casework.runtime.cli.verb import Invocation, verb

if TYPE_CHECKING:
    from collections.abc import Iterable

    from casework.checkpoints.store import CheckpointStore
    from casework.runner.revisions import RevisionReason


def register(app: typer.Typer) -> None:
    """Add the verb of this file."""
    verb(
        app,
        "revise",
        json='JSON lines: {"case_id", "answer", "analysis_revision", "generation"}',
        ends=(ExitCode.INTEGRITY, ExitCode.LOCKED),
    )(revise)


def revise(
    invocation: Invocation,
    *,
    case: Annotated[list[str] | None, typer.Argument(metavar="[CASE]...")] = None,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it stays.")],
    every: Annotated[
        bool, typer.Option("--all", help="Every case; needs --yes, since all of it is paid anew.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Really every case.")] = False,
    actor: Annotated[
        str | None,
        typer.Option("--actor", metavar="NAME", help="Who; your login name by default."),
    ] = None,
) -> ExitCode:
    """Raise the analysis revision of cases: every operation is asked anew by the next run.

    For a decision about the case itself, like a new reading of the rules; a changed prompt or model
    is what retry --stale is for. Results of the revision before are history: nothing of them is
    pending or blocked any more, and inspect, audit and export --campaigns still show them.
    """
    from casework.checkpoints.index_pages import pipeline_cases
    from casework.errors import ConfigurationError
    from casework.runner.revisions import RevisionReason
    from casework.runtime.login import login_name
    from casework.runtime.workspace import existing_store, require_cases

    chosen = list(dict.fromkeys(case or ()))
    if bool(chosen) == every or (every and not yes):
        raise ConfigurationError(
            "every case would be asked anew" if every and not chosen else "nothing was chosen",
            code="not_confirmed" if every and not chosen else "nothing_chosen",
            where="revise",
            remedy="name cases, or say --all --yes",
        )
    store = existing_store(invocation.project())
    require_cases(store, chosen)
    cases = pipeline_cases(store) if every else chosen
    return _raise_each(
        invocation, store, cases=cases, why=RevisionReason(reason, actor or login_name())
    )


def _raise_each(
    invocation: Invocation, store: CheckpointStore, *, cases: Iterable[str], why: RevisionReason
) -> ExitCode:
    """Raise the revision of each case, leave those that others work on, and tell."""
    from casework.errors import LockBusy
    from casework.gateway.clock import SystemClock
    from casework.runner.revisions import raise_revision

    terminal, locked, revised = invocation.terminal, 0, 0
    for case_id in cases:
        revision: int | None = None
        generation: int | None = None
        try:
            head = raise_revision(store, case_id, why, now=SystemClock().now)
        except LockBusy:
            locked += 1
        else:
            revised += 1
            revision, generation = head.analysis_revision, head.generation
        if terminal.as_json:
            terminal.json_line(
                {
                    "case_id": case_id,
                    "answer": "revised" if revision else "locked",
                    "analysis_revision": revision,
                    "generation": generation,
                }
            )
        else:
            told = f"revision {revision}" if revision else "another worker holds it"
            terminal.text(f"{case_id}: {told}")
    if revised:
        terminal.note("next: casework run")
    return ExitCode.LOCKED if locked else ExitCode.SUCCESS
