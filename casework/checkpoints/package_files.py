"""The files of a package: how commits name them, and reading them only as they were named."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Final

from casework.checkpoints.fold import PackageHead
from casework.checkpoints.forgetting import finish_forgetting, has_content
from casework.checkpoints.names import case_folder, check_id, review_path, safe_relative_path
from casework.checkpoints.package_reader import VERIFY_REMEDY, PackageReader
from casework.checkpoints.records import FileEntry, PackageStatus
from casework.checkpoints.storage import NotFound, Storage, is_safe_path
from casework.errors import CheckpointError, FormatError, IntegrityError, PackageNotFound
from casework.strict_json import sha256_hex

_LOG = logging.getLogger(__name__)

_CHANGEABLE: Final = frozenset({"case", "llm", "reviews", "revisions"})
"""Top folders of a package that later commits may add to."""


def case_folders(storage: Storage) -> Iterator[str]:
    """Iterate over the folders in a storage that may hold packages."""
    for spread in storage.list("cases"):
        if spread.endswith("/"):
            for name in storage.list(f"cases/{spread[:-1]}"):
                if name.endswith("/"):
                    yield f"cases/{spread}{name[:-1]}"


def heads_in(storage: Storage) -> Iterator[PackageHead]:
    """Yield the head of every package in a storage that can be read.

    What a crash left of a forgotten case is removed on the way.
    """
    for folder in case_folders(storage):
        reader = PackageReader(storage, folder)
        try:
            head = reader.head()
            if head.status is PackageStatus.FORGOTTEN and has_content(reader):
                finish_forgetting(reader)
        except PackageNotFound:
            continue
        except CheckpointError as error:
            _LOG.warning(
                "a package cannot be read; `casework verify` tells why",
                extra={"action": "package_damaged", "code": error.code, "where": folder},
            )
        else:
            yield head


def refuse_remains(storage: Storage, case_id: str) -> None:
    """Refuse to begin a case where records of one lie without their first.

    Raises:
        IntegrityError: A receiving was interrupted there, or a package has lost its beginning;
            nothing was removed.
    """
    folder = f"{case_folder(case_id)}/commits"
    if storage.list(folder):
        raise IntegrityError(
            "records lie here without the first commit of the case",
            code="commit_missing",
            where=folder,
            remedy="receive the package again, or restore it from a copy",
        )


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


def named_entry(reader: PackageReader, head: PackageHead, path: str) -> FileEntry | None:
    """Find the entry under which a commit names a file, None if none does."""
    if path.startswith("llm/operations/"):
        state = head.operations.get(path.split("/")[2])
        entries = state.artifacts if state else ()
        return next((entry for entry in entries if entry.path == path), None)
    if path.startswith("reviews/"):
        state = head.operations.get(path.split("/")[1])
        mark = state.review if state else None
        if state and mark and path == review_path(state.ophash, mark.number):
            return FileEntry(path, mark.sha256, mark.size)
    for generation in (1, *range(head.generation, 1, -1)):
        record, _ = reader.record(generation)
        for entry in record.files:
            if entry.path == path:
                return entry
    return None


def read_named(reader: PackageReader, head: PackageHead, path: str) -> bytes:
    """Return the bytes of a file of a package, checked against its digest.

    Raises:
        PackageNotFound: No commit names it, or the case was forgotten.
        IntegrityError: It is gone or is not what was committed.
    """
    refuse_forgotten(head)
    entry = named_entry(reader, head, path)
    if entry is None:
        raise PackageNotFound("no commit names this file", where=path)
    return read_checked(reader, entry)


def refuse_forgotten(head: PackageHead) -> None:
    """Raise where a case's content was removed.

    Raises:
        PackageNotFound: It was; code ``case_forgotten``.
    """
    if head.status is PackageStatus.FORGOTTEN:
        raise PackageNotFound(
            "the case was forgotten; its content was removed",
            code="case_forgotten",
            where=head.case_id,
        )


def named_files(folder: str, files: Mapping[str, bytes]) -> list[tuple[FileEntry, bytes]]:
    """Give files of the user's their places below a folder of a new package.

    Raises:
        FormatError: A name cannot be stored, or is also the folder of another.
    """
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


def added_entry(path: str, content: bytes) -> FileEntry:
    """Describe a file that a commit is to add.

    Raises:
        FormatError: Commits may not write there.
    """
    if not is_safe_path(path) or path.split("/", 1)[0] not in _CHANGEABLE:
        raise FormatError("a commit may not write there", code="unsafe_path")
    return FileEntry.of(path, content)
