"""Refusing to run an operation under an id that stands for something else."""

from __future__ import annotations

from casework.checkpoints.fold import PackageHead
from casework.checkpoints.names import request_path
from casework.checkpoints.records import OperationState
from casework.checkpoints.store import CheckpointStore
from casework.errors import OperationConflict, StaleGeneration
from casework.runner.fingerprints import RequestRecord, differing_parts
from casework.strict_json import parse


def refuse_changes(
    store: CheckpointStore, case_id: str, *, state: OperationState, request: RequestRecord
) -> None:
    """Make sure that an operation's id stands for this very request and configuration.

    Raises:
        OperationConflict: It does not; the parts that differ are named, never their contents.
    """
    if (
        state.request_fingerprint == request.request_fingerprint
        and state.config_fingerprint == request.config_fingerprint
    ):
        return
    stored = parse(store.read_file(case_id, request_path(state.ophash)))
    parts = differing_parts(stored, request.body) if isinstance(stored, dict) else ()
    raise OperationConflict(
        f"operation {state.operation_id!r} was begun with other {', '.join(parts) or 'contents'}",
        where=case_id,
        remedy="use a new operation id, or restore what was changed",
    )


def refuse_outdated(head: PackageHead, generation: int | None) -> None:
    """Make sure that a case is still at the generation that a request was made for, if it was.

    Raises:
        StaleGeneration: It has changed since.
    """
    if generation not in (None, head.generation):
        raise StaleGeneration(
            "the case has changed since the request was made; nobody was asked",
            code="outdated_request",
            where=head.case_id,
            remedy="make the request anew",
        )
