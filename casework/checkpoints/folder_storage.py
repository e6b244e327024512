"""Packages on a local disk: files created whole, durable in order, never overwritten."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeAlias

from casework.checkpoints.disk import TEMPORARY_PREFIX, Disk, Draft
from casework.checkpoints.storage import AlreadyExists, NotFound, check_path
from casework.errors import StorageError

DRAFTS_OPEN_MAX: Final = 16
"""Drafts kept open at once; a larger creation goes through the disk in parts of this size."""

DURABLE_FOLDERS_MAX: Final = 65_536
"""Folders remembered as durable; past it the memory starts anew, which costs a few syncs."""


Drafts: TypeAlias = list[tuple[str, bytes, Draft]]
"""Path, content and draft of each file that is being created."""


class FolderStorage:
    """A folder of the local disk as a storage.

    One creation of an outcome and its record costs three commits of a journalling file system:
    the bytes of both, the name of the first, the name of the last. Calls from several threads or
    processes run side by side, and the disk's journal joins their commits.

    Args:
        root: The folder; it is made, with its parents, when something is first created in it.
        disk: The file system calls.
    """

    def __init__(self, root: Path, *, disk: Disk | None = None) -> None:
        self.root = root
        self._top = os.path.abspath(root)  # noqa: PTH100 - links in the root are the user's choice
        self._disk = disk or Disk()
        self._durable: set[str] = set()

    def create(self, files: Sequence[tuple[str, bytes]]) -> None:
        """Create files durably, in order, and never over others; see :class:`Storage`."""
        paths = [check_path(path) for path, _ in files]
        assert paths
        assert len(set(paths)) == len(paths), "one path twice in a creation"
        folders = dict.fromkeys(_parent(path) for path in paths[:-1])
        *early, last = files
        place = _Place()
        try:
            while len(early) >= DRAFTS_OPEN_MAX:
                self._create_part(early[:DRAFTS_OPEN_MAX], place)
                del early[:DRAFTS_OPEN_MAX]
            drafts: Drafts = []
            try:
                self._write_out([*early, last], drafts, place=place)
                self._publish_early(drafts[:-1], place)
                path, _, draft = drafts[-1]
                self._sync_names(folders, _parent(path), place=place)
                self._publish_last(path, draft, place=place)
            finally:
                self._discard(drafts)
        except OSError as error:
            raise storage_error(error, place.step, place.path) from error

    def read(self, path: str) -> bytes:
        """Return a file's bytes; see :class:`Storage`."""
        full = self._full(check_path(path))
        try:
            return self._disk.read(full)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            raise NotFound(path) from None
        except OSError as error:
            raise storage_error(error, "read", path) from error

    def list(self, folder: str) -> list[str]:
        """Return the names directly in a folder; see :class:`Storage`. Drafts are left out."""
        full = self._full(check_path(folder)) if folder else self._top
        try:
            entries = self._disk.names(full)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise storage_error(error, "list", folder) from error
        return sorted(
            f"{name}/" if is_folder else name
            for name, is_folder in entries
            if not name.startswith(TEMPORARY_PREFIX)
        )

    def delete(self, path: str) -> None:
        """Remove a file; see :class:`Storage`."""
        try:
            self._disk.unlink(self._full(check_path(path)))
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(path) from None
        except OSError as error:
            raise storage_error(error, "delete", path) from error

    def sweep_drafts(self, folder: str) -> int:
        """Remove the drafts that crashes left in a folder, and return how many there were.

        Call it only while nobody creates files there.
        """
        full = self._full(check_path(folder))
        removed = 0
        try:
            for name, is_folder in self._disk.names(full):
                if name.startswith(TEMPORARY_PREFIX) and not is_folder:
                    self._disk.unlink(os.path.join(full, name))  # noqa: PTH118 - a string for speed
                    removed += 1
        except (FileNotFoundError, NotADirectoryError):
            return removed
        except OSError as error:
            raise storage_error(error, "delete", folder) from error
        return removed

    def sync_names(self, folder: str) -> None:
        """Return once what was removed from a folder stays removed; one that is gone is no error.

        Raises:
            StorageError: The ground refused.
        """
        try:
            self._disk.sync_folder(self._full(check_path(folder)))
        except FileNotFoundError:
            return
        except OSError as error:
            raise storage_error(error, "sync", folder) from error

    def _create_part(self, files: Sequence[tuple[str, bytes]], place: _Place) -> None:
        drafts: Drafts = []
        try:
            self._write_out(files, drafts, place=place)
            self._publish_early(drafts, place)
        finally:
            self._discard(drafts)

    def _write_out(
        self, files: Sequence[tuple[str, bytes]], drafts: Drafts, *, place: _Place
    ) -> None:
        looked_at: set[str] = set()
        place.step = "write"
        for path, content in files:
            place.path = path
            draft = self._begin(_parent(path), looked_at)
            drafts.append((path, content, draft))
            self._disk.write(draft, content)
            if len(drafts) > 1:
                # What is on its way when the first sync asks for a journal commit rides along.
                self._disk.start_writeback(draft)
        place.step = "sync"
        for path, _, draft in drafts:
            place.path = path
            self._disk.sync(draft)

    def _begin(self, folder: str, looked_at: set[str]) -> Draft:
        self._refuse_links(folder, looked_at)
        try:
            return self._disk.begin(self._full(folder))
        except FileNotFoundError:
            self._make_folders(folder)
            return self._disk.begin(self._full(folder))

    def _make_folders(self, folder: str) -> None:
        """Make a folder and what is missing above it; usually that is the folder alone."""
        missing: list[str] = []
        for ancestor in _ancestors(folder):
            if not ancestor:
                self._make_root()
                break
            try:
                self._make_folder(ancestor)
                break
            except FileNotFoundError:
                missing.append(ancestor)
        for ancestor in reversed(missing):
            self._make_folder(ancestor)

    def _make_folder(self, folder: str) -> None:
        with suppress(FileExistsError):
            self._disk.make_folder(self._full(folder))
            # It may have been durable once and removed since by other hands.
            self._durable.discard(folder)

    def _make_root(self) -> None:
        missing: list[str] = []
        full = self._top
        while not os.path.isdir(full):  # noqa: PTH112 - a string for speed
            missing.append(full)
            full = os.path.dirname(full)  # noqa: PTH120 - a string for speed
        for full in reversed(missing):
            with suppress(FileExistsError):
                self._disk.make_folder(full)
            self._disk.sync_folder(os.path.dirname(full))  # noqa: PTH120 - a string for speed

    def _refuse_links(self, folder: str, looked_at: set[str]) -> None:
        """Refuse a folder that is reached through a link, unless it was looked at before."""
        for ancestor in _ancestors(folder):
            if not ancestor or ancestor in self._durable or ancestor in looked_at:
                return
            if self._disk.is_link(self._full(ancestor)):
                raise StorageError(
                    "a link stands where a folder of ours should be",
                    code="link_in_path",
                    where=ancestor,
                    remedy="remove the link; packages are never written through links",
                )
            looked_at.add(ancestor)

    def _publish_early(self, drafts: Drafts, place: _Place) -> None:
        place.step = "name"
        for path, content, draft in drafts:
            place.path = path
            full = self._full(path)
            try:
                self._disk.publish(draft, full)
            except FileExistsError:
                if not self._holds(full, content):
                    raise AlreadyExists(path) from None
                self._disk.sync_file(full)

    def _holds(self, full: str, content: bytes) -> bool:
        try:
            return self._disk.read(full) == content
        except FileNotFoundError:
            return False

    def _publish_last(self, path: str, draft: Draft, *, place: _Place) -> None:
        place.step, place.path = "name", path
        try:
            self._disk.publish(draft, self._full(path))
        except FileExistsError:
            raise AlreadyExists(path) from None
        self._disk.sync_folder(self._full(_parent(path)))

    def _sync_names(self, folders: dict[str, None], last: str, *, place: _Place) -> None:
        """Make the names in folders durable, and every folder's own name up to the root's."""
        wanted = dict(folders)
        fresh: list[str] = []
        for folder in (*folders, last):
            for ancestor in _ancestors(folder):
                if ancestor in self._durable:
                    break
                fresh.append(ancestor)
                if ancestor:
                    wanted[_parent(ancestor)] = None
        place.step = "sync"
        for folder in wanted:
            place.path = folder
            self._disk.sync_folder(self._full(folder))
        if "" in fresh:
            self._sync_root_name(place)
        if len(self._durable) > DURABLE_FOLDERS_MAX:
            self._durable.clear()
        self._durable.update(fresh)

    def _sync_root_name(self, place: _Place) -> None:
        place.path = ""
        above = os.path.dirname(self._top)  # noqa: PTH120 - a string for speed
        # A parent that may not be opened was not made by us, so its names are not ours to sync.
        with suppress(PermissionError):
            self._disk.sync_folder(above)

    def _discard(self, drafts: Drafts) -> None:
        for _, _, draft in drafts:
            # The draft is invisible, and the failure that matters is already on its way.
            with suppress(OSError):
                self._disk.discard(draft)

    def _full(self, path: str) -> str:
        return f"{self._top}{os.sep}{path}" if path else self._top


class _Place:
    """Which step of a creation is being taken, and for which file, should the disk refuse it."""

    __slots__ = ("path", "step")

    def __init__(self) -> None:
        self.step = "write"
        self.path = ""


def storage_error(error: OSError, step: str, path: str) -> StorageError:
    """Say in one line what the disk refused, at which step and for which file."""
    number = error.errno or 0
    if step == "name" and number in _LINK_REFUSALS:
        code, reason, remedy = _NO_LINKS
    else:
        code, reason, remedy = _REASONS.get(
            number, ("storage_error", "the disk refused", "see the system's log")
        )
    return StorageError(f"{reason} ({step})", code=code, where=path or None, remedy=remedy)


_FULL: Final = (
    "disk_full",
    "no space is left",
    "free some space and run again; what was committed is intact",
)
_READ_ONLY: Final = (
    "read_only",
    "the folder may not be written",
    "check permissions and whether the disk is mounted read-only",
)
_NO_LINKS: Final = (
    "links_unsupported",
    "this file system has no hard links",
    "put the runtime folder on a disk that has them",
)
_LINK_REFUSALS: Final = frozenset(
    {errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS, errno.EXDEV}
)
_REASONS: Final[dict[int, tuple[str, str, str]]] = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: ("file_too_large", "the file is larger than this disk allows", "see `df -T`"),
    errno.EROFS: _READ_ONLY,
    errno.EACCES: _READ_ONLY,
    errno.EPERM: _READ_ONLY,
    errno.EIO: (
        "disk_error",
        "the disk reported an input or output error",
        "check the disk; nothing written just now is trusted",
    ),
    errno.ENOENT: ("no_such_folder", "the folder is not there", "make it first"),
    errno.EMFILE: ("too_many_files", "too many files are open", "raise `ulimit -n`"),
    errno.ELOOP: ("link_in_path", "a link stands where a file should be", "remove the link"),
}


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _ancestors(folder: str) -> Iterator[str]:
    """Yield a folder and every folder above it, the root (the empty string) last."""
    while folder:
        yield folder
        folder = _parent(folder)
    yield ""
