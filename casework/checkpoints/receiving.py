"""Taking in a package from elsewhere: judged first, then added whole, never mixed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from casework.checkpoints.fold import PackageHead
from casework.checkpoints.names import case_folder, commit_path
from casework.checkpoints.package_files import read_checked
from casework.checkpoints.package_reader import PackageReader
from casework.checkpoints.records import PackageIdentity, PackageStatus
from casework.checkpoints.storage import AlreadyExists, Storage
from casework.checkpoints.verify import verify_storage
from casework.checkpoints.zip_storage import ZipStorage
from casework.errors import FormatError, IntegrityError

BATCH_BYTES: Final = 8 << 20
"""Bytes of received files that are held in memory and created together."""

BATCH_FILES: Final = 64


class Receipt(StrEnum):
    """What receiving a package came to."""

    IMPORTED = "imported"
    """The case was unknown; it has its sender's identity and generation now."""
    EXTENDED = "extended"
    """The case was known; it has the later generations now."""
    DUPLICATE = "duplicate"
    """Everything in it was known; nothing was written."""


@dataclass(frozen=True, slots=True)
class Received:
    """A received package: its head here, and what changed."""

    head: PackageHead
    receipt: Receipt


class IncomingPackage:
    """A sealed package that has been judged and may be taken in.

    Args:
        source: The ZIP; its names, sizes and kinds were checked when it was opened.

    Raises:
        IntegrityError: The oracle finds something wrong; the first finding is named.
        FormatError: Its case was forgotten, so there is nothing to take in.
    """

    def __init__(self, source: ZipStorage) -> None:
        report = verify_storage(source)
        if report.errors:
            first = report.errors[0]
            raise IntegrityError(
                f"{first.detail} ({len(report.errors)} finding(s))",
                code=first.code,
                where=first.path,
                remedy="ask the sender for another export; nothing was written",
            )
        self._reader = PackageReader(source)
        self.identity: PackageIdentity = self._reader.identity()
        self.generation = report.generation
        if self._reader.record(self.generation)[0].forgotten is not None:
            raise FormatError(
                "the case was forgotten by its sender",
                code="case_forgotten",
                remedy="forget it here as well, if that is meant",
            )

    def add_to(self, storage: Storage, known: PackageHead | None) -> Receipt:
        """Add what is missing; hold the case's lock while you do.

        A package that was unknown appears at once and whole, with its first commit, which is
        created last. A known one grows by one generation after another.

        Raises:
            FormatError: The case has another package here, or another history, or was forgotten.
            StorageError: The ground refused; receiving again continues.
        """
        if known is None:
            self._refuse_other_remains(storage)
            self._import(storage)
            return Receipt.IMPORTED
        if known.status is PackageStatus.FORGOTTEN:
            raise FormatError(
                "the case was forgotten here", code="case_forgotten", remedy="nothing was written"
            )
        if known.package_id != self.identity.package_id:
            raise FormatError(
                "the case has another package here", code="diverged", remedy="nothing was written"
            )
        if not self._has_history_of(storage, known):
            raise FormatError(
                "the case has another history here", code="diverged", remedy="nothing was written"
            )
        if self.generation <= known.generation:
            return Receipt.DUPLICATE
        self._extend(storage, known.generation)
        return Receipt.EXTENDED

    def _has_history_of(self, storage: Storage, known: PackageHead) -> bool:
        """Tell whether both packages agree up to the older one's newest commit."""
        common = min(known.generation, self.generation)
        here = PackageReader(storage, case_folder(self.identity.case_id)).record_bytes(common)
        return here is not None and here == self._reader.record_bytes(common)

    def _refuse_other_remains(self, storage: Storage) -> None:
        """Refuse to write where records lie that are not of this package."""
        here = PackageReader(storage, case_folder(self.identity.case_id))
        for name in storage.list(here.path("commits")):
            path = f"commits/{name}"
            generation = _generation_of(name)
            if generation is None or here.read(path) != self._reader.record_bytes(generation):
                raise IntegrityError(
                    "records of another history lie here without their first commit",
                    code="commit_missing",
                    where=here.path(path),
                    remedy="restore the case from a copy; nothing was written",
                )

    def _import(self, storage: Storage) -> None:
        for batch in _batches(self._files(1, self.generation)):
            _create_or_replace(storage, batch)
        commits = [self._commit(number) for number in range(self.generation, 0, -1)]
        _create_or_replace(storage, commits)

    def _extend(self, storage: Storage, known: int) -> None:
        for generation in range(known + 1, self.generation + 1):
            for batch in _batches(self._files(generation, generation)):
                _create_or_replace(storage, batch)
            storage.create([self._commit(generation)])

    def _files(self, first: int, last: int) -> Iterator[tuple[str, bytes]]:
        folder = case_folder(self.identity.case_id)
        for record, _ in self._reader.records(first, last):
            for entry in record.files:
                yield f"{folder}/{entry.path}", read_checked(self._reader, entry)

    def _commit(self, generation: int) -> tuple[str, bytes]:
        content = self._reader.record_bytes(generation)
        assert content is not None, "the oracle has seen it"
        return f"{case_folder(self.identity.case_id)}/{commit_path(generation)}", content


def _generation_of(name: str) -> int | None:
    digits = name.removesuffix(".json")
    return int(digits) if digits.isdecimal() and digits.isascii() else None


def _batches(files: Iterator[tuple[str, bytes]]) -> Iterator[list[tuple[str, bytes]]]:
    batch: list[tuple[str, bytes]] = []
    size = 0
    for path, content in files:
        batch.append((path, content))
        size += len(content)
        if size >= BATCH_BYTES or len(batch) >= BATCH_FILES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _create_or_replace(storage: Storage, files: list[tuple[str, bytes]]) -> None:
    """Create files that no commit here names yet, in the place of leftovers if there are any."""
    for _ in range(len(files) + 1):
        try:
            storage.create(files)
        except AlreadyExists as clash:
            storage.delete(clash.path)
        else:
            return
    raise FormatError("somebody else writes to this case", code="diverged")
