"""Finding a package's newest commit and folding what leads to it, without listing anything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from casework.checkpoints.fold import Encoded, PackageHead, apply, unborn
from casework.checkpoints.names import PACKAGE_FILE, commit_path, snapshot_path
from casework.checkpoints.records import CommitRecord, PackageIdentity
from casework.checkpoints.snapshots import INTERVAL, Snapshot, reach, read_or_none, restore
from casework.checkpoints.storage import NotFound, Storage, join
from casework.errors import CheckpointError, IntegrityError, PackageNotFound
from casework.strict_json import sha256_hex

VERIFY_REMEDY: Final = "run `casework verify` on the package and restore it from a copy"

_Step: TypeAlias = "Snapshot | tuple[int, int]"
"""A snapshot to take over, or a range of generations (from, to) to fold record by record."""


class PackageReader:
    """One package in a storage, read without locks and without writing.

    Args:
        storage: Where it lies.
        folder: Its folder there; the empty string if the storage holds nothing else.
    """

    def __init__(self, storage: Storage, folder: str = "") -> None:
        self.storage = storage
        self.folder = folder

    def path(self, name: str) -> str:
        """Return a storage path for a path in the package."""
        return join(self.folder, name)

    def read(self, name: str) -> bytes:
        """Return the bytes of a file of the package."""
        return self.storage.read(self.path(name))

    def identity(self) -> PackageIdentity:
        """Read ``package.json``.

        Raises:
            PackageNotFound: There is none.
            FormatError: It is not one of ours.
        """
        try:
            content = self.read(PACKAGE_FILE)
        except NotFound:
            raise PackageNotFound("there is no package", where=self.folder or None) from None
        return PackageIdentity.decode(content, self.path(PACKAGE_FILE))

    def record_bytes(self, generation: int) -> bytes | None:
        """Return a commit record's bytes, or None if there is no such generation."""
        try:
            return self.read(commit_path(generation))
        except NotFound:
            return None

    def record(self, generation: int) -> tuple[CommitRecord, str]:
        """Read one commit record and the digest of its bytes.

        Raises:
            IntegrityError: It is missing or damaged, or is another generation's.
        """
        content = self.record_bytes(generation)
        if content is None:
            raise self._damaged(generation, "the commit is missing")
        return self._decoded(generation, content), sha256_hex(content)

    def records(self, first: int, last: int) -> Iterator[tuple[CommitRecord, str]]:
        """Iterate over the records of some generations, in order."""
        for generation in range(first, last + 1):
            yield self.record(generation)

    def newest(self, at_least: int = 0) -> int:
        """Return the newest generation: gallop up from what is known, then halve.

        Args:
            at_least: A generation that is known to exist.

        Raises:
            PackageNotFound: Not even the first commit is there.
            IntegrityError: The generation known to exist is gone.
        """
        low = max(at_least, 1)
        if self.record_bytes(low) is None:
            if self.record_bytes(1) is None:
                raise PackageNotFound("there is no package", where=self.folder or None)
            raise self._damaged(low, "a commit known to exist is missing")
        stride = 1
        while self.record_bytes(low + stride) is not None:
            low += stride
            stride *= 2
        high = low + stride
        while high - low > 1:
            middle = (low + high) // 2
            if self.record_bytes(middle) is None:
                high = middle
            else:
                low = middle
        return low

    def head(self, at_least: int = 0) -> PackageHead:
        """Find the newest commit and fold the package up to it.

        Raises:
            PackageNotFound: There is no package.
            IntegrityError: The chain of records is broken.
            FormatError: A record is not one that this version reads.
        """
        newest = self.newest(at_least)
        origin = unborn(self.identity())
        try:
            return self._folded(origin, self._steps(newest), newest)
        except CheckpointError:
            # Only the commits decide. A snapshot that contradicts them is passed over.
            return self.forward(origin, newest)

    def _folded(self, head: PackageHead, steps: list[_Step], newest: int) -> PackageHead:
        for step in reversed(steps):
            if isinstance(step, Snapshot):
                head = restore(head, step)
            else:
                head = self.forward(head, step[1])
        if isinstance(steps[0], Snapshot) and head.record_sha256 != self.record(newest)[1]:
            raise self._damaged(newest, "the snapshot is of another history")
        return head

    def forward(self, head: PackageHead, generation: int) -> PackageHead:
        """Fold the records after a head, up to a generation, checking the chain."""
        for number in range(head.generation + 1, generation + 1):
            record, record_sha256 = self.record(number)
            if (record.previous_sha256 or "") != head.record_sha256:
                raise self._damaged(number, "it does not follow the commit before it")
            head = apply(head, record, record_sha256)
        return head

    def refreshed(self, head: PackageHead) -> PackageHead:
        """Bring a head up to date; one failed open if nothing has happened."""
        while (content := self.record_bytes(head.generation + 1)) is not None:
            record = self._decoded(head.generation + 1, content)
            if (record.previous_sha256 or "") != head.record_sha256:
                raise self._damaged(record.generation, "it does not follow the commit before it")
            head = apply(head, record, sha256_hex(content))
        return head

    def _steps(self, newest: int) -> list[_Step]:
        """Return how to fold up to a generation, the last step first."""
        position = newest - newest % INTERVAL
        steps: list[_Step] = [(position + 1, newest)] if position < newest else []
        while position > 0:
            snapshot = self.snapshot(position)
            if snapshot is None:
                steps.append((position - INTERVAL + 1, position))
                position -= INTERVAL
            else:
                steps.append(snapshot)
                position = snapshot.after
        return steps

    def snapshot(self, generation: int) -> Snapshot | None:
        """Return the snapshot of a generation if it is there and whole."""
        path = snapshot_path(generation)
        try:
            content = self.read(path)
        except NotFound:
            return None
        return read_or_none(content, self.path(path), generation)

    def merged_block(self, generation: int, after: int) -> tuple[int | None, dict[str, Encoded]]:
        """Join the snapshots between ``after`` and the 64 generations before ``generation``.

        Returns:
            The generation from which they reach without a gap, and their states; None and nothing
            if one of them, or one of those before ``after``, is missing.
        """
        position = generation - INTERVAL
        blocks: list[Snapshot] = []
        while position > after:
            snapshot = self.snapshot(position)
            if snapshot is None:
                return None, {}
            blocks.append(snapshot)
            position = snapshot.after
        if not self._reaches_back(position):
            return None, {}
        merged: dict[str, Encoded] = {}
        for block in reversed(blocks):
            merged.update(block.states)
        return position, merged

    def _reaches_back(self, position: int) -> bool:
        """Tell whether the snapshots up to a generation are there, back to the beginning."""
        names = set(self.storage.list(self.path("snapshots")))
        expected = position
        while expected > 0 and f"{expected:010d}.json" in names:
            expected = reach(expected)
        if expected <= 0:
            return True
        while position > 0:
            snapshot = self.snapshot(position)
            if snapshot is None:
                return False
            position = snapshot.after
        return True

    def _decoded(self, generation: int, content: bytes) -> CommitRecord:
        record = CommitRecord.decode(content, self.path(commit_path(generation)))
        if record.generation != generation:
            raise self._damaged(generation, "the record is of another generation")
        return record

    def _damaged(self, generation: int, what: str) -> IntegrityError:
        return IntegrityError(what, where=self.path(commit_path(generation)), remedy=VERIFY_REMEDY)
