"""Appending one generation to a package: the commit protocol above a storage's four methods."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import replace

from casework.checkpoints.fold import PackageHead, advance
from casework.checkpoints.head_cache import HeadCache
from casework.checkpoints.locks import CaseLocks
from casework.checkpoints.names import case_folder, commit_path, snapshot_path
from casework.checkpoints.package_files import named_entry
from casework.checkpoints.package_reader import PackageReader
from casework.checkpoints.records import CommitKind, CommitRecord, OperationState
from casework.checkpoints.snapshots import INTERVAL, encode_snapshot, reach
from casework.checkpoints.storage import AlreadyExists, NotFound, Storage
from casework.checkpoints.transitions import Step, objection
from casework.errors import (
    CheckpointError,
    FormatError,
    IllegalTransition,
    LockBusy,
    StaleGeneration,
    StorageError,
)
from casework.strict_json import sha256_hex


class PackageWriter:
    """Writes commits, and what is derived from them.

    Args:
        storage: Where packages lie.
        heads: What this process last saw of them.
        locks: The locks of their cases.
        actor: Who is written into commits as their author.
    """

    def __init__(self, storage: Storage, heads: HeadCache, *, locks: CaseLocks, actor: str) -> None:
        self._storage = storage
        self._heads = heads
        self._locks = locks
        self._actor = actor

    def held(self, case_id: str) -> AbstractContextManager[None]:
        """Hold a case's lock, unless this process does so already."""
        return nullcontext() if self._locks.is_held(case_id) else self._locks.hold(case_id)

    def append(
        self,
        head: PackageHead,
        step: Step,
        contents: Sequence[tuple[str, bytes]],
        *,
        actor: str | None = None,
    ) -> PackageHead:
        """Commit a step on top of a head, and return the new head.

        Args:
            head: What the step was made for.
            step: What it does.
            contents: The new files.
            actor: Who does it; by default the writer's own.

        Raises:
            IllegalTransition: The step cannot follow the head; nothing was written.
            StaleGeneration: The head is not the newest any more.
            StorageError: The ground refused.
        """
        reason = objection(head, step)
        if reason is not None:
            raise IllegalTransition(reason, code="impossible_commit")
        after = advance(
            head,
            step.operations,
            analysis_revision=step.analysis_revision,
            phase=step.phase,
            forgotten=step.kind is CommitKind.FORGOTTEN,
        )
        record = CommitRecord(
            generation=after.generation,
            previous_sha256=head.record_sha256 or None,
            committed_at=step.at,
            actor=actor or self._actor,
            kind=step.kind,
            analysis_revision=after.analysis_revision,
            phase=after.phase,
            status=after.status,
            routing=after.routing,
            operations=step.operations,
            files=step.files,
            forgotten=step.forgotten,
        ).encode()
        self._publish(head, [*contents, (commit_path(after.generation), record)])
        after = replace(after, record_sha256=sha256_hex(record))
        self._heads.put(case_folder(head.case_id), after)
        if after.generation % INTERVAL == 0:
            self._snapshot(head, after, step.operations)
        return after

    def _publish(self, head: PackageHead, contents: Sequence[tuple[str, bytes]]) -> None:
        folder = case_folder(head.case_id)
        files = [(f"{folder}/{path}", content) for path, content in contents]
        for _ in files:
            if self._locks.is_void(head.case_id):
                self._heads.drop(folder)
                raise ousted()
            try:
                self._storage.create(files)
            except AlreadyExists as clash:
                if clash.path == files[-1][0]:
                    self._heads.drop(folder)
                    raise stale(head.generation) from None
                self._remove_leftover(folder, head, clash.path)
            except StorageError:
                # The record may be visible without being durable; the next look decides.
                self._heads.drop(folder)
                raise
            else:
                return
        raise stale(head.generation)

    def _remove_leftover(self, folder: str, head: PackageHead, path: str) -> None:
        """Remove a file that a crash left where a new one has to go, if no commit names it."""
        reader = PackageReader(self._storage, folder)
        inner = path.removeprefix(f"{folder}/")
        with self.held(head.case_id):
            if self._locks.is_ousted_at_work(head.case_id):
                raise LockBusy(
                    "a worker that lost this case stands still in the middle of its commit",
                    remedy="let it continue, or end it",
                )
            if head.generation == 0:
                if reader.record_bytes(1) is not None:
                    raise stale(0)
            elif reader.refreshed(head).generation != head.generation:
                raise stale(head.generation)
            elif named_entry(reader, head, inner) is not None:
                raise FormatError(
                    "a committed file cannot be written again", code="immutable_file", where=inner
                )
            with suppress(NotFound):
                self._storage.delete(path)

    def _snapshot(
        self, before: PackageHead, head: PackageHead, states: Mapping[str, OperationState]
    ) -> None:
        """Write the snapshot of a head; it is derived, so no failure of it matters."""
        folder = case_folder(head.case_id)
        reader = PackageReader(self._storage, folder)
        with suppress(CheckpointError):
            after, merged = reader.merged_block(head.generation, reach(head.generation))
            if after is None:
                content = encode_snapshot(head, 0, dict(head.operations.stored()))
            else:
                block = {**merged, **before.operations.recent, **states}
                content = encode_snapshot(head, after, block)
            path = f"{folder}/{snapshot_path(head.generation)}"
            with suppress(NotFound):
                self._storage.delete(path)
            self._storage.create([(path, content)])


def ousted() -> StaleGeneration:
    """Return the error of a worker whose case was taken over while it stood still."""
    return StaleGeneration(
        "another worker has taken the case over; the result was discarded",
        code="taken_over",
        remedy="none is needed: the other worker finishes the operation",
    )


def stale(generation: int) -> StaleGeneration:
    """Return the error of a writer who came too late."""
    return StaleGeneration(
        f"generation {generation} is no longer the newest; the result was discarded",
        remedy="open the package again",
    )
