"""What people decide about results, and what therefore stands: for everybody downstream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from casework.checkpoints.change import Change
from casework.checkpoints.fold import PackageHead
from casework.checkpoints.names import outcome_path, request_path, review_path
from casework.checkpoints.package_files import refuse_forgotten
from casework.checkpoints.records import CommitKind, OperationState, OperationStatus
from casework.checkpoints.reviews import Correction, Review, ReviewMark, ReviewVerdict, corrected
from casework.checkpoints.store import CheckpointStore
from casework.checkpoints.transitions import may_be_reviewed
from casework.errors import (
    FormatError,
    IllegalTransition,
    InvalidRequest,
    PackageNotFound,
    StaleGeneration,
)
from casework.gateway.validation import ENGINES, compile_schema
from casework.runner.outcome_files import read_outcome
from casework.strict_json import (
    JSON,
    InvalidJSON,
    JSONObject,
    canonical,
    digest,
    is_unicode,
    parse,
    sha256_hex,
)

REVIEW_BYTES_MAX: Final = 4 << 20
CORRECTIONS_MAX: Final = 1000
TEXT_MAX: Final = 4000
"""Longest reason and actor, in characters."""

VIEW_DIGITS: Final = 12


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person decides, and on which grounds."""

    verdict: ReviewVerdict
    actor: str
    reason: str | None = None
    corrections: tuple[Correction, ...] = ()


@dataclass(frozen=True, slots=True)
class Decided:
    """A decision that was committed."""

    head: PackageHead
    review: Review
    view: str
    """The view that it was made against."""


def effective_output(
    store: CheckpointStore, case_id: str, ophash: str
) -> tuple[JSON, Review | None]:
    """Return the answer that stands for an operation, and the review that made it stand.

    An answer that nobody reviewed is the outcome's; without any answer, or after a rejection, it is
    None.

    Raises:
        PackageNotFound: There is no such operation, or the case was forgotten.
        CheckpointError: The package cannot be read.
    """
    state = store.open(case_id).operations.get(ophash)
    if state is None:
        raise PackageNotFound("the case has no such operation", code="operation_not_found")
    return standing_answer(state, lambda path: store.read_file(case_id, path))


def standing_answer(
    state: OperationState, read: Callable[[str], bytes]
) -> tuple[JSON, Review | None]:
    """Return the answer that stands for an operation at hand, and its newest review.

    Args:
        state: The operation.
        read: Returns the bytes of a file of its package.

    Raises:
        CheckpointError: A file cannot be read.
    """
    if state.review is not None:
        path = review_path(state.ophash, state.review.number)
        review = Review.decode(read(path), path)
        return (review.output if review.stands else None), review
    return _outcome_answer(state, read)[0], None


def view_token(package_id: str, state: OperationState) -> str:
    """Return a short name of what a person sees of an operation; any change of it gives another.

    The state names outcome and review by digest, so the text of the answer is covered too.
    """
    return digest(["casework-view/1", package_id, state.to_json()])[:VIEW_DIGITS]


class Reviewer:
    """Commits what people decide.

    Args:
        store: Where the packages lie.
        now: The clock.
        engine: Which engine must accept a corrected answer.
    """

    def __init__(
        self, store: CheckpointStore, *, now: Callable[[], datetime], engine: str = ENGINES[0]
    ) -> None:
        self._store = store
        self._now = now
        self._engine = engine

    def decide(
        self, case_id: str, ophash: str, decision: Decision, *, view: str | None = None
    ) -> Decided:
        """Commit a decision about one operation, under the case's lock.

        Args:
            case_id: The case.
            ophash: The operation.
            decision: What was decided.
            view: What the person saw, as :func:`view_token` names it; None decides about what is
                there now.

        Raises:
            StaleGeneration: The operation is not any more what the person saw; code ``stale_view``.
            IllegalTransition: The operation is not one that a person may decide about so.
            InvalidRequest: The correction leads nowhere, or its result breaks the schema.
            PackageNotFound: There is no such case or operation, or the case was forgotten.
            LockBusy: Somebody works on the case.
            CheckpointError: The package cannot be read or written.
        """
        _check(decision)
        with self._store.lock(case_id):
            head = self._store.open(case_id)
            refuse_forgotten(head)
            state = head.operations.get(ophash)
            if state is None:
                raise PackageNotFound("the case has no such operation", code="operation_not_found")
            seen = view_token(head.package_id, state)
            if view is not None and view != seen:
                raise StaleGeneration(
                    "the result is not what you saw any more; nothing was decided",
                    code="stale_view",
                    where=f"{case_id} {state.operation_id}",
                    remedy="look again with `casework inbox show`",
                )
            if not may_be_reviewed(state, head.analysis_revision):
                raise _not_reviewable(state)
            review = self._review(case_id, state, decision)
            return Decided(self._commit(head, state, review), review, seen)

    def _review(self, case_id: str, state: OperationState, decision: Decision) -> Review:
        output, output_sha256 = self._before(case_id, state)
        result, result_sha256, validator = output, output_sha256, None
        match decision.verdict:
            case ReviewVerdict.CORRECTED:
                result, validator = self._corrected(
                    case_id, state, output, corrections=decision.corrections
                )
                result_sha256 = digest(result)
            case ReviewVerdict.APPROVED if output_sha256 is None:
                raise IllegalTransition(
                    "there is no answer to approve",
                    code="no_answer",
                    where=f"{case_id} {state.operation_id}",
                    remedy="supply one with `casework inbox correct`, or reject the item",
                )
            case _:
                pass
        return Review(
            operation_id=state.operation_id,
            analysis_revision=state.analysis_revision,
            number=state.review.number + 1 if state.review else 1,
            verdict=decision.verdict,
            actor=decision.actor,
            decided_at=self._now(),
            reason=decision.reason,
            corrects_sha256=output_sha256,
            corrections=decision.corrections,
            output=result,
            output_sha256=result_sha256,
            validator=validator,
        )

    def _before(self, case_id: str, state: OperationState) -> tuple[JSON, str | None]:
        """Return the answer that a review decides about, a rejected one too, with its digest."""
        if state.review is None:
            return _outcome_answer(state, lambda path: self._store.read_file(case_id, path))
        path = review_path(state.ophash, state.review.number)
        review = Review.decode(self._store.read_file(case_id, path), path)
        return review.output, review.output_sha256

    def _corrected(
        self,
        case_id: str,
        state: OperationState,
        output: JSON,
        *,
        corrections: tuple[Correction, ...],
    ) -> tuple[JSON, JSONObject]:
        """Return the answer with corrections, and what accepted it."""
        where = f"{case_id} {state.operation_id}"
        try:
            # Written and read once, so that it is strict JSON and not too deep.
            result = parse(canonical(corrected(output, corrections)))
        except LookupError:
            raise InvalidRequest(
                "a pointer leads nowhere in the answer",
                code="pointer_not_found",
                where=where,
                remedy="`casework inbox show` names the pointers; the empty one is the whole",
            ) from None
        except (InvalidJSON, ValueError, RecursionError):
            raise InvalidRequest(
                "the corrected answer cannot be stored as JSON", code="not_strict_json", where=where
            ) from None
        request = parse(self._store.read_file(case_id, request_path(state.ophash)))
        schema = request.get("output_schema") if isinstance(request, dict) else None
        if not isinstance(schema, dict):
            raise FormatError("the stored request holds no schema", where=where)
        compiled = compile_schema(schema, engine=self._engine)
        broken = compiled.check(result)
        if broken is not None:
            raise InvalidRequest(
                f"the corrected answer breaks the schema at {broken or 'its top'}",
                code="schema_violation",
                where=where,
                remedy="the operation's output schema must hold; nothing was decided",
            )
        accepted = compiled.validator
        return result, {"engine": accepted.engine, "version": accepted.version}

    def _commit(self, head: PackageHead, state: OperationState, review: Review) -> PackageHead:
        content = review.encode()
        if len(content) > REVIEW_BYTES_MAX:
            raise InvalidRequest(
                f"a review may have {REVIEW_BYTES_MAX:,} bytes, and this one has more",
                code="request_too_large",
            )
        mark = ReviewMark(
            verdict=review.verdict,
            number=review.number,
            sha256=sha256_hex(content),
            size=len(content),
            output_sha256=review.output_sha256,
        )
        change = Change(
            case_id=head.case_id,
            package_id=head.package_id,
            expected_generation=head.generation,
            kind=CommitKind.REVIEWED,
            at=review.decided_at,
            operations={state.ophash: replace(state, review=mark)},
            files=((review_path(state.ophash, review.number), content),),
            actor=review.actor,
        )
        return self._store.commit(change)


def _outcome_answer(state: OperationState, read: Callable[[str], bytes]) -> tuple[JSON, str | None]:
    """Return the answer of a successful operation's last outcome with its digest."""
    if state.status is not OperationStatus.SUCCESS:
        return None, None
    output = read_outcome(read(outcome_path(state.ophash, state.rounds_completed))).output
    return output, digest(output)


def _check(decision: Decision) -> None:
    """Refuse a decision that no package could hold.

    Raises:
        InvalidRequest: It is one.
    """
    texts = [decision.actor, decision.reason or "", *(c.pointer for c in decision.corrections)]
    if not decision.actor.strip() or not all(len(t) <= TEXT_MAX and is_unicode(t) for t in texts):
        raise InvalidRequest(
            f"actor, reason and pointers are texts of at most {TEXT_MAX} characters",
            code="bad_decision",
        )
    corrects = decision.verdict is ReviewVerdict.CORRECTED
    if bool(decision.corrections) != corrects or len(decision.corrections) > CORRECTIONS_MAX:
        raise InvalidRequest(
            f"a correction names 1 to {CORRECTIONS_MAX} values, and no other decision does",
            code="bad_decision",
        )
    if decision.verdict is ReviewVerdict.REJECTED and not (decision.reason or "").strip():
        raise InvalidRequest("a rejection needs a reason", code="bad_decision")


def _not_reviewable(state: OperationState) -> IllegalTransition:
    if state.resumed_as is not None:
        what, remedy = f"it lives on as {state.resumed_as!r}", "decide about that one"
    elif state.status is OperationStatus.RETRY_PENDING:
        what, remedy = "its next round is still to come", "let it end with `casework run`"
    else:
        what, remedy = "it belongs to an older analysis revision", "decide about the newer one"
    return IllegalTransition(
        f"nothing can be decided about the operation: {what}",
        code="not_reviewable",
        where=state.operation_id,
        remedy=remedy,
    )
