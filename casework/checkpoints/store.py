"""The store of case packages: create, open, commit, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from casework.checkpoints.fold import PackageHead, advance, unborn
from casework.checkpoints.folder_storage import FolderStorage
from casework.checkpoints.head_cache import HeadCache
from casework.checkpoints.locks import CaseLocks, FileLocks, ProcessLocks
from casework.checkpoints.names import (
    PACKAGE_FILE,
    case_folder,
    check_id,
    commit_path,
    safe_relative_path,
    snapshot_path,
)
from casework.checkpoints.package_reader import VERIFY_REMEDY, PackageReader
from casework.checkpoints.records import (
    CommitKind,
    CommitRecord,
    FileEntry,
    OperationState,
    PackageIdentity,
    package_identifier,
)
from casework.checkpoints.snapshots import INTERVAL, encode_snapshot, reach
from casework.checkpoints.storage import AlreadyExists, NotFound, Storage, is_safe_path
from casework.checkpoints.transitions import Step, objection
from casework.errors import (
    CheckpointError,
    FormatError,
    IllegalTransition,
    IntegrityError,
    PackageNotFound,
    StaleGeneration,
    StorageError,
)
from casework.strict_json import sha256_hex

DEFAULT_PHASE: Final = "BUILDING_CASE"


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


def utc_now() -> datetime:
    """Return the wall-clock time in UTC."""
    return datetime.now(UTC)


class CheckpointStore:
    """Every case package below one root, with its locks.

    Methods may be called from many threads and processes at once; packages do not wait for each
    other. Whoever commits to a case should hold its lock: the lock saves work, and the generation
    decides who won.

    Args:
        root: The runtime folder, or a storage that takes its place.
        now: The clock.
        actor: Who is written into commits as their author.
    """

    def __init__(
        self,
        root: Path | Storage,
        *,
        now: Callable[[], datetime] = utc_now,
        actor: str = "casework",
    ) -> None:
        self._now = now
        self._actor = actor
        self._heads = HeadCache()
        self._locks: CaseLocks
        if isinstance(root, Path):
            self._storage: Storage = FolderStorage(root)
            self._locks = FileLocks(root / "locks")
        else:
            self._storage = root
            self._locks = ProcessLocks()

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
        inputs = _named_files("original", originals)
        products = _named_files("case", derived or {})
        entries = [entry for entry, _ in inputs]
        package_id = package_identifier(case_id, {entry.path: entry.sha256 for entry in entries})
        folder = case_folder(case_id)
        known = self._known_case(folder, case_id, package_id)
        if known is not None:
            return known
        with self._held(case_id):
            known = self._known_case(folder, case_id, package_id)
            if known is not None:
                return known
            self._clear_unborn(folder)
            identity = PackageIdentity(
                case_id=case_id, package_id=package_id, created_at=self._now()
            )
            return self._create(identity, [*inputs, *products], phase)

    def open(self, case_id: str, package_id: str | None = None) -> PackageHead:
        """Return a package's head; one failed open if nothing changed since this process looked.

        Raises:
            PackageNotFound: There is no such case, or its package has another id.
            IntegrityError: The package contradicts itself, or has lost commits.
        """
        folder = case_folder(check_id(case_id, "case id"))
        reader = PackageReader(self._storage, folder)
        head = self._heads.get(folder)
        head = reader.head() if head is None else reader.refreshed(head)
        if head.case_id != case_id:
            raise IntegrityError("the folder holds another case", where=folder)
        self._heads.put(folder, head)
        if package_id is not None and package_id != head.package_id:
            raise PackageNotFound("the case has another package", code="other_package")
        return head

    def commit(self, change: Change) -> PackageHead:
        """Add one generation to a package; hold the case's lock while you do.

        Every new file is durable before the record that names it becomes visible.

        Raises:
            StaleGeneration: Somebody committed since; nothing of the change is visible.
            IllegalTransition: The change cannot follow what is stored.
            StorageError: The ground refused. Unless the code is ``commit_unconfirmed``, the old
                generation stands.
        """
        folder = case_folder(change.case_id)
        head = self._heads.get(folder)
        if head is None or head.generation != change.expected_generation:
            head = self.open(change.case_id)
        if (head.package_id, head.generation) != (change.package_id, change.expected_generation):
            raise _stale(change.expected_generation)
        entries = tuple(_entry(path, content) for path, content in change.files)
        step = Step(
            kind=change.kind,
            at=change.at,
            analysis_revision=change.analysis_revision or head.analysis_revision,
            phase=head.phase if change.phase is None else change.phase,
            operations=change.operations,
            files=entries,
        )
        return self._append(folder, head, step, change.files)

    def read_file(self, case_id: str, path: str) -> bytes:
        """Return a file that a commit names, checked against its digest.

        Raises:
            PackageNotFound: No commit names such a file.
            IntegrityError: The bytes are gone or are not those that were committed.
        """
        head = self.open(case_id)
        reader = PackageReader(self._storage, case_folder(case_id))
        entry = _named_entry(reader, head, path)
        if entry is None:
            raise PackageNotFound("no commit names this file", where=path)
        return read_checked(reader, entry)

    def files(self, case_id: str) -> tuple[FileEntry, ...]:
        """Return what the first commit named: identity, inputs and products of the case."""
        record, _ = PackageReader(self._storage, case_folder(case_id)).record(1)
        return record.files

    def uncommitted(self, case_id: str, path: str) -> bytes | None:
        """Return the bytes of a whole file that a crash left before its commit, if there is one."""
        head = self.open(case_id)
        reader = PackageReader(self._storage, case_folder(case_id))
        if not is_safe_path(path) or _named_entry(reader, head, path) is not None:
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
        return self._locks.hold(check_id(case_id, "case id"))

    def list(self) -> Iterator[str]:
        """Iterate over the ids of all cases, from the packages themselves."""
        for folder in case_folders(self._storage):
            reader = PackageReader(self._storage, folder)
            with suppress(PackageNotFound):
                if reader.record_bytes(1) is not None:
                    yield reader.identity().case_id

    def _create(
        self, identity: PackageIdentity, files: Sequence[tuple[FileEntry, bytes]], phase: str
    ) -> PackageHead:
        folder = case_folder(identity.case_id)
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
            return self._append(folder, unborn(identity, phase), step, contents)
        except StaleGeneration:
            return self.open(identity.case_id, identity.package_id)

    def _append(
        self,
        folder: str,
        head: PackageHead,
        step: Step,
        contents: tuple[tuple[str, bytes], ...],
    ) -> PackageHead:
        reason = objection(head, step)
        if reason is not None:
            raise IllegalTransition(reason, code="impossible_commit")
        after = advance(
            head, step.operations, analysis_revision=step.analysis_revision, phase=step.phase
        )
        record = CommitRecord(
            generation=after.generation,
            previous_sha256=head.record_sha256 or None,
            committed_at=step.at,
            actor=self._actor,
            kind=step.kind,
            analysis_revision=after.analysis_revision,
            phase=after.phase,
            status=after.status,
            routing=after.routing,
            operations=step.operations,
            files=step.files,
        ).encode()
        self._publish(folder, head, [*contents, (commit_path(after.generation), record)])
        after = replace(after, record_sha256=sha256_hex(record))
        self._heads.put(folder, after)
        if after.generation % INTERVAL == 0:
            self._snapshot(folder, head, after, step.operations)
        return after

    def _publish(
        self, folder: str, head: PackageHead, contents: Sequence[tuple[str, bytes]]
    ) -> None:
        files = [(f"{folder}/{path}", content) for path, content in contents]
        case_id, record_path = head.case_id, files[-1][0]
        for _ in files:
            try:
                self._storage.create(files)
            except AlreadyExists as clash:
                if clash.path == record_path:
                    self._heads.drop(folder)
                    raise _stale(head.generation) from None
                self._remove_leftover(case_id, head, clash.path)
            except StorageError:
                # The record may be visible without being durable; the next look decides.
                self._heads.drop(folder)
                raise
            else:
                return
        raise _stale(head.generation)

    def _remove_leftover(self, case_id: str, head: PackageHead, path: str) -> None:
        """Remove a file that a crash left where a new one has to go, if no commit names it."""
        folder = case_folder(case_id)
        reader = PackageReader(self._storage, folder)
        with self._held(case_id):
            if head.generation and reader.refreshed(head).generation != head.generation:
                raise _stale(head.generation)
            inner = path.removeprefix(f"{folder}/")
            if head.generation and _named_entry(reader, head, inner) is not None:
                raise FormatError(
                    "a committed file cannot be written again", code="immutable_file", where=inner
                )
            with suppress(NotFound):
                self._storage.delete(path)

    def _clear_unborn(self, folder: str) -> None:
        """Remove records that an interrupted receiving left in a folder without a first commit."""
        for name in self._storage.list(f"{folder}/commits"):
            with suppress(NotFound):
                self._storage.delete(f"{folder}/commits/{name}")

    def _known_case(self, folder: str, case_id: str, package_id: str) -> PackageHead | None:
        if PackageReader(self._storage, folder).record_bytes(1) is None:
            return None
        head = self.open(case_id)
        if head.package_id != package_id:
            raise FormatError(
                "the case exists with other inputs",
                code="case_exists",
                remedy="import the changed inputs under a new case id",
            )
        return head

    def _snapshot(
        self,
        folder: str,
        before: PackageHead,
        head: PackageHead,
        states: Mapping[str, OperationState],
    ) -> None:
        """Write the snapshot of a head; it is derived, so no failure of it matters."""
        reader = PackageReader(self._storage, folder)
        block = {**before.operations.recent, **states}
        with suppress(CheckpointError):
            after, merged = reader.merged_block(head.generation, reach(head.generation))
            if after is None:
                content = encode_snapshot(head, 0, dict(head.operations.stored()))
            else:
                content = encode_snapshot(head, after, {**merged, **block})
            path = f"{folder}/{snapshot_path(head.generation)}"
            with suppress(NotFound):
                self._storage.delete(path)
            self._storage.create([(path, content)])

    def _held(self, case_id: str) -> AbstractContextManager[None]:
        return nullcontext() if self._locks.is_held(case_id) else self._locks.hold(case_id)


def case_folders(storage: Storage) -> Iterator[str]:
    """Iterate over the folders in a storage that may hold packages."""
    for spread in storage.list("cases"):
        if spread.endswith("/"):
            for name in storage.list(f"cases/{spread[:-1]}"):
                if name.endswith("/"):
                    yield f"cases/{spread}{name[:-1]}"


def read_checked(reader: PackageReader, entry: FileEntry) -> bytes:
    """Return the bytes of a committed file.

    Raises:
        IntegrityError: They are gone, or are not those that were committed.
    """
    try:
        content = reader.read(entry.path)
    except NotFound:
        raise IntegrityError(
            "a committed file is missing", where=entry.path, remedy=VERIFY_REMEDY
        ) from None
    if len(content) != entry.size or sha256_hex(content) != entry.sha256:
        raise IntegrityError(
            "the bytes are not those that were committed", where=entry.path, remedy=VERIFY_REMEDY
        )
    return content


def _named_entry(reader: PackageReader, head: PackageHead, path: str) -> FileEntry | None:
    """Find the entry under which a commit names a file."""
    parts = path.split("/")
    if parts[:2] == ["llm", "operations"] and len(parts) > len(_OPERATION_PARTS):
        state = head.operations.get(parts[2])
        entries = state.artifacts if state else ()
        return next((entry for entry in entries if entry.path == path), None)
    for generation in (1, *range(head.generation, 1, -1)):
        record, _ = reader.record(generation)
        for entry in record.files:
            if entry.path == path:
                return entry
    return None


def _named_files(folder: str, files: Mapping[str, bytes]) -> list[tuple[FileEntry, bytes]]:
    found: dict[str, tuple[FileEntry, bytes]] = {}
    for name, content in files.items():
        check_id(name, "file name")
        path = f"{folder}/{safe_relative_path(name)}"
        kept = None if path == f"{folder}/{name}" else name
        found[path] = (FileEntry.of(path, content, name=kept), content)
    for path in found:
        above = path
        while above := above.rpartition("/")[0]:
            if above in found:
                raise FormatError(
                    "one input is named like the folder of another", code="names_collide"
                )
    return [found[path] for path in sorted(found)]


def _entry(path: str, content: bytes) -> FileEntry:
    if not is_safe_path(path) or path.split("/", 1)[0] not in _CHANGEABLE:
        raise FormatError("a commit may not write there", code="unsafe_path")
    return FileEntry.of(path, content)


_CHANGEABLE: Final = frozenset({"case", "llm", "review"})
"""Top folders of a package that later commits may add to."""

_OPERATION_PARTS: Final = ("llm", "operations", "ophash")


def _stale(generation: int) -> StaleGeneration:
    return StaleGeneration(
        f"generation {generation} is no longer the newest; the result was discarded",
        remedy="open the package again",
    )
