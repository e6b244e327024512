"""One lock per case, held by one dispatcher at a time and freed by the system when it dies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Lock
from typing import Final, Protocol

from filelock import FileLock, Timeout

from casework.checkpoints.folder_storage import storage_error
from casework.checkpoints.ground import REMEDY
from casework.errors import LockBusy, StorageError
from casework.strict_json import sha256_hex


class CaseLocks(Protocol):
    """Exclusive work on a case, never waited for."""

    def hold(self, case_id: str) -> AbstractContextManager[None]:
        """Hold a case's lock, or raise ``LockBusy`` at once."""

    def is_held(self, case_id: str) -> bool:
        """Tell whether this process holds a case's lock."""


class ProcessLocks:
    """Locks between the threads and tasks of one process; for storages in memory."""

    def __init__(self) -> None:
        self._guard = Lock()
        self._held: set[str] = set()
        self._pid = os.getpid()

    def is_held(self, case_id: str) -> bool:
        """Tell whether this process holds a case's lock."""
        return self._pid == os.getpid() and case_id in self._held

    @contextmanager
    def hold(self, case_id: str) -> Iterator[None]:
        """Hold a case's lock among the threads and tasks of this process.

        Raises:
            LockBusy: Another thread or task of this process holds it.
        """
        if self._pid != os.getpid():
            # What the parent held at the fork is the parent's; this process starts with nothing.
            self._guard, self._held, self._pid = Lock(), set(), os.getpid()
        with self._guard:
            if case_id in self._held:
                raise LockBusy("this process is already working on the case")
            self._held.add(case_id)
        try:
            yield
        finally:
            with self._guard:
                self._held.discard(case_id)


class FileLocks:
    """Locks between processes: one empty file per case that was ever worked on.

    The system's own file lock decides, never the file's presence or content, so a stale file, a
    reused process id or a container's process 1 cannot block anybody. The files stay, since making
    a file costs more than locking one; the folder may be deleted while nobody works.

    Args:
        folder: Where the lock files lie; on a disk of this machine.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._inside = ProcessLocks()

    def is_held(self, case_id: str) -> bool:
        """Tell whether this process holds a case's lock."""
        return self._inside.is_held(case_id)

    @contextmanager
    def hold(self, case_id: str) -> Iterator[None]:
        """Hold a case's lock against every thread, task and process of this machine.

        Raises:
            LockBusy: Somebody else holds it.
            StorageError: The lock file cannot be made.
        """
        path, owner = self.path(case_id), os.getpid()
        with self._inside.hold(case_id):
            lock = self._acquire(path)
            try:
                yield
            finally:
                if owner == os.getpid():  # a forked child leaves its parent's lock alone
                    lock.release()

    def path(self, case_id: str) -> Path:
        """Return the lock file of a case."""
        return self.folder / f"{sha256_hex(case_id.encode('utf-8'))[:32]}.lock"

    def _acquire(self, path: Path) -> FileLock:
        try:
            try:
                return _acquired(path)
            except FileNotFoundError:
                self.folder.mkdir(parents=True, exist_ok=True)
                return _acquired(path)
        except Timeout:
            raise LockBusy(
                "another process works on this case",
                remedy="wait for it to end, or stop it",
            ) from None
        except OSError as error:
            raise storage_error(error, "lock", f"{self.folder.name}/{path.name}") from error


def _acquired(path: Path) -> FileLock:
    lock: FileLock = FileLock(path, blocking=False, thread_local=False, fallback_to_soft=False)
    lock.acquire()
    return lock


def prove_exclusion(folder: Path) -> None:
    """Check that a second holder is kept out on this ground.

    Raises:
        StorageError: Locks do not work here, or keep nobody out.
    """
    try:
        with FileLocks(folder).hold(_PROBE), FileLocks(folder).hold(_PROBE):
            pass
    except LockBusy:
        return
    raise StorageError(
        "file locks keep nobody out here",
        code="locks_do_not_exclude",
        remedy=REMEDY,
    )


_PROBE: Final = "\0prove"
"""No case has this id; that another process probes at the same time proves as much."""
