"""What one call of the runner came to, made now or read back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from casework.checkpoints.fold import PackageHead
from casework.checkpoints.names import outcome_path
from casework.checkpoints.records import OperationError, OperationState
from casework.checkpoints.store import CheckpointStore
from casework.runner.operation import ResultStatus
from casework.runner.outcome_files import StoredOutcome, read_outcome
from casework.strict_json import JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationResult:
    """What one call of ``run`` came to."""

    status: ResultStatus
    case_id: str
    package_id: str
    operation_id: str
    generation: int
    rounds_completed: int
    output: JSON = None
    """The validated answer, for SUCCESS."""
    error: OperationError | None = None
    """The stable code, for ERROR and BLOCKED."""
    due_at: datetime | None = None
    """For RETRY_PENDING and DEFERRED the next round, for BLOCKED the earliest resumption."""
    outcome: StoredOutcome | None = None
    """The last finished round, None where no round has finished."""
    reused: bool = False
    """Whether the result was already stored, so that nobody was asked."""
    adopted: bool = False
    """Whether a crash had left the round's outcome complete, so that nobody was asked again."""

    @classmethod
    def of(
        cls,
        head: PackageHead,
        state: OperationState,
        outcome: StoredOutcome,
        *,
        reused: bool = False,
    ) -> OperationResult:
        """Return the result of an operation whose last finished round is at hand."""
        return cls(
            status=ResultStatus(state.status.value),
            case_id=head.case_id,
            package_id=head.package_id,
            operation_id=state.operation_id,
            generation=head.generation,
            rounds_completed=state.rounds_completed,
            output=outcome.output,
            error=state.error,
            due_at=state.due_at,
            outcome=outcome,
            reused=reused,
        )


def stored_result(
    store: CheckpointStore, head: PackageHead, state: OperationState
) -> OperationResult:
    """Return what a finished operation came to, from its last outcome file.

    Raises:
        CheckpointError: The file cannot be read.
    """
    path = outcome_path(state.ophash, state.rounds_completed)
    outcome = read_outcome(store.read_file(head.case_id, path))
    return OperationResult.of(head, state, outcome, reused=True)
