"""The store of case packages: create, open, commit, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Final

from casework.checkpoints.change import Change
from casework.checkpoints.disk import Disk
from casework.checkpoints.fold import PackageHead, unborn
from casework.checkpoints.folder_storage import FolderStorage
from casework.checkpoints.forgetting import end_intents, entomb, finish_forgetting
from casework.checkpoints.ground import prove_mount, prove_storage, waiting_ratio
from casework.checkpoints.head_cache import HeadCache
from casework.checkpoints.index import PackageIndex
from casework.checkpoints.inflight import InflightIntents, Intent
from casework.checkpoints.inspection import Inspection
from casework.checkpoints.locks import CaseLocks, FileLocks, ProcessLocks, prove_exclusion
from casework.checkpoints.names import PACKAGE_FILE, case_folder, check_id, outcome_path
from casework.checkpoints.package_files import (
    added_entry,
    case_folders,
    heads_in,
    named_entry,
    named_files,
    read_named,
    refuse_remains,
)
from casework.checkpoints.package_reader import PackageReader
from casework.checkpoints.package_writer import PackageWriter, stale
from casework.checkpoints.receiving import IncomingPackage, Received
from casework.checkpoints.records import (
    CommitKind,
    FileEntry,
    PackageIdentity,
    PackageStatus,
    package_identifier,
)
from casework.checkpoints.resumption import resumed
from casework.checkpoints.storage import NotFound, Storage, is_safe_path
from casework.checkpoints.transitions import Step
from casework.checkpoints.zip_export import export_package
from casework.checkpoints.zip_storage import ZipLimits, ZipStorage
from casework.errors import (
    CheckpointError,
    FormatError,
    IntegrityError,
    LockBusy,
    PackageNotFound,
    StaleGeneration,
    StorageError,
)

DEFAULT_PHASE: Final = "BUILDING_CASE"


def utc_now() -> datetime:
    """Return the wall-clock time in UTC."""
    return datetime.now(UTC)


class CheckpointStore:
    """Every case package below one root, with its locks, its index and its in-flight intents.

    Methods may be called from many threads and processes at once; packages do not wait for each
    other. Whoever commits to a case should hold its lock: the lock saves work, and the generation
    decides who won.

    Args:
        root: The runtime folder, or a storage that takes its place.
        now: The clock.
        actor: Who is written into commits as their author.
        disk: The file system calls, for tests that watch or break them.
    """

    def __init__(
        self,
        root: Path | Storage,
        *,
        now: Callable[[], datetime] = utc_now,
        actor: str = "casework",
        disk: Disk | None = None,
    ) -> None:
        self.folder = root if isinstance(root, Path) else None
        self._now = now
        self._heads = HeadCache()
        self._disk = disk or Disk()
        self._storage: Storage = (
            FolderStorage(root, disk=self._disk) if isinstance(root, Path) else root
        )
        self.locks: CaseLocks = (
            ProcessLocks() if self.folder is None else FileLocks(self.folder / "locks")
        )
        self._writer = PackageWriter(self._storage, self._heads, locks=self.locks, actor=actor)
        self.inflight = InflightIntents(self._storage)

    @cached_property
    def index(self) -> PackageIndex:
        """The index, opened when it is first asked."""
        path = None if self.folder is None else self.folder / "index.sqlite3"
        return PackageIndex(path, lambda: heads_in(self._storage))

    def prove(self) -> None:
        """Check that the ground keeps its promises; call it before anything is paid for.

        Raises:
            StorageError: A taken name can be taken again, syncing fails, or locks keep nobody out.
        """
        prove_storage(self._storage)
        if self.folder is not None:
            prove_mount(self.folder)
            prove_exclusion(self.folder / "locks")

    def disk_threads(self, most: int) -> int:
        """Return how many threads keep both processor and disk busy here, at most so many.

        As many as fit into a thread's waiting: more would only take turns at the interpreter,
        which costs more than it brings where a sync takes a tenth of a millisecond.

        Raises:
            StorageError: The ground refuses to create.
        """
        return max(1, min(most, round(waiting_ratio(self._storage))))

    def recover(self) -> tuple[Intent, ...]:
        """Bring index and intents up to date after a crash; call it once at start-up.

        Returns:
            The rounds that were begun and have no outcome, committed or left whole: their calls may
            have been made, and paid for, in vain. Those of a case that is being worked on now are
            not among them.
        """
        for case_id in self.index.unsure():
            with suppress(CheckpointError):
                head = self.open(case_id)
                if head.status is PackageStatus.FORGOTTEN:
                    self.forget(case_id)
                self.index.put(head)
        return tuple(intent for intent in self.inflight.list() if self._is_unconfirmed(intent))

    def create(
        self,
        case_id: str,
        originals: Mapping[str, bytes],
        *,
        derived: Mapping[str, bytes] | None = None,
        phase: str = DEFAULT_PHASE,
    ) -> PackageHead:
        """Create a case's package from its input files; the same again changes nothing.

        Args:
            case_id: Any text; it is stored word for word.
            originals: The inputs by the user's relative names.
            derived: Products made from the inputs alone, by relative names.
            phase: The phase that the case begins in.

        Raises:
            FormatError: The case exists with other inputs, or an id or name cannot be stored.
            LockBusy: Another process works on the case.
            StorageError: The ground refused; there is no half case.
        """
        check_id(case_id, "case id")
        inputs = named_files("original", originals)
        products = named_files("case", derived or {})
        package_id = package_identifier(case_id, {entry.path: entry.sha256 for entry, _ in inputs})
        known = self._known_case(case_id, package_id)
        if known is not None:
            return known
        with self.locks.hold(case_id):
            known = self._known_case(case_id, package_id)
            if known is not None:
                return known
            refuse_remains(self._storage, case_id)
            with suppress(StorageError):
                if self.index.generation(case_id):
                    self.index.forget(case_id)
            self._mark_unsure(case_id)
            identity = PackageIdentity(
                case_id=case_id, package_id=package_id, created_at=self._now()
            )
            head = self._begin(identity, [*inputs, *products], phase)
        self._tell_index(head)
        return head

    def open(self, case_id: str, package_id: str | None = None) -> PackageHead:
        """Return a package's head; one failed open if nothing changed since this process looked.

        Raises:
            PackageNotFound: There is no such case, or its package has another id.
            IntegrityError: The package contradicts itself, or has lost commits.
        """
        folder = case_folder(check_id(case_id, "case id"))
        reader = PackageReader(self._storage, folder)
        head = self._heads.get(folder)
        head = self._found(case_id, reader) if head is None else reader.refreshed(head)
        if head.case_id != case_id:
            raise IntegrityError("the folder holds another case", where=folder)
        self._heads.put(folder, head)
        if package_id is not None and package_id != head.package_id:
            raise PackageNotFound("the case has another package", code="other_package")
        return head

    def commit(self, change: Change) -> PackageHead:
        """Add one generation to a package; hold the case's lock while you do.

        Every new file is durable before the record that names it becomes visible. After a round it
        is the caller's to tell the index and to end the in-flight intent, in this order: until the
        intent is gone, :meth:`recover` makes up for what a crash left out.

        Raises:
            StaleGeneration: Somebody committed since; nothing of the change is visible.
            IllegalTransition: The change cannot follow what is stored; nothing was written.
            StorageError: The ground refused. Open the package again to see which generation stands.
        """
        head = self._heads.get(case_folder(change.case_id))
        if head is None or head.generation != change.expected_generation:
            head = self.open(change.case_id)
        if (head.package_id, head.generation) != (change.package_id, change.expected_generation):
            raise stale(change.expected_generation)
        step = Step(
            kind=change.kind,
            at=change.at,
            analysis_revision=change.analysis_revision or head.analysis_revision,
            phase=head.phase if change.phase is None else change.phase,
            operations=change.operations,
            files=tuple(added_entry(path, content) for path, content in change.files),
        )
        if change.kind is CommitKind.LLM_ROUND:
            return self._writer.append(head, step, change.files, actor=change.actor)
        self._mark_unsure(change.case_id)
        head = self._writer.append(head, step, change.files, actor=change.actor)
        self._tell_index(head)
        return head

    def resume(
        self,
        case_id: str,
        package_id: str,
        operation_id: str,
        *,
        new_operation_id: str,
        analysis_revision: int | None = None,
        answered: bool = False,
    ) -> PackageHead:
        """Let a blocked or failed operation live on under a new id, linked both ways.

        Takes the case's lock itself. The new operation is due at once, with a fresh budget.

        Args:
            case_id: The case.
            package_id: Its package.
            operation_id: The operation.
            new_operation_id: Under which it lives on.
            analysis_revision: Of which revision both are; the current one by default.
            answered: Also where it has an answer, which then is history: for results that were made
                from something else than would be asked now.

        Raises:
            NotDue: It is blocked, and its retry time has not come.
            OperationConflict: It was resumed before, or the new id is used.
            IllegalTransition: It has an answer and none may be left, or no round of it was run.
            PackageNotFound: There is no such case or operation.
            LockBusy: Somebody works on the case.
        """
        with self.locks.hold(case_id):
            head, at = self.open(case_id, package_id), self._now()
            operations = resumed(
                head,
                operation_id,
                new_operation_id=new_operation_id,
                analysis_revision=analysis_revision,
                answered=answered,
                at=at,
            )
            change = Change(
                case_id=case_id,
                package_id=package_id,
                expected_generation=head.generation,
                kind=CommitKind.RESUMED,
                at=at,
                operations=operations,
            )
            return self.commit(change)

    def forget(
        self, case_id: str, *, reason: str | None = None, actor: str | None = None
    ) -> PackageHead:
        """Remove a case's content for good; a tombstone, its last commit, stays with the records.

        Forgetting again finishes what a crash cut off; nothing else can follow.

        Raises:
            PackageNotFound: There is no such case.
            LockBusy: Somebody works on the case.
            FormatError: Files of other hands lie in the package; nothing was removed.
            StorageError: The ground refused; forgetting again goes on.
        """
        with self.locks.hold(case_id):
            head, reader = self.open(case_id), self._reader(case_id)
            self._mark_unsure(case_id)
            if head.status is not PackageStatus.FORGOTTEN:
                step = entomb(reader, head, at=self._now(), reason=reason)
                head = self._writer.append(head, step, (), actor=actor)
            finish_forgetting(reader)
            end_intents(self.inflight, case_id)
            with suppress(StorageError):
                self.index.bury(head)
        return head

    def export(self, case_id: str, target: Path) -> PackageHead:
        """Write the newest generation as a sealed ZIP, in the place of whatever has the name.

        The same generation gives the same bytes, wherever it is exported.

        Raises:
            IntegrityError: The package is damaged; nothing was written.
            StorageError: The disk refused; an older file of the name still stands.
        """
        head = self.open(case_id)
        export_package(self._reader(case_id), head.generation, target, disk=self._disk)
        return head

    def receive(self, source: Path, *, limits: ZipLimits | None = None) -> Received:
        """Take in a sealed package: judge it, then add what is missing here, unchanged.

        Nothing is retried, resumed or marked: a blocked operation waits here as it did there.

        Args:
            source: The ZIP.
            limits: How large it may be, counted while it is read.

        Raises:
            FormatError: It is unsafe to read, or its history and the one here have parted.
            IntegrityError: The oracle finds something wrong in it.
            LockBusy: Somebody works on the case.
            StorageError: The ground refused; receiving again continues.
        """
        with ZipStorage(source, limits) as archive:
            incoming = IncomingPackage(archive)
            case_id = incoming.identity.case_id
            with self.locks.hold(case_id):
                self._mark_unsure(case_id)
                known = None
                if self._reader(case_id).record_bytes(1) is not None:
                    known = self.open(case_id)
                receipt = incoming.add_to(self._storage, known)
                head = self.open(case_id)
        self._tell_index(head)
        return Received(head, receipt)

    def read_file(self, case_id: str, path: str) -> bytes:
        """Return a file that a commit names, checked against its digest.

        Raises:
            PackageNotFound: No commit names such a file.
            IntegrityError: The bytes are gone or are not those that were committed.
        """
        head = self.open(case_id)
        return read_named(self._reader(case_id), head, path)

    def inspect(self, case_id: str) -> Inspection:
        """Return a read-only view of a case's package; it takes no lock."""
        return Inspection(self._reader(check_id(case_id, "case id")))

    def files(self, case_id: str) -> tuple[FileEntry, ...]:
        """Return what the first commit named: identity, inputs and products of the case."""
        record, _ = self._reader(case_id).record(1)
        return record.files

    def uncommitted(self, case_id: str, path: str) -> bytes | None:
        """Return the bytes of a whole file that a crash left before its commit, if there is one."""
        head, reader = self.open(case_id), self._reader(case_id)
        if not is_safe_path(path) or named_entry(reader, head, path) is not None:
            return None
        with suppress(NotFound):
            return reader.read(path)
        return None

    def lock(self, case_id: str) -> AbstractContextManager[None]:
        """Hold a case's lock while the context lasts.

        Raises:
            LockBusy: Somebody else holds it; nothing was waited for.
            StorageError: The lock cannot be made.
        """
        return self.locks.hold(check_id(case_id, "case id"))

    def list(self) -> Iterator[str]:
        """Iterate over the ids of all cases, from the packages themselves."""
        for folder in case_folders(self._storage):
            reader = PackageReader(self._storage, folder)
            with suppress(CheckpointError):
                if reader.record_bytes(1) is not None:
                    yield reader.identity().case_id

    def package_folder(self, case_id: str) -> Path:
        """Return the folder of a case's package on the disk.

        Raises:
            PackageNotFound: The packages do not lie in a folder.
        """
        if self.folder is None:
            raise PackageNotFound("the packages do not lie in a folder", code="no_folder")
        return self.folder / case_folder(check_id(case_id, "case id"))

    def _reader(self, case_id: str) -> PackageReader:
        return PackageReader(self._storage, case_folder(case_id))

    def _found(self, case_id: str, reader: PackageReader) -> PackageHead:
        """Read a head that this process has not seen, not older than the index knows it."""
        known = 0
        with suppress(StorageError):
            known = self.index.generation(case_id)
        try:
            head = reader.head(known)
        except PackageNotFound:
            with suppress(StorageError):
                if known:
                    self.index.forget(case_id)
            raise
        if head.generation > known:
            self._tell_index(head)
        return head

    def _tell_index(self, head: PackageHead) -> None:
        """Update the index; it throws itself away when it cannot be updated."""
        with suppress(StorageError):
            self.index.put(head)

    def _mark_unsure(self, case_id: str) -> None:
        with suppress(StorageError):
            self.index.mark_unsure(case_id)

    def _begin(
        self, identity: PackageIdentity, files: Sequence[tuple[FileEntry, bytes]], phase: str
    ) -> PackageHead:
        described = identity.encode()
        everything = [(FileEntry.of(PACKAGE_FILE, described), described), *files]
        step = Step(
            kind=CommitKind.CREATED,
            at=identity.created_at,
            analysis_revision=1,
            phase=phase,
            operations={},
            files=tuple(entry for entry, _ in everything),
        )
        contents = tuple((entry.path, content) for entry, content in everything)
        try:
            return self._writer.append(unborn(identity, phase), step, contents)
        except StaleGeneration:
            return self.open(identity.case_id, identity.package_id)

    def _known_case(self, case_id: str, package_id: str) -> PackageHead | None:
        if self._reader(case_id).record_bytes(1) is None:
            return None
        head = self.open(case_id)
        if head.status is PackageStatus.FORGOTTEN:
            raise FormatError(
                "the case was forgotten here; import it under a new case id", code="case_forgotten"
            )
        if head.package_id != package_id:
            raise FormatError(
                "the case exists with other inputs",
                code="case_exists",
                remedy="import the changed inputs under a new case id",
            )
        return head

    def _is_unconfirmed(self, intent: Intent) -> bool:
        """Settle an intent whose round has an outcome, and tell whether it has none."""
        try:
            with self.locks.hold(intent.case_id):
                head = self.open(intent.case_id)
                state = head.operations.get(intent.ophash)
                if state is not None and state.rounds_completed >= intent.round:
                    self._tell_index(head)
                    self.inflight.end(intent.case_id, intent.ophash)
                    return False
                path = outcome_path(intent.ophash, intent.round)
                return self.uncommitted(intent.case_id, path) is None
        except LockBusy:
            return False
        except CheckpointError:
            return True
