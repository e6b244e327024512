"""The status cut along one line: by operation, by provider, or by reason."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from casework.checkpoints.index_pages import every_operation
from casework.checkpoints.index_rows import IndexedOperation, Planned
from casework.checkpoints.names import outcome_path
from casework.checkpoints.records import OperationStatus
from casework.checkpoints.store import CheckpointStore
from casework.errors import CheckpointError
from casework.runner.inbox_items import reason_of
from casework.runner.outcome_files import read_outcome


class Cut(StrEnum):
    """Along which line to count."""

    OP = "op"
    PROVIDER = "provider"
    """Reads the last outcome of every finished operation, which takes its time."""
    REASON = "reason"


def breakdown(store: CheckpointStore, cut: Cut) -> dict[str, Counter[str]]:
    """Count operations by a key and, for each key, by state."""
    table: dict[str, Counter[str]] = {}
    for operation in every_operation(store.index):
        key = _key(store, operation, cut)
        if key is not None:
            table.setdefault(key, Counter())[_state(operation)] += 1
    return table


def _state(operation: IndexedOperation) -> str:
    if operation.status is not None:
        return operation.status.value
    ready = operation.planned in (None, Planned.READY)
    return "WAITING" if ready else str(operation.planned)


def _key(store: CheckpointStore, operation: IndexedOperation, cut: Cut) -> str | None:
    if cut is Cut.OP:
        return operation.operation_id
    if cut is Cut.REASON:
        stopped = operation.status in (OperationStatus.ERROR, OperationStatus.BLOCKED)
        return reason_of(operation) if stopped else None
    return _provider(store, operation)


def _provider(store: CheckpointStore, operation: IndexedOperation) -> str | None:
    if operation.rounds_completed == 0:
        return None
    path = outcome_path(operation.ophash, operation.rounds_completed)
    try:
        body = read_outcome(store.read_file(operation.case_id, path)).body
    except CheckpointError:
        return "unreadable"
    return str(body.get("provider") or "nobody")
