"""Letting an operation live on under a new id."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from casework.checkpoints.fold import PackageHead
from casework.checkpoints.names import check_id
from casework.checkpoints.records import OperationState, OperationStatus, operation_hash
from casework.checkpoints.transitions import has_answer, may_live_on, successor_of
from casework.errors import IllegalTransition, NotDue, OperationConflict, PackageNotFound


def resumed(
    head: PackageHead,
    operation_id: str,
    *,
    new_operation_id: str,
    analysis_revision: int | None,
    answered: bool,
    at: datetime,
) -> dict[str, OperationState]:
    """Return both states of a resumption: the old one with its link, and its successor.

    Raises:
        PackageNotFound: There is no such operation.
        IllegalTransition: No round of it was run yet, or it has an answer and none may be left.
        OperationConflict: It was resumed before, or the new id is used.
        NotDue: It is blocked, and its retry time has not come.
    """
    revision = head.analysis_revision if analysis_revision is None else analysis_revision
    check_id(new_operation_id, "operation id")
    ophash, successor = (operation_hash(revision, i) for i in (operation_id, new_operation_id))
    state = head.operations.get(ophash)
    if state is None:
        raise PackageNotFound("the case has no such operation", code="operation_not_found")
    if not may_live_on(state) or (has_answer(state) and not answered):
        raise IllegalTransition(f"an operation that is {state.status.value} cannot be resumed")
    if state.resumed_as is not None:
        raise OperationConflict(
            "the operation was resumed before",
            code="already_resumed",
            remedy="resume the operation under which it lives on",
        )
    if new_operation_id == operation_id or successor in head.operations:
        raise OperationConflict("the new operation id is used already", remedy="choose another")
    if state.status is OperationStatus.BLOCKED and state.due_at is not None and at < state.due_at:
        raise NotDue(
            f"the operation may be resumed from {state.due_at.isoformat()} on",
            remedy="wait until then",
        )
    return {
        ophash: replace(state, resumed_as=new_operation_id),
        successor: successor_of(state, new_operation_id, at),
    }
