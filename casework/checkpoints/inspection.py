"""Looking into a package without a lock and without writing: in a folder, a ZIP or a store."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from casework.checkpoints.fields import parse_object
from casework.checkpoints.folder_storage import FolderStorage
from casework.checkpoints.names import outcome_path, request_path
from casework.checkpoints.package_files import read_named
from casework.checkpoints.package_reader import PackageReader
from casework.checkpoints.records import (
    CommitKind,
    FileEntry,
    OperationState,
    PackageStatus,
    operation_hash,
)
from casework.checkpoints.zip_storage import ZipLimits, ZipStorage
from casework.errors import PackageNotFound
from casework.strict_json import JSONObject


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineEntry:
    """One commit, as a person reads it."""

    generation: int
    committed_at: datetime
    actor: str
    kind: CommitKind
    phase: str
    status: PackageStatus
    """The status of the whole package after this commit."""
    operations: tuple[OperationState, ...]
    """The operations that it changed, as they stood after it."""
    files: tuple[FileEntry, ...]


class Inspection:
    """One package, as its newest commit leaves it.

    Everything read is checked against the commits; a contradiction raises ``IntegrityError``.

    Args:
        reader: Where the package lies.
    """

    def __init__(self, reader: PackageReader) -> None:
        self._reader = reader
        self.identity = reader.identity()
        self.head = reader.head()

    def timeline(self) -> Iterator[TimelineEntry]:
        """Iterate over the commits, oldest first."""
        for record, _ in self._reader.records(1, self.head.generation):
            yield TimelineEntry(
                generation=record.generation,
                committed_at=record.committed_at,
                actor=record.actor,
                kind=record.kind,
                phase=record.phase,
                status=record.status,
                operations=tuple(record.operations.values()),
                files=record.files,
            )

    def operations(self) -> tuple[OperationState, ...]:
        """Return every operation, also resumed ones and those of older revisions, by id."""
        states = self.head.operations.values()
        return tuple(sorted(states, key=lambda s: (s.analysis_revision, s.operation_id)))

    def operation(self, operation_id: str, analysis_revision: int | None = None) -> OperationState:
        """Return one operation, of the current revision if none is named.

        Raises:
            PackageNotFound: There is no such operation.
        """
        revision = analysis_revision or self.head.analysis_revision
        state = self.head.operations.get(operation_hash(revision, operation_id))
        if state is None:
            raise PackageNotFound(
                "the case has no such operation",
                code="operation_not_found",
                where=self.identity.case_id,
                remedy="those that have run are listed by `casework inspect CASE`",
            )
        return state

    def request(self, state: OperationState) -> JSONObject | None:
        """Return what an operation asked, None before its first round."""
        if not state.artifacts:
            return None
        path = request_path(state.ophash)
        return parse_object(self.read(path), path)

    def outcome(self, state: OperationState, round_number: int) -> JSONObject:
        """Return what one round of an operation came to.

        Raises:
            PackageNotFound: That round has not finished.
        """
        path = outcome_path(state.ophash, round_number)
        return parse_object(self.read(path), path)

    def outcomes(self, state: OperationState) -> Iterator[JSONObject]:
        """Iterate over what each round of an operation came to."""
        for round_number in range(1, state.rounds_completed + 1):
            yield self.outcome(state, round_number)

    def originals(self) -> tuple[FileEntry, ...]:
        """Return the inputs; ``name`` holds the user's name where the path differs from it."""
        record, _ = self._reader.record(1)
        return tuple(entry for entry in record.files if entry.path.startswith("original/"))

    def read(self, path: str) -> bytes:
        """Return a committed file, checked against its digest.

        Raises:
            PackageNotFound: No commit names it.
            IntegrityError: It is gone or is not what was committed.
        """
        return read_named(self._reader, self.head, path)


@contextmanager
def inspect_package(path: Path, *, limits: ZipLimits | None = None) -> Iterator[Inspection]:
    """Look into the package in a folder or a ZIP while the context lasts.

    Args:
        path: The package's folder or file.
        limits: What may be read from a ZIP.

    Raises:
        PackageNotFound: There is no package.
        FormatError: It is unsafe to read, or not of a version that this one reads.
        IntegrityError: It contradicts itself.
    """
    if path.is_file():
        with ZipStorage(path, limits) as storage:
            yield Inspection(PackageReader(storage))
    else:
        yield Inspection(PackageReader(FolderStorage(path)))
