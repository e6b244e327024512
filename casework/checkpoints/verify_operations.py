"""What ``verify`` asks of the contents of requests and outcomes: do they fit their operation?"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from casework.checkpoints.fields import parse_object
from casework.checkpoints.names import request_path, review_path
from casework.checkpoints.records import (
    OUTCOME_SCHEMA,
    REQUEST_SCHEMA,
    OperationState,
    OperationStatus,
    PackageIdentity,
)
from casework.checkpoints.reviews import Review, follows_from
from casework.checkpoints.timestamps import read_time
from casework.errors import FormatError
from casework.strict_json import JSON, JSONObject, digest

_RESULTS: Final = {
    "success": frozenset({OperationStatus.SUCCESS}),
    "error": frozenset({OperationStatus.ERROR}),
    "temporary_failure": frozenset({OperationStatus.RETRY_PENDING, OperationStatus.BLOCKED}),
}
_DERIVED: Final = ("request_fingerprint", "config_fingerprint", "configuration")


def request_objections(
    content: bytes, state: OperationState, identity: PackageIdentity
) -> Iterator[str]:
    """Tell in which ways a stored request is not the one that its operation was begun with."""
    try:
        request = parse_object(content, request_path(state.ophash))
    except FormatError as error:
        yield error.message
        return
    expected = {
        "schema": REQUEST_SCHEMA,
        "operation_id": state.operation_id,
        "analysis_revision": state.analysis_revision,
        "case_id": identity.case_id,
        "package_id": identity.package_id,
        "request_fingerprint": state.request_fingerprint,
        "config_fingerprint": state.config_fingerprint,
    }
    for name, value in expected.items():
        if request.get(name) != value:
            yield f"its {name} is not the operation's"
    body = {name: value for name, value in request.items() if name not in _DERIVED}
    if digest(body) != state.request_fingerprint:
        yield "its contents do not have the recorded fingerprint"
    if "configuration" in request and digest(request["configuration"]) != state.config_fingerprint:
        yield "its configuration does not have the recorded fingerprint"


def outcome_objections(
    content: bytes, before: OperationState | None, after: OperationState
) -> Iterator[str]:
    """Tell in which ways a stored outcome contradicts the state that its commit recorded."""
    try:
        outcome = parse_object(content, "outcome")
    except FormatError as error:
        yield error.message
        return
    if outcome.get("schema") != OUTCOME_SCHEMA:
        yield "it is not an outcome that this version reads"
        return
    if outcome.get("round") != after.rounds_completed:
        yield "it is of another round"
    for name in ("request_fingerprint", "config_fingerprint"):
        if outcome.get(name, getattr(after, name)) != getattr(after, name):
            yield f"its {name} is not the operation's"
    if after.status not in _RESULTS.get(str(outcome.get("result")), frozenset()):
        yield f"its result does not lead to {after.status.value}"
    yield from _answer_objections(outcome, after)
    yield from _time_objections(outcome, before)


def _answer_objections(outcome: JSONObject, after: OperationState) -> Iterator[str]:
    if after.status is OperationStatus.SUCCESS:
        if outcome.get("output_sha256") != digest(outcome.get("output")):
            yield "its answer does not have the recorded digest"
    elif outcome.get("output") is not None:
        yield "it holds an answer without a success"
    if after.status is OperationStatus.ERROR and after.error is not None:
        # Old outcomes have no http_status; nothing is said about it then.
        status = outcome.get("http_status", after.error.http_status)
        if (outcome.get("error"), status) != (after.error.code, after.error.http_status):
            yield "its error is not the operation's"
    elif outcome.get("error") is not None:
        yield "it holds an error that the operation does not have"


def _time_objections(outcome: JSONObject, before: OperationState | None) -> Iterator[str]:
    started = outcome.get("started_at")
    try:
        started_at = read_time(started) if isinstance(started, str) else None
    except ValueError:
        started_at = None
    if started_at is None:
        yield "nobody knows when its round began"
    elif before is not None and _is_early(started_at, before, outcome):
        yield "its round began before it was due"


def _is_early(started_at: datetime, before: OperationState, outcome: JSONObject) -> bool:
    """Tell whether a round began too early on a clock that was not set back.

    A clock that stands before the last round was set back. Where that cannot be seen, the outcome
    says so: its writer waited by the monotonic clock.
    """
    if before.due_at is None or outcome.get("clock_set_back") is True:
        return False
    if before.last_round_at is not None and started_at < before.last_round_at:
        return False
    # Moments are stored to the microsecond, and elapsed times to the millisecond.
    return started_at < before.due_at - timedelta(milliseconds=1)


def review_objections(
    content: bytes, after: OperationState, reviewed: bytes | None
) -> Iterator[str]:
    """Tell in which ways a stored review is not the decision that its commit recorded.

    Args:
        content: The review's file.
        after: The operation with the review's mark.
        reviewed: The outcome or review before it; None if its bytes are not as committed, so that
            nothing can be said of the answer.
    """
    mark = after.review
    assert mark is not None, "the transition was judged before"
    where = review_path(after.ophash, mark.number)
    try:
        review = Review.decode(content, where)
        before = None if reviewed is None else _answer_in(reviewed)
    except FormatError as error:
        yield error.message
        return
    if (review.operation_id, review.analysis_revision) != (
        after.operation_id,
        after.analysis_revision,
    ):
        yield "it is of another operation"
    if (review.number, review.verdict, review.output_sha256) != (
        mark.number,
        mark.verdict,
        mark.output_sha256,
    ):
        yield "it is not the decision that the operation names"
    if before is not None and not follows_from(review, *before):
        yield "its answer does not follow from what it decides about"


def _answer_in(content: bytes) -> tuple[JSON, str | None]:
    """Return the answer of an outcome or review and its digest, None where there is none."""
    body = parse_object(content, "outcome or review")
    recorded = body.get("output_sha256")
    return body.get("output"), recorded if isinstance(recorded, str) else None
