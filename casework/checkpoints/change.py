"""What a caller hands to the store: one generation that is to be added to a package."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from casework.checkpoints.records import CommitKind, OperationState


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What one commit is to add to a package."""

    case_id: str
    package_id: str
    expected_generation: int
    """The generation that the change was made for; any other makes it void."""
    kind: CommitKind
    at: datetime
    operations: Mapping[str, OperationState]
    """The states to add or change, by ophash."""
    files: tuple[tuple[str, bytes], ...] = ()
    """New files by their path in the package."""
    phase: str | None = None
    """The new phase; None leaves it."""
    analysis_revision: int | None = None
    """The new revision; None leaves it."""
    actor: str | None = None
    """Who makes it; by default the store's own actor."""
