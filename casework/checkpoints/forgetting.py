"""Removing a case's content for good: the tombstone first, then everything but the records.

Nothing can follow a tombstone, so the removal may be done by whoever comes next, and twice.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime

from casework.checkpoints.fold import PackageHead
from casework.checkpoints.folder_storage import FolderStorage
from casework.checkpoints.inflight import InflightIntents
from casework.checkpoints.names import PACKAGE_FILE
from casework.checkpoints.package_reader import PackageReader
from casework.checkpoints.records import CommitKind
from casework.checkpoints.storage import NotFound, Storage, is_safe_path, join
from casework.checkpoints.tombstone import RemovedFile, Tombstone
from casework.checkpoints.transitions import Step
from casework.errors import FormatError


def entomb(reader: PackageReader, head: PackageHead, *, at: datetime, reason: str | None) -> Step:
    """Return the last step of a package, which names what will be removed by path and digest.

    Raises:
        IntegrityError: A record is missing or damaged.
        FormatError: Something lies in the package that could not be removed.
    """
    _refuse_strangers(reader.storage, reader.folder)
    named = sorted(
        (entry.path, entry.sha256)
        for record, _ in reader.records(1, head.generation)
        for entry in record.files
        if entry.path != PACKAGE_FILE
    )
    return Step(
        kind=CommitKind.FORGOTTEN,
        at=at,
        analysis_revision=head.analysis_revision,
        phase=head.phase,
        operations={},
        files=(),
        forgotten=Tombstone(reason, tuple(RemovedFile(path, sha256) for path, sha256 in named)),
    )


def finish_forgetting(reader: PackageReader) -> None:
    """Remove every file of a package but its records and its identity, leftovers included.

    Raises:
        StorageError: The ground refused; removing again goes on.
    """
    storage, folder = reader.storage, reader.folder
    for name in storage.list(folder):
        if name == "commits/":
            _settle(storage, join(folder, "commits"))
        elif name.endswith("/"):
            _remove_below(storage, join(folder, name[:-1]))
        elif name != PACKAGE_FILE:
            _remove(storage, join(folder, name))
    _settle(storage, folder)


def has_content(reader: PackageReader) -> bool:
    """Tell whether files lie in a package beside its records and its identity."""
    return any(
        _holds_files(reader.storage, join(reader.folder, name[:-1]))
        if name.endswith("/")
        else name != PACKAGE_FILE
        for name in reader.storage.list(reader.folder)
        if name != "commits/"
    )


def end_intents(inflight: InflightIntents, case_id: str) -> None:
    """Remove what is announced of a case."""
    for intent in inflight.list():
        if intent.case_id == case_id:
            inflight.end(case_id, intent.ophash)


def _remove_below(storage: Storage, folder: str) -> None:
    for name in storage.list(folder):
        if name.endswith("/"):
            _remove_below(storage, join(folder, name[:-1]))
        else:
            _remove(storage, join(folder, name))
    _settle(storage, folder)


def _remove(storage: Storage, path: str) -> None:
    with suppress(NotFound):
        storage.delete(path)


def _settle(storage: Storage, folder: str) -> None:
    """Remove the drafts of crashes as well, and make the removal durable."""
    if isinstance(storage, FolderStorage):
        storage.sweep_drafts(folder)
        storage.sync_names(folder)


def _holds_files(storage: Storage, folder: str) -> bool:
    return any(
        not name.endswith("/") or _holds_files(storage, join(folder, name[:-1]))
        for name in storage.list(folder)
    )


def _refuse_strangers(storage: Storage, folder: str) -> None:
    """Refuse to begin where names lie that no storage can address, so that nothing is left."""
    for name in storage.list(folder):
        path = join(folder, name.rstrip("/"))
        if not is_safe_path(path):
            raise FormatError(
                "files of other hands lie in the package",
                code="foreign_file",
                where=folder,
                remedy="`casework verify -v` names them; remove them first",
            )
        if name.endswith("/"):
            _refuse_strangers(storage, path)
