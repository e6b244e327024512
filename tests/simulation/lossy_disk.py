"""A model of what a disk may hold after the power fails, fed with recorded calls.

The model is the weakest that POSIX allows: bytes are certain once their file was synced, names once
their folder was; everything else may be there, be missing, or (bytes) be torn, each by itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePath

from casework.checkpoints.disk import DiskCall, Draft
from casework.checkpoints.memory_storage import MemoryStorage
from casework.checkpoints.storage import is_safe_path


@dataclass(eq=False)
class Inode:
    """A file's bytes, or a folder's names."""

    is_folder: bool = False
    written: bytes = b""
    durable: bytes | None = None
    """The bytes that are certain; None if none are."""
    names: dict[str, Inode] = field(default_factory=dict)
    """The names that are certain."""
    pending: list[tuple[str, Inode | None]] = field(default_factory=list)
    """Names given (or, with None, taken away) since the folder was last synced."""

    def now(self) -> dict[str, Inode]:
        """Return the names as a running system sees them."""
        return _applied(self.names, self.pending)


def _applied(names: dict[str, Inode], changes: list[tuple[str, Inode | None]]) -> dict[str, Inode]:
    result = dict(names)
    for name, inode in changes:
        if inode is None:
            result.pop(name, None)
        else:
            result[name] = inode
    return result


class LossyDisk:
    """Follows the calls below one folder.

    Args:
        root: The folder; it counts as durable, and so does what lies above it.
    """

    def __init__(self, root: PurePath) -> None:
        self._root = root
        self._tree = Inode(is_folder=True)
        self._drafts: dict[Draft, Inode] = {}

    def follow(self, call: DiskCall) -> None:
        """Take one call that has happened."""
        if call.draft is not None:
            self._follow_draft(call, call.draft)
            return
        found = self._find(PurePath(call.path))
        match call.verb:
            case "make_folder":
                self._give(call.path, Inode(is_folder=True))
            case "sync_folder":
                if found is not None:
                    found.names, found.pending = found.now(), []
            case "sync_file":
                assert found is not None
                found.durable = found.written
            case "unlink":
                self._give(call.path, None)
            case other:
                raise AssertionError(other)

    def _follow_draft(self, call: DiskCall, draft: Draft) -> None:
        match call.verb:
            case "begin":
                self._drafts[draft] = Inode()
                if draft.path is not None:
                    self._give(draft.path, self._drafts[draft])
            case "write":
                self._drafts[draft].written += call.content
            case "sync":
                self._drafts[draft].durable = self._drafts[draft].written
            case "publish":
                self._give(call.path, self._drafts[draft])
            case other:
                raise AssertionError(other)

    def states(self) -> Iterator[MemoryStorage]:
        """Yield what may be found after a power loss now, one storage for each possibility."""
        pending = [
            (folder, number)
            for folder in _folders(self._tree)
            for number in range(len(folder.pending))
        ]
        choices = [frozenset(pending), frozenset[tuple[Inode, int]]()]
        for one in pending:
            choices += [frozenset(pending) - {one}, frozenset({one})]
        for kept in dict.fromkeys(choices):
            for share in (0.0, 0.5, 1.0):
                yield self._storage(kept, share)

    def _storage(self, kept: frozenset[tuple[Inode, int]], share: float) -> MemoryStorage:
        """Return the files that are left if these names were kept, and this share of the bytes."""
        storage = MemoryStorage()

        def fill(folder: Inode, path: str) -> None:
            survived = [
                change for number, change in enumerate(folder.pending) if (folder, number) in kept
            ]
            for name, inode in _applied(folder.names, survived).items():
                place = f"{path}/{name}" if path else name
                if inode.is_folder:
                    fill(inode, place)
                elif is_safe_path(place):
                    whole = inode.durable
                    if whole is None:
                        whole = inode.written[: int(len(inode.written) * share)]
                    storage.create([(place, whole)])

        fill(self._tree, "")
        return storage

    def _give(self, path: str, inode: Inode | None) -> None:
        folder = self._find(PurePath(path).parent)
        if folder is not None:
            folder.pending.append((PurePath(path).name, inode))

    def _find(self, path: PurePath) -> Inode | None:
        """Return what a running system finds at a path; None if nothing, or above the root."""
        found: Inode | None = self._tree if path.is_relative_to(self._root) else None
        for name in path.parts[len(self._root.parts) :]:
            found = found.now().get(name) if found is not None else None
        return found


def _folders(inode: Inode) -> Iterator[Inode]:
    yield inode
    for child in inode.now().values():
        if child.is_folder:
            yield from _folders(child)
