"""Who saw a document: one row for each call, made or perhaps made, in the order of the rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from casework.checkpoints.inflight import Intent
from casework.checkpoints.records import OperationState
from casework.checkpoints.store import CheckpointStore
from casework.runner.outcome_files import StoredOutcome, calls_in, outcomes_of, starts_in
from casework.strict_json import JSONObject, integer_or_none, text_or_none


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """One provider that was given a document, or may have been."""

    operation_id: str
    round: int
    provider: str
    model: str
    provider_class: str | None
    started_at: str
    request_bytes: int | None
    sent: bool | None
    """Whether any byte may have reached the provider; None where nobody knows."""
    code: str | None
    """Why the call failed; None for an accepted answer and for an unconfirmed call."""
    confirmed: bool
    """False for a call whose end nobody saw: it may have been made, and paid for, in vain."""
    cost_max: str | None = None
    """Upper bound of what an unconfirmed call cost, with its currency; None if unknown."""


def exposures(store: CheckpointStore, case_id: str) -> Iterator[Exposure]:
    """List every exposure of a case, unconfirmed calls of a round before its confirmed ones.

    Raises:
        CheckpointError: The package cannot be read.
    """
    head = store.open(case_id)
    yield from exposures_of(head.operations.values(), lambda path: store.read_file(case_id, path))
    for intent in store.inflight.list():
        state = head.operations.get(intent.ophash)
        finished = state.rounds_completed if state else 0
        if intent.case_id == case_id and intent.round > finished:
            yield from _announced(intent)


def exposures_of(
    states: Iterable[OperationState], read: Callable[[str], bytes]
) -> Iterator[Exposure]:
    """List the exposures that outcome files tell of.

    Args:
        states: Operations of one package.
        read: Returns the bytes of one of its files.
    """
    for state, outcome in outcomes_of(states, read):
        yield from _of_outcome(state.operation_id, outcome)


def _of_outcome(operation_id: str, outcome: StoredOutcome) -> Iterator[Exposure]:
    for started_at, targets in starts_in(outcome.body):
        for target in targets:
            yield Exposure(
                operation_id=operation_id,
                round=outcome.number,
                provider=str(target.get("provider")),
                model=str(target.get("model")),
                provider_class=text_or_none(target.get("class")),
                started_at=started_at,
                request_bytes=None,
                sent=None,
                code=None,
                confirmed=False,
                cost_max=text_or_none(target.get("cost_max")),
            )
    for call in calls_in(outcome.body):
        yield _confirmed(operation_id, outcome.number, call)


def _confirmed(operation_id: str, number: int, call: JSONObject) -> Exposure:
    sent = call.get("sent")
    return Exposure(
        operation_id=operation_id,
        round=number,
        provider=str(call.get("provider")),
        model=str(call.get("model")),
        provider_class=text_or_none(call.get("provider_class")),
        started_at=str(call.get("started_at")),
        request_bytes=integer_or_none(call.get("request_bytes")),
        sent=sent if isinstance(sent, bool) else None,
        code=text_or_none(call.get("code")),
        confirmed=True,
    )


def _announced(intent: Intent) -> Iterator[Exposure]:
    for start in (*intent.earlier, intent.start()):
        for target in start.targets:
            yield Exposure(
                operation_id=intent.operation_id,
                round=intent.round,
                provider=target.provider,
                model=target.model,
                provider_class=target.provider_class,
                started_at=start.started_at,
                request_bytes=None,
                sent=None,
                code=None,
                confirmed=False,
                cost_max=target.cost_max,
            )
