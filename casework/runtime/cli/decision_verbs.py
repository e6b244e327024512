"""Verbs with which a person decides: ``inbox approve``, ``correct`` and ``reject``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from casework.runtime.cli.exit_codes import ExitCode
from casework.runtime.cli.verb import Invocation, verb
from casework.strict_json import JSON

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from casework.checkpoints.reviews import Correction
    from casework.runner.reviews import Decided, Decision
    from casework.runtime.project import Project

_Case = Annotated[str, typer.Argument(metavar="CASE")]
_Operation = Annotated[str | None, typer.Argument(metavar="[OP]")]
_View = Annotated[
    str | None,
    typer.Option("--view", metavar="TOKEN", help="What you saw; refused if it changed since."),
]
_Actor = Annotated[
    str | None, typer.Option("--actor", metavar="NAME", help="Who decides; your login name.")
]
_Reason = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why.")]

_DECIDED_JSON = (
    'one document: {"case_id", "operation_id", "verdict", "number", "view", "output", "next", ...}'
)


def register(inbox: typer.Typer) -> None:
    """Add the verbs that decide about one result."""
    ends = (ExitCode.INTEGRITY, ExitCode.LOCKED)
    verb(inbox, "approve", json=_DECIDED_JSON, ends=ends)(approve)
    verb(inbox, "correct", json=_DECIDED_JSON, ends=ends)(correct)
    verb(inbox, "reject", json=_DECIDED_JSON, ends=ends)(reject)


def approve(
    invocation: Invocation,
    *,
    case: _Case,
    operation: _Operation = None,
    view: _View = None,
    actor: _Actor = None,
    reason: _Reason = None,
) -> ExitCode:
    """Approve a result: the answer stands as it is, corrections included.

    Without --view the decision is made about what is there now, and the view is named. Ends with 7
    if the result is not what --view names any more, or if somebody works on the case.
    """
    from casework.checkpoints.reviews import ReviewVerdict
    from casework.runner.reviews import Decision
    from casework.runtime.login import login_name

    decision = Decision(ReviewVerdict.APPROVED, actor or login_name(), reason)
    return _decide(invocation, (case, operation), decision, view=view)


def correct(
    invocation: Invocation,
    *,
    case: _Case,
    operation: _Operation = None,
    values: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="/POINTER=JSON", help="This value there; may be repeated."),
    ] = None,
    texts: Annotated[
        list[str] | None,
        typer.Option("--set-text", metavar="/POINTER=TEXT", help="This text; may be repeated."),
    ] = None,
    view: _View = None,
    actor: _Actor = None,
    reason: _Reason = None,
) -> ExitCode:
    """Correct single values of a result, or give the answer of a failed operation by hand.

    The result must satisfy the operation's output schema, or nothing is decided. A pointer leads
    to a member or item; the empty one (--set '={...}') stands for the whole answer, and /list/-
    adds an item. --set is applied before --set-text. The model's own answer is never overwritten.
    """
    from casework.checkpoints.reviews import ReviewVerdict
    from casework.runner.reviews import Decision
    from casework.runtime.login import login_name

    corrections = tuple(_corrections(values or (), texts or ()))
    decision = Decision(ReviewVerdict.CORRECTED, actor or login_name(), reason, corrections)
    return _decide(invocation, (case, operation), decision, view=view)


def reject(
    invocation: Invocation,
    *,
    case: _Case,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why.")],
    operation: _Operation = None,
    view: _View = None,
    actor: _Actor = None,
) -> ExitCode:
    """Reject a result, or close an item that has none: no answer stands, and the reason is kept."""
    from casework.checkpoints.reviews import ReviewVerdict
    from casework.runner.reviews import Decision
    from casework.runtime.login import login_name

    decision = Decision(ReviewVerdict.REJECTED, actor or login_name(), reason)
    return _decide(invocation, (case, operation), decision, view=view)


def _decide(
    invocation: Invocation,
    names: tuple[str, str | None],
    decision: Decision,
    *,
    view: str | None,
) -> ExitCode:
    """Commit a decision, tell it, and name the next item."""
    from casework.gateway.clock import SystemClock
    from casework.runner.inbox_items import inbox_items
    from casework.runner.reviews import Reviewer
    from casework.runtime.views.reviewable import reviewable_operation
    from casework.runtime.workspace import existing_store, require_cases

    project, terminal = invocation.project(), invocation.terminal
    store = existing_store(project)
    case_id, operation_id = names
    require_cases(store, [case_id])
    state = reviewable_operation(store, case_id, operation_id)
    reviewer = Reviewer(store, now=SystemClock().now, engine=_engine(project))
    decided = reviewer.decide(case_id, state.ophash, decision, view=view)
    following = next(inbox_items(store.index), None)
    after = None if following is None else (following.case_id, following.operation_id)
    if terminal.as_json:
        terminal.document(_decided_to_json(decided, after))
        return ExitCode.SUCCESS
    review = decided.review
    terminal.text(
        f"{case_id} {review.operation_id}: {review.verdict.value} by {review.actor}, review "
        f"{review.number}, view {decided.view}, generation {decided.head.generation}"
    )
    show = "nothing waits for a person" if after is None else f"casework inbox show {_typed(after)}"
    terminal.note(f"next: {show}")
    return ExitCode.SUCCESS


def _typed(words: Iterable[str]) -> str:
    import shlex

    return shlex.join(words)


def _decided_to_json(decided: Decided, after: tuple[str, str] | None) -> dict[str, JSON]:
    from casework.runtime.views import phrases

    review = decided.review
    following: JSON = None
    if after is not None:
        following = {"case_id": after[0], "operation_id": after[1]}
    return {
        "case_id": decided.head.case_id,
        "operation_id": review.operation_id,
        "verdict": review.verdict.value,
        "number": review.number,
        "actor": review.actor,
        "decided_at": phrases.utc_time(review.decided_at),
        "view": decided.view,
        "generation": decided.head.generation,
        "output": review.output if review.stands else None,
        "output_sha256": review.output_sha256,
        "next": following,
    }


def _engine(project: Project) -> str:
    """Return the project's validating engine; the usual one where settings cannot be read."""
    from casework.config.gateway_config import GatewayConfig
    from casework.errors import ConfigurationError
    from casework.gateway.validation import ENGINES

    try:
        return GatewayConfig.load(project.config_file).validation.engine
    except ConfigurationError:
        return ENGINES[0]


def _corrections(values: Iterable[str], texts: Iterable[str]) -> Iterator[Correction]:
    """Read what was typed; each pointer may be named once."""
    from casework.checkpoints.reviews import Correction
    from casework.errors import ConfigurationError
    from casework.strict_json import InvalidJSON, parse

    seen: set[str] = set()
    for is_text, typed in (*((False, v) for v in values), *((True, t) for t in texts)):
        pointer, equals, value = typed.partition("=")
        problem = None
        if not equals or pointer in seen or (pointer and not pointer.startswith("/")):
            problem = "each value is written /POINTER=VALUE, and each pointer once"
        seen.add(pointer)
        result: JSON = value
        if problem is None and not is_text:
            try:
                result = parse(value)
            except InvalidJSON:
                problem = "the value is not JSON; a text is set with --set-text"
        if problem is not None:
            raise ConfigurationError(
                problem,
                code="bad_correction",
                where="inbox correct",
                remedy="for example --set /count=3 or --set-text /name=Ada",
            )
        yield Correction(pointer, result)
