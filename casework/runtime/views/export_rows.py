"""From packages to the rows of an export, one case at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from decimal import Decimal

from casework.checkpoints.call_names import is_call
from casework.checkpoints.fold import PackageHead
from casework.checkpoints.names import outcome_path, request_path
from casework.checkpoints.records import OperationState, OperationStatus, PackageStatus
from casework.checkpoints.store import CheckpointStore
from casework.errors import CheckpointError
from casework.gateway.messages import Cost, Usage
from casework.runner.export import ExportRow
from casework.runner.outcome_files import read_outcome
from casework.runner.reviews import standing_answer
from casework.strict_json import JSON, JSONObject, integer_or_none, parse, text_or_none


def export_rows(
    store: CheckpointStore,
    cases: Iterable[str],
    *,
    only: OperationStatus | None = None,
    every_campaign: bool = False,
    calls: bool = False,
    passed_over: dict[str, CheckpointError] | None = None,
) -> Iterator[ExportRow]:
    """Yield a row for each operation of each case; of one case all rows or none.

    Args:
        store: Where.
        cases: Which cases, in the order of the rows.
        only: Only operations that count as this.
        every_campaign: Also those that live on under a later id, or are of an older revision.
        calls: Also calls of clients.
        passed_over: Takes the cases whose package cannot be read, and why, so that the others
            go on.

    Raises:
        CheckpointError: A package cannot be read, and nobody wants to know later.
    """
    for case_id in cases:
        try:
            rows = list(
                case_rows(store, case_id, only=only, every_campaign=every_campaign, calls=calls)
            )
        except CheckpointError as error:
            if passed_over is None:
                raise
            passed_over[case_id] = error
        else:
            yield from rows


def case_rows(
    store: CheckpointStore,
    case_id: str,
    *,
    only: OperationStatus | None = None,
    every_campaign: bool = False,
    calls: bool = False,
) -> Iterator[ExportRow]:
    """Yield a row for each operation of one case, by revision and id; none of a forgotten case.

    Args:
        store: Where.
        case_id: Which case.
        only: Only operations that count as this.
        every_campaign: Also those that live on under a later id, or are of an older revision.
        calls: Also calls of clients.

    Raises:
        CheckpointError: The package cannot be read.
    """
    head = store.open(case_id)
    if head.status is PackageStatus.FORGOTTEN:
        return
    states = sorted(head.operations.values(), key=lambda s: (s.analysis_revision, s.operation_id))
    for state in states:
        if only not in (None, state.standing) or (is_call(state.operation_id) and not calls):
            continue
        current = state.resumed_as is None and state.analysis_revision == head.analysis_revision
        if current or every_campaign:
            yield row_of(store, head, state)


def row_of(store: CheckpointStore, head: PackageHead, state: OperationState) -> ExportRow:
    """Return the row of one operation.

    Raises:
        CheckpointError: The package cannot be read.
    """
    body: JSONObject = {}
    request: JSONObject = {}
    started_at: datetime | None = None
    if state.rounds_completed:
        path = outcome_path(state.ophash, state.rounds_completed)
        outcome = read_outcome(store.read_file(head.case_id, path))
        body, started_at = outcome.body, outcome.started_at
        stored = parse(store.read_file(head.case_id, request_path(state.ophash)))
        request = stored if isinstance(stored, dict) else {}
    output, output_sha256, review = body.get("output"), body.get("output_sha256"), None
    if state.review is not None:
        output, review = standing_answer(state, lambda path: store.read_file(head.case_id, path))
        output_sha256 = state.review.output_sha256 if review and review.stands else None
    return ExportRow(
        case_id=head.case_id,
        package_id=head.package_id,
        generation=head.generation,
        analysis_revision=state.analysis_revision,
        operation_id=state.operation_id,
        status=state.standing.value,
        output=output,
        output_sha256=text_or_none(output_sha256),
        error=state.error.code if state.error else None,
        http_status=state.error.http_status if state.error else None,
        review=review,
        provider=text_or_none(body.get("provider")),
        model=text_or_none(body.get("model")),
        provider_class=text_or_none(body.get("provider_class")),
        prompt_version=text_or_none(body.get("prompt_version")),
        prompt_sha256=text_or_none(request.get("prompt_sha256")),
        request_fingerprint=state.request_fingerprint,
        config_fingerprint=state.config_fingerprint,
        rounds_completed=state.rounds_completed,
        started_at=started_at,
        elapsed_ms=integer_or_none(body.get("elapsed_ms")),
        usage=_usage(body.get("usage")),
        cost=_cost(body.get("cost")),
    )


def _usage(value: JSON) -> Usage | None:
    if not isinstance(value, dict):
        return None
    return Usage(
        prompt_tokens=integer_or_none(value.get("prompt_tokens")),
        completion_tokens=integer_or_none(value.get("completion_tokens")),
        total_tokens=integer_or_none(value.get("total_tokens")),
    )


def _cost(value: JSON) -> Cost | None:
    if not isinstance(value, dict):
        return None
    amount, currency = value.get("amount"), value.get("currency")
    if not isinstance(amount, str) or not isinstance(currency, str):
        return None
    return Cost(Decimal(amount), currency)
