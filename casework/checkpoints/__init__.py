"""Durable case packages: every result committed, nothing overwritten, nothing trusted unseen."""

from __future__ import annotations

from casework.checkpoints.fold import OperationStates, PackageHead, Tally
from casework.checkpoints.records import (
    CommitKind,
    CommitRecord,
    FileEntry,
    OperationError,
    OperationState,
    OperationStatus,
    PackageIdentity,
    PackageStatus,
    Routing,
    operation_hash,
)
from casework.checkpoints.store import Change, CheckpointStore

__all__ = [
    "Change",
    "CheckpointStore",
    "CommitKind",
    "CommitRecord",
    "FileEntry",
    "OperationError",
    "OperationState",
    "OperationStates",
    "OperationStatus",
    "PackageHead",
    "PackageIdentity",
    "PackageStatus",
    "Routing",
    "Tally",
    "operation_hash",
]
