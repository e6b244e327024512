"""What the failure log says of a round: ids, codes and times, never a text."""

from __future__ import annotations

from datetime import datetime

from casework.checkpoints.fold import PackageHead
from casework.checkpoints.records import OperationState, OperationStatus
from casework.checkpoints.store import CheckpointStore
from casework.checkpoints.timestamps import write_time
from casework.runner.failure_log import FailureLog, context_of
from casework.runner.outcome_files import StoredOutcome, calls_in
from casework.strict_json import JSON, JSONObject

_EVENTS = {
    OperationStatus.RETRY_PENDING: ("round_failed", "WARNING"),
    OperationStatus.BLOCKED: ("operation_blocked", "ERROR"),
    OperationStatus.ERROR: ("operation_error", "ERROR"),
}
"""An unreachable model and a controlled error are different events, so outages can be counted."""


class FailureLines:
    """Write one line for each round that brought no answer.

    Args:
        store: Its runtime folder gets ``logs/llm.jsonl``; a store without a folder logs nothing.
    """

    def __init__(self, store: CheckpointStore) -> None:
        self._log: FailureLog | None = None
        if store.folder is not None:
            self._log = FailureLog(
                store.folder / "logs" / "llm.jsonl", exclusive=lambda: store.lock("\0llm.jsonl")
            )

    def tell(
        self, head: PackageHead, state: OperationState, outcome: StoredOutcome, *, at: datetime
    ) -> None:
        """Log a committed round, unless it succeeded."""
        if state.status in _EVENTS:
            self._write(_EVENTS[state.status], at, (head, state, outcome))

    def discarded(
        self, head: PackageHead, state: OperationState, outcome: StoredOutcome, *, at: datetime
    ) -> None:
        """Log a round whose result was void because somebody else committed first."""
        self._write(("result_discarded", "ERROR"), at, (head, state, outcome))

    def _write(
        self,
        event: tuple[str, str],
        at: datetime,
        subject: tuple[PackageHead, OperationState, StoredOutcome],
    ) -> None:
        if self._log is None:
            return
        head, state, outcome = subject
        name, level = event
        fields: dict[str, JSON] = {
            "level": level,
            "case_id": head.case_id,
            "package_id": head.package_id,
            "operation_id": state.operation_id,
            "round": outcome.number,
            "phase": state.phase,
            "context": context_of(state.phase),
            "code": state.error.code if state.error else None,
            "attempts": list(_attempts(outcome.body)),
            "due_at": write_time(state.due_at) if state.due_at else None,
        }
        self._log.write(name, at=at, fields=fields)


def _attempts(body: JSONObject) -> list[JSON]:
    """Return who failed and how, the final error of a controlled failure last."""
    calls = list(calls_in(body))
    if not calls and body.get("error") is not None:  # an input that was rejected unasked
        calls = [{"code": body.get("error")}]
    return [
        {name: call.get(name) for name in ("provider", "code", "http_status")}
        for call in calls
        if call.get("code") is not None
    ]
