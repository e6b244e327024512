"""Which commits are possible after which: the operation table of the design as pure functions.

The store refuses an impossible commit before it writes, and ``verify`` finds one that was written
by other hands, both with the same sentences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Final, assert_never

from casework.checkpoints.fold import PackageHead
from casework.checkpoints.names import outcome_path, request_path, review_path
from casework.checkpoints.records import (
    LLM_UNAVAILABLE,
    CommitKind,
    FileEntry,
    OperationState,
    OperationStatus,
    PackageStatus,
)
from casework.checkpoints.reviews import ReviewMark, ReviewVerdict
from casework.checkpoints.tombstone import Tombstone


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What a commit does, without its place in the chain."""

    kind: CommitKind
    at: datetime
    analysis_revision: int
    phase: str
    operations: Mapping[str, OperationState]
    files: tuple[FileEntry, ...]
    forgotten: Tombstone | None = None


def objection(head: PackageHead, step: Step) -> str | None:
    """Return why a commit cannot follow a head, or None if it can."""
    return next(chain(_frame_objections(head, step), _kind_objections(head, step)), None)


def _frame_objections(head: PackageHead, step: Step) -> Iterator[str]:
    if (step.kind is CommitKind.CREATED) != (head.generation == 0):
        yield "a package is created by its first commit and by no other"
    if head.status is PackageStatus.FORGOTTEN:
        yield "nothing follows once a case was forgotten"
    if (step.kind is CommitKind.FORGOTTEN) != (step.forgotten is not None):
        yield "a commit that forgets says what was removed, and no other does"
    raised = step.analysis_revision - head.analysis_revision
    if raised and (step.kind is not CommitKind.REVISION_RAISED or raised < 0):
        yield "the analysis revision changes only upwards and only when it is raised"
    if step.phase != head.phase and step.kind not in _PHASE_CHANGING:
        yield "the phase changes only where a commit says so"


def _kind_objections(head: PackageHead, step: Step) -> Iterator[str]:
    match step.kind:
        case CommitKind.LLM_ROUND:
            yield from _round_objections(head, step)
        case CommitKind.RESUMED:
            yield from _resumption_objections(head, step)
        case CommitKind.REVIEWED:
            yield from _review_objections(head, step)
        case CommitKind.FORGOTTEN:
            if step.operations or step.files:
                yield "a commit that forgets adds and changes nothing"
        case (
            CommitKind.CREATED
            | CommitKind.RECEIVED
            | CommitKind.PHASE_CHANGED
            | CommitKind.REVISION_RAISED
        ):
            if step.operations:
                yield "this kind of commit changes no operation"
        case _:
            assert_never(step.kind)


_PHASE_CHANGING: Final = frozenset(
    {CommitKind.CREATED, CommitKind.PHASE_CHANGED, CommitKind.REVISION_RAISED}
)


def _round_objections(head: PackageHead, step: Step) -> Iterator[str]:
    if len(step.operations) != 1:
        yield "a round belongs to exactly one operation"
        return
    ((ophash, after),) = step.operations.items()
    before = head.operations.get(ophash)
    if ophash != after.ophash:
        yield "an operation stands under a digest that is not its own"
    if after.analysis_revision != step.analysis_revision:
        yield "a round belongs to the current analysis revision"
    if after.rounds_completed != (before.rounds_completed if before else 0) + 1:
        yield "one round counts one"
    if None in _fingerprints(after):
        yield "a round leaves both fingerprints"
    if before is not None:
        yield from _continuation_objections(before, after)
    elif after.resumed_from is not None:
        yield "an operation that was not resumed claims to be"
    yield from _artifact_objections(before, after, step.files)
    yield from _outcome_objections(after)


def _continuation_objections(before: OperationState, after: OperationState) -> Iterator[str]:
    if before.status is not OperationStatus.RETRY_PENDING:
        yield f"nothing runs after {before.status.value}"
    if before.resumed_as is not None:
        yield "nothing runs under an id that was left for another"
    if _identity(before) != _identity(after):
        yield "what an operation was begun with never changes"
    if before.request_fingerprint and _frozen(before) != _frozen(after):
        yield "the fingerprints and the budget of an operation never change"


def _artifact_objections(
    before: OperationState | None, after: OperationState, files: tuple[FileEntry, ...]
) -> Iterator[str]:
    earlier = before.artifacts if before else ()
    added = after.artifacts[len(earlier) :]
    wanted = [outcome_path(after.ophash, after.rounds_completed)]
    if not earlier:
        wanted.insert(0, request_path(after.ophash))
    if after.artifacts[: len(earlier)] != earlier:
        yield "earlier files of an operation never change"
    if [entry.path for entry in added] != wanted:
        yield "a round adds its outcome, and the first round the request too"
    if set(added) != set(files):
        yield "the files of a round are those that its operation names"


def _outcome_objections(after: OperationState) -> Iterator[str]:
    if after.resumed_as is not None:
        yield "a round cannot resume an operation"
    if after.last_round_at is None:
        yield "a round leaves the time of its end"
    if after.rounds_completed > after.rounds_max:
        yield "more rounds than the budget"
    has_error, has_due = _MARKS[after.status]
    if (after.error is not None, after.due_at is not None) != (has_error, has_due):
        yield f"error and due time do not fit {after.status.value}"
    if after.review is not None:
        yield "a round is no review"
    exhausted = after.rounds_completed == after.rounds_max
    if after.status is OperationStatus.RETRY_PENDING and exhausted:
        yield "no round is left, so the operation must be blocked"
    if after.status is OperationStatus.BLOCKED:
        yield from _blocking_objections(after, exhausted=exhausted)


def _blocking_objections(after: OperationState, *, exhausted: bool) -> Iterator[str]:
    """Say what is wrong with a blocked state; only an outage may never be retried by itself."""
    routing = after.routing
    if routing.destination is None or routing.reason is None:
        yield "a blocked operation says where it waits and why"
    if after.error is None or after.error.code != routing.reason:
        yield "a blocked operation is routed by its error"
    if routing.reason == LLM_UNAVAILABLE:
        if not exhausted:
            yield "an operation is blocked by its last round only"
        if routing.automatic_retry is not False:
            yield "a blocked operation is not retried by itself while providers are unavailable"


_MARKS: Final = {
    OperationStatus.SUCCESS: (False, False),
    OperationStatus.ERROR: (True, False),
    OperationStatus.RETRY_PENDING: (False, True),
    OperationStatus.BLOCKED: (True, True),
}
"""Whether a state carries an error and a due time."""


def _resumption_objections(head: PackageHead, step: Step) -> Iterator[str]:
    old = [state for name, state in step.operations.items() if name in head.operations]
    new = [state for name, state in step.operations.items() if name not in head.operations]
    if step.files:
        yield "a resumption adds no files"
    if len(old) != 1 or len(new) != 1:
        yield "a resumption links one operation to one new one"
        return
    (after,), (successor,) = old, new
    before = head.operations[after.ophash]
    if not may_live_on(before):
        yield f"an operation that is {before.status.value} cannot be resumed"
    if before.resumed_as is not None:
        yield "the operation was resumed before"
    if before.status is OperationStatus.BLOCKED and before.due_at and step.at < before.due_at:
        yield "the operation was resumed before its time"
    if after != replace(before, resumed_as=successor.operation_id):
        yield "a resumption leaves the old operation as it was, but for the link"
    if successor != successor_of(before, successor.operation_id, step.at):
        yield "the new operation does not begin as the old one's successor"


def _review_objections(head: PackageHead, step: Step) -> Iterator[str]:
    if len(step.operations) != 1:
        yield "a review is of exactly one operation"
        return
    ((ophash, after),) = step.operations.items()
    before, mark = head.operations.get(ophash), after.review
    if before is None or mark is None:
        yield "a review decides about an operation that is there"
        return
    if after != replace(before, review=mark):
        yield "a review leaves the operation as it was, but for the decision"
    if not may_be_reviewed(before, step.analysis_revision):
        yield "a review is of a finished operation that does not live on under another id"
    if mark.number != (before.review.number if before.review else 0) + 1:
        yield "one review counts one"
    if step.files != (FileEntry(review_path(ophash, mark.number), mark.sha256, mark.size),):
        yield "a review adds its own file and no other"
    yield from _verdict_objections(before, mark)


def _verdict_objections(before: OperationState, mark: ReviewMark) -> Iterator[str]:
    """Say what is wrong with a verdict; ``verify`` also reads the answers."""
    answered = before.status is OperationStatus.SUCCESS
    if before.review is not None:
        answered = before.review.output_sha256 is not None
    if mark.verdict is ReviewVerdict.APPROVED and not answered:
        yield "there is no answer to approve"
    if mark.verdict is ReviewVerdict.CORRECTED:
        answered = True
    elif before.review is not None and mark.output_sha256 != before.review.output_sha256:
        yield "only a correction changes the answer"
    if (mark.output_sha256 is not None) != answered:
        yield "the digest of the answer does not fit the verdict"


def may_be_reviewed(state: OperationState, analysis_revision: int) -> bool:
    """Tell whether a person may decide about an operation: it is current, and no round will come.

    Args:
        state: The operation.
        analysis_revision: That of its package.
    """
    return (
        state.status is not OperationStatus.RETRY_PENDING
        and state.resumed_as is None
        and state.analysis_revision == analysis_revision
    )


def may_live_on(state: OperationState) -> bool:
    """Tell whether an operation may be begun anew under another id.

    One that waits for its next round may, so that changed settings do not leave it without a way
    on; one of which no round was run has nothing to leave behind. One that succeeded may too, where
    what is asked has changed since; see :func:`has_answer`.
    """
    return state.rounds_completed > 0


def has_answer(state: OperationState) -> bool:
    """Tell whether an operation succeeded and nobody rejected its answer.

    It is begun anew only for somebody who says that an answer may be left behind.
    """
    rejected = state.review is not None and state.review.verdict is ReviewVerdict.REJECTED
    return state.status is OperationStatus.SUCCESS and not rejected


def successor_of(state: OperationState, operation_id: str, at: datetime) -> OperationState:
    """Return the operation under which another one lives on, due at once."""
    return OperationState(
        operation_id=operation_id,
        analysis_revision=state.analysis_revision,
        status=OperationStatus.RETRY_PENDING,
        phase=state.phase,
        rounds_completed=0,
        rounds_max=state.rounds_max,
        retry_delay_seconds=state.retry_delay_seconds,
        blocked_retry_seconds=state.blocked_retry_seconds,
        due_at=at,
        resumed_from=state.operation_id,
    )


def _identity(state: OperationState) -> tuple[object, ...]:
    return state.operation_id, state.analysis_revision, state.resumed_from


def _frozen(state: OperationState) -> tuple[object, ...]:
    """Return what the first round freezes; a resumption alone freezes nothing."""
    return (
        state.rounds_max,
        state.retry_delay_seconds,
        state.blocked_retry_seconds,
        *_fingerprints(state),
    )


def _fingerprints(state: OperationState) -> tuple[str | None, str | None]:
    return state.request_fingerprint, state.config_fingerprint
