"""Raising a case's analysis revision: a person's decision that everything is asked anew.

The operations of the revision before are history: they keep their files and are read and exported
as before, and nothing of them is pending, blocked or reviewed any more.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from casework.checkpoints.change import Change
from casework.checkpoints.fold import PackageHead
from casework.checkpoints.package_files import refuse_forgotten
from casework.checkpoints.records import CommitKind
from casework.checkpoints.store import CheckpointStore
from casework.checkpoints.timestamps import write_time
from casework.errors import InvalidRequest
from casework.strict_json import canonical, is_unicode

REVISION_SCHEMA: Final = "casework-revision/1"
TEXT_MAX: Final = 4000
"""Longest reason and actor, in characters."""


@dataclass(frozen=True, slots=True)
class RevisionReason:
    """Why a revision is raised, and by whom."""

    reason: str
    actor: str


def revision_path(analysis_revision: int) -> str:
    """Return where a package says why a revision was raised."""
    return f"revisions/{analysis_revision:04d}.json"


def raise_revision(
    store: CheckpointStore, case_id: str, why: RevisionReason, *, now: Callable[[], datetime]
) -> PackageHead:
    """Raise a case's analysis revision by one, under the case's lock.

    Every operation of the pipeline is planned anew for the case by the next run.

    Raises:
        InvalidRequest: Reason or actor is blank or too long.
        PackageNotFound: There is no such case, or it was forgotten.
        LockBusy: Somebody works on the case.
        CheckpointError: The package cannot be read or written.
    """
    for text in (why.reason, why.actor):
        if not text.strip() or len(text) > TEXT_MAX or not is_unicode(text):
            raise InvalidRequest(
                f"reason and actor are texts of 1 to {TEXT_MAX} characters", code="bad_decision"
            )
    with store.lock(case_id):
        head = store.open(case_id)
        refuse_forgotten(head)
        at, raised = now(), head.analysis_revision + 1
        content = canonical(
            {
                "schema": REVISION_SCHEMA,
                "case_id": head.case_id,
                "package_id": head.package_id,
                "analysis_revision": raised,
                "actor": why.actor,
                "reason": why.reason,
                "decided_at": write_time(at),
            }
        )
        change = Change(
            case_id=head.case_id,
            package_id=head.package_id,
            expected_generation=head.generation,
            kind=CommitKind.REVISION_RAISED,
            at=at,
            operations={},
            files=((revision_path(raised), content),),
            analysis_revision=raised,
            actor=why.actor,
        )
        return store.commit(change)
