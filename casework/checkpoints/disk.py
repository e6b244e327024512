"""Every call that this package makes to a file system, in one class that tests can stand before.

A new file is a *draft* until it is published: its bytes are written and synced while no reader can
see it, then a link gives it its name, which either makes it visible whole or fails because the name
is taken. On Linux a draft has no name at all (``O_TMPFILE``); elsewhere it is a ``.tmp-`` file.
"""

# Descriptors and links are the subject here, and paths stay strings, which is faster.
# ruff: noqa: PTH102, PTH105, PTH108, PTH110, PTH114, PTH118

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

try:
    import fcntl
except ImportError:  # Windows has other means, and os.fsync uses them
    _FULL_SYNC: int | None = None
else:
    _FULL_SYNC = getattr(fcntl, "F_FULLFSYNC", None)

TEMPORARY_PREFIX: Final = ".tmp-"
"""Names of drafts begin with this; readers ignore them, and a sweep may remove them."""

READ_RETRIES: Final = 5
"""How often a read is begun anew when a network file system lost track of the file."""

_NOFOLLOW: Final = getattr(os, "O_NOFOLLOW", 0)
_NONBLOCK: Final = getattr(os, "O_NONBLOCK", 0)
_BINARY: Final = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
_ANONYMOUS: Final = getattr(os, "O_TMPFILE", 0)
_NO_ANONYMOUS_DRAFTS: Final = frozenset(
    {errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL, errno.ENOSYS}
)


@dataclass(slots=True, eq=False)
class Draft:
    """A file that nobody sees yet."""

    descriptor: int
    folder: str
    path: str | None
    """Where it lies under a temporary name; None when it has no name."""


class Disk:
    """The file system calls that packages need, each doing one thing, none retried.

    Args:
        anonymous_drafts: Whether to try drafts without a name, which cost less; they are given up
            for good where the file system does not know them.
    """

    def __init__(self, *, anonymous_drafts: bool = True) -> None:
        self._anonymous = anonymous_drafts and bool(_ANONYMOUS) and os.path.exists("/proc/self/fd")

    def make_folder(self, path: str) -> None:
        """Make one folder below an existing one."""
        os.mkdir(path)

    def begin(self, folder: str, *, named: bool = False) -> Draft:
        """Open an empty draft in a folder; ``named`` if it is to replace another file."""
        if self._anonymous and not named:
            try:
                descriptor = os.open(folder, os.O_WRONLY | _ANONYMOUS | _BINARY, 0o666)
            except OSError as error:
                if error.errno not in _NO_ANONYMOUS_DRAFTS:
                    raise
                self._anonymous = False
            else:
                return Draft(descriptor, folder, None)
        path = os.path.join(folder, TEMPORARY_PREFIX + secrets.token_hex(12))
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY
        return Draft(os.open(path, flags, 0o666), folder, path)

    def write(self, draft: Draft, content: bytes) -> None:
        """Append bytes to a draft."""
        rest = memoryview(content)
        while rest:
            rest = rest[os.write(draft.descriptor, rest) :]

    def start_writeback(self, draft: Draft) -> None:
        """Ask the system to start writing a draft out, so that a later sync finds less to do.

        A hint only: nothing is promised by it, and a refusal changes nothing.
        """
        if hasattr(os, "posix_fadvise"):
            with suppress(OSError):
                os.posix_fadvise(draft.descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def sync(self, draft: Draft) -> None:
        """Return once a draft's bytes are on the disk."""
        _sync_descriptor(draft.descriptor)

    def publish(self, draft: Draft, path: str) -> None:
        """Give a draft its name; raise ``FileExistsError`` if the name is taken."""
        if draft.path is not None:
            os.link(draft.path, path)
            return
        # A folder descriptor makes Python call linkat, which alone follows this link to its file;
        # the path being absolute, the system does not look at the descriptor.
        source = f"/proc/self/fd/{draft.descriptor}"
        os.link(source, path, src_dir_fd=draft.descriptor, follow_symlinks=True)

    def replace(self, draft: Draft, path: str) -> None:
        """Put a named draft in the place of the file that has the final name, if there is one."""
        assert draft.path is not None
        refuse_special(path)
        os.replace(draft.path, path)
        draft.path = None

    def discard(self, draft: Draft) -> None:
        """Close a draft and remove its temporary name, if it has one."""
        try:
            os.close(draft.descriptor)
        finally:
            if draft.path is not None:
                with suppress(FileNotFoundError):
                    os.unlink(draft.path)

    def sync_folder(self, path: str) -> None:
        """Return once the names in a folder are on the disk; Windows offers no such call."""
        if os.name == "nt":
            return
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | _BINARY)
        try:
            _sync_descriptor(descriptor)
        finally:
            os.close(descriptor)

    def sync_file(self, path: str) -> None:
        """Return once a file that was published before is on the disk."""
        access = os.O_RDWR if os.name == "nt" else os.O_RDONLY
        descriptor = os.open(path, access | _NOFOLLOW | _BINARY)
        try:
            _sync_descriptor(descriptor)
        finally:
            os.close(descriptor)

    def read(self, path: str) -> bytes:
        """Return a file's bytes; a link or a pipe in the file's place is an error."""
        for _ in range(READ_RETRIES):
            try:
                return _read_once(path)
            except OSError as error:
                # NFS reports so that the file was replaced while it was being read.
                if error.errno != errno.ESTALE:
                    raise
        return _read_once(path)

    def names(self, path: str) -> list[tuple[str, bool]]:
        """Return the names in a folder, each with whether it is a folder itself (a link is not)."""
        with os.scandir(path) as entries:
            return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]

    def is_link(self, path: str) -> bool:
        """Tell whether a path is a symbolic link."""
        return os.path.islink(path)

    def unlink(self, path: str) -> None:
        """Remove a file's name."""
        os.unlink(path)

    def move(self, source: str, target: str) -> None:
        """Give a file another name on the same disk, in the place of whatever has it."""
        os.replace(source, target)


def put_file(disk: Disk, path: str, parts: Iterable[bytes], *, mode: int | None = None) -> None:
    """Put a file in place whole and durably; what was there keeps its bytes until then.

    Args:
        disk: The file system calls.
        path: Absolute; its folder is there.
        parts: What it holds.
        mode: Its permissions; those of any new file by default.

    Raises:
        OSError: The disk refused.
    """
    folder = os.path.dirname(path)  # noqa: PTH120
    draft = disk.begin(folder, named=True)
    try:
        if mode is not None and draft.path is not None:
            os.chmod(draft.path, mode)  # noqa: PTH101
        for part in parts:
            disk.write(draft, part)
        disk.sync(draft)
        disk.replace(draft, path)
    finally:
        disk.discard(draft)
    disk.sync_folder(folder)


def refuse_special(path: str) -> None:
    """Raise ``OSError`` where a folder, a device or a pipe has a name that a file is to get."""
    with suppress(FileNotFoundError):
        kind = os.stat(path).st_mode  # noqa: PTH116 - paths stay strings
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not stat.S_ISREG(kind):
            raise OSError(errno.EINVAL, "a device or a pipe is not replaced by a file")


def inode_of(path: str | Path | None) -> int | None:
    """Return what tells a file from one that took its place; None for no file, or none there."""
    if path is None:
        return None
    try:
        return os.stat(path).st_ino  # noqa: PTH116
    except OSError:
        return None


def _read_once(path: str) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | _NOFOLLOW | _NONBLOCK | _BINARY)
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, "a folder")
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        content = os.read(descriptor, status.st_size + 1)
        if len(content) == status.st_size:
            return content
        parts = [content]
        while part := os.read(descriptor, 1 << 20):
            parts.append(part)
        return b"".join(parts)
    finally:
        os.close(descriptor)


def _sync_descriptor(descriptor: int) -> None:
    if _FULL_SYNC is not None:
        # On macOS fsync leaves the bytes in the drive's own cache.
        fcntl.fcntl(descriptor, _FULL_SYNC)
        return
    os.fsync(descriptor)


@dataclass(frozen=True, slots=True)
class DiskCall:
    """One call that changes a disk, as an observer sees it."""

    verb: str
    path: str
    draft: Draft | None = None
    content: bytes = b""


class ObservedDisk(Disk):
    """A disk that tells an observer of each changing call, before and after it happens.

    For tests: an observer records, raises ``OSError`` as a full or broken disk would, or kills the
    process. Nothing happens on the disk if it raises before.

    Args:
        observe: Called with each call and ``"before"`` or ``"after"``.
    """

    def __init__(
        self, observe: Callable[[DiskCall, str], None], *, anonymous_drafts: bool = True
    ) -> None:
        super().__init__(anonymous_drafts=anonymous_drafts)
        self._observe = observe

    @contextmanager
    def _watched(self, call: DiskCall) -> Iterator[None]:
        self._observe(call, "before")
        yield
        self._observe(call, "after")

    def make_folder(self, path: str) -> None:
        """Make a folder, watched."""
        with self._watched(DiskCall("make_folder", path)):
            super().make_folder(path)

    def begin(self, folder: str, *, named: bool = False) -> Draft:
        """Open a draft, watched; the observer sees it afterwards."""
        self._observe(DiskCall("begin", folder), "before")
        draft = super().begin(folder, named=named)
        try:
            self._observe(DiskCall("begin", folder, draft), "after")
        except OSError:
            super().discard(draft)
            raise
        return draft

    def write(self, draft: Draft, content: bytes) -> None:
        """Write to a draft, watched."""
        with self._watched(DiskCall("write", draft.folder, draft, content)):
            super().write(draft, content)

    def sync(self, draft: Draft) -> None:
        """Sync a draft, watched."""
        with self._watched(DiskCall("sync", draft.folder, draft)):
            super().sync(draft)

    def publish(self, draft: Draft, path: str) -> None:
        """Publish a draft, watched."""
        with self._watched(DiskCall("publish", path, draft)):
            super().publish(draft, path)

    def replace(self, draft: Draft, path: str) -> None:
        """Replace a file by a draft, watched."""
        with self._watched(DiskCall("replace", path, draft)):
            super().replace(draft, path)

    def sync_folder(self, path: str) -> None:
        """Sync a folder, watched."""
        with self._watched(DiskCall("sync_folder", path)):
            super().sync_folder(path)

    def sync_file(self, path: str) -> None:
        """Sync a published file, watched."""
        with self._watched(DiskCall("sync_file", path)):
            super().sync_file(path)

    def unlink(self, path: str) -> None:
        """Remove a name, watched."""
        with self._watched(DiskCall("unlink", path)):
            super().unlink(path)

    def move(self, source: str, target: str) -> None:
        """Rename a file, watched."""
        with self._watched(DiskCall("move", target)):
            super().move(source, target)
