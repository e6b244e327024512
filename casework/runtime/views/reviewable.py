"""Which operation of a case a person means who names the case only."""

from __future__ import annotations

from casework.checkpoints.call_names import is_call
from casework.checkpoints.package_files import refuse_forgotten
from casework.checkpoints.records import OperationState, operation_hash
from casework.checkpoints.store import CheckpointStore
from casework.checkpoints.transitions import may_be_reviewed
from casework.errors import PackageNotFound
from casework.runner.inbox_items import waits_for_person


def reviewable_operation(
    store: CheckpointStore, case_id: str, operation_id: str | None
) -> OperationState:
    """Return the operation to decide about: the one named, the only one, or the only one waiting.

    Raises:
        PackageNotFound: There is no such operation, nobody said which of several, or the case was
            forgotten.
    """
    head = store.open(case_id)
    refuse_forgotten(head)
    if operation_id is not None:
        state = head.operations.get(operation_hash(head.analysis_revision, operation_id))
        if state is None:
            raise PackageNotFound(
                "the case has no such operation",
                code="operation_not_found",
                where=case_id,
                remedy="those that have run are listed by `casework inspect CASE`",
            )
        return state
    found = [
        state
        for state in head.operations.values()
        if may_be_reviewed(state, head.analysis_revision) and not is_call(state.operation_id)
    ]
    if len(found) > 1:
        waiting = {o.ophash for o in store.index.operations(case_id) if waits_for_person(o)}
        found = [s for s in found if s.ophash in waiting] or found
    if len(found) == 1:
        return found[0]
    names = ", ".join(sorted(state.operation_id for state in found)) or "none is finished"
    raise PackageNotFound(
        "say which operation", code="operation_not_named", where=case_id, remedy=f"choose: {names}"
    )
