"""One lock per case, held by one dispatcher at a time and freed by the system when it dies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final, Protocol

from filelock import lock_descriptor, unlock_descriptor

from casework.checkpoints.folder_storage import storage_error
from casework.checkpoints.ground import REMEDY
from casework.errors import LockBusy, StorageError
from casework.strict_json import sha256_hex

OUSTED_SUFFIX: Final = ".ousted"
HOLDER_BYTES_MAX: Final = 256


class CaseLocks(Protocol):
    """Exclusive work on a case, never waited for."""

    def hold(self, case_id: str) -> AbstractContextManager[None]:
        """Hold a case's lock, or raise ``LockBusy`` at once."""

    def is_held(self, case_id: str) -> bool:
        """Tell whether this process holds a case's lock."""

    def is_void(self, case_id: str) -> bool:
        """Tell whether this process holds a lock that somebody has taken from it meanwhile."""

    def sign(self, holder: str) -> None:
        """Put a worker's name on every lock that is taken from now on, so that it can be ousted."""

    def oust(self, case_id: str, holder: str) -> bool:
        """Take a case's lock from a worker of this name, and tell whether that was done."""

    def is_ousted_at_work(self, case_id: str) -> bool:
        """Tell whether a worker that lost the case's lock may still be writing."""

    def discard(self, case_id: str) -> None:
        """Remove a lock that this process holds and nobody will ever ask for again."""


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

    def is_void(self, case_id: str) -> bool:  # noqa: ARG002 - nobody can take it
        """Return False: no other process knows of these locks."""
        return False

    def sign(self, holder: str) -> None:
        """Do nothing; a frozen process takes its locks with it."""

    def oust(self, case_id: str, holder: str) -> bool:  # noqa: ARG002 - never done here
        """Return False: a thread is never ousted."""
        return False

    def is_ousted_at_work(self, case_id: str) -> bool:  # noqa: ARG002 - never done here
        """Return False: nobody is ever ousted."""
        return False

    def discard(self, case_id: str) -> None:
        """Do nothing; there is no file."""


class FileLocks:
    """Locks between processes: one empty file per case that was ever worked on.

    The system's own file lock decides, never the file's presence or content, so a stale file, a
    reused process id or a container's process 1 cannot block anybody. The files stay, since making
    a file costs more than locking one; the folder may be deleted while nobody works.

    A worker signs the file while it holds it. A signature blocks nobody; it only allows another
    worker to take the lock from a frozen one by moving the file away, see :meth:`oust`. Nobody who
    did not sign can be ousted. A frozen worker that wakes finds another file, or none, at its
    path. That is a hint, like the lock itself: the generation decides who may commit.

    Args:
        folder: Where the lock files lie; on a disk of this machine.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._inside = ProcessLocks()
        self._signature = b""
        self._open: dict[str, _OpenLock] = {}

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
        owner = os.getpid()
        with self._inside.hold(case_id):
            held = self._acquire(self.path(case_id))
            self._open[case_id] = held
            try:
                yield
            finally:
                if owner == os.getpid():  # a forked child leaves its parent's lock alone
                    del self._open[case_id]
                    held.let_go()

    def is_void(self, case_id: str) -> bool:
        """Tell whether this process holds a lock that was moved away from its path meanwhile."""
        held = self._open.get(case_id)
        return held is not None and self.is_held(case_id) and not held.is_at_its_path()

    def sign(self, holder: str) -> None:
        """Sign every lock taken from now on; an empty name signs none."""
        self._signature = holder.encode("utf-8")
        assert len(self._signature) <= HOLDER_BYTES_MAX

    def oust(self, case_id: str, holder: str) -> bool:
        """Move a lock file away from a worker that signed it and does not move any more.

        The caller knows that the worker's claim on the case has run out, and has claimed the case
        itself. A signature is there only while its worker holds the lock, or if the worker died
        holding it. Where the system moves no open file (Windows), nobody is ousted.
        """
        path = self.path(case_id)
        try:
            with path.open("rb") as signed:
                if signed.read(HOLDER_BYTES_MAX) != holder.encode("utf-8"):
                    return False
            path.replace(path.with_suffix(f".{sha256_hex(holder.encode())[:16]}{OUSTED_SUFFIX}"))
        except OSError:
            return False
        return True

    def is_ousted_at_work(self, case_id: str) -> bool:
        """Tell whether a worker that lost this lock still lives; forget those that do not."""
        found = False
        for path in self.folder.glob(f"{self.path(case_id).stem}.*{OUSTED_SUFFIX}"):
            try:
                held = self._acquire(path)
            except LockBusy:
                found = True
                continue
            path.unlink(missing_ok=True)
            held.let_go()
        return found

    def discard(self, case_id: str) -> None:
        """Remove the file of a lock that this process holds and nobody will ask for again."""
        with suppress(OSError):
            self.path(case_id).unlink()

    def path(self, case_id: str) -> Path:
        """Return the lock file of a case."""
        return self.folder / f"{sha256_hex(case_id.encode('utf-8'))[:32]}.lock"

    def _acquire(self, path: Path) -> _OpenLock:
        try:
            try:
                held = _acquired(path, self._signature)
            except FileNotFoundError:
                self.folder.mkdir(parents=True, exist_ok=True)
                held = _acquired(path, self._signature)
        except OSError as error:
            raise storage_error(error, "lock", f"{self.folder.name}/{path.name}") from error
        if held is None:
            raise LockBusy(
                "another process works on this case", remedy="wait for it to end, or stop it"
            )
        return held


@dataclass(frozen=True, slots=True)
class _OpenLock:
    """A file lock that is held."""

    path: Path
    descriptor: int
    signed: bool

    def sign(self, signature: bytes) -> None:
        """Replace whatever a holder that died has left."""
        if os.fstat(self.descriptor).st_size:
            os.ftruncate(self.descriptor, 0)
        if signature:
            os.write(self.descriptor, signature)

    def is_at_its_path(self) -> bool:
        """Tell whether the file that is locked is the one that others find."""
        try:
            found = os.stat(self.path)  # noqa: PTH116 - asked in every round
        except OSError:
            return False
        return os.path.samestat(found, os.fstat(self.descriptor))

    def let_go(self) -> None:
        """Take the signature off before unlocking, so that a signature always tells the holder."""
        if self.signed:
            with suppress(OSError):
                os.ftruncate(self.descriptor, 0)
        _DESCRIPTORS.discard(self.descriptor)
        try:
            unlock_descriptor(self.descriptor)
        finally:
            os.close(self.descriptor)


def _acquired(path: Path, signature: bytes) -> _OpenLock | None:
    """Lock a file and sign it; None if somebody else has it, or has just moved it away."""
    descriptor = os.open(path, _OPEN_FLAGS, 0o644)
    _DESCRIPTORS.add(descriptor)
    held = _OpenLock(path, descriptor, signed=bool(signature))
    locked = False
    try:
        locked = lock_descriptor(descriptor, blocking=False) and held.is_at_its_path()
        if locked:
            held.sign(signature)
    except OSError:
        locked = False
        raise
    finally:
        if not locked:
            _DESCRIPTORS.discard(descriptor)
            os.close(descriptor)
    return held if locked else None


_OPEN_FLAGS: Final = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)

_DESCRIPTORS: Final[set[int]] = set()
"""Of locks that are held, for the children of a fork: each closes its copies, since a lock lasts as
long as any copy of its descriptor is open."""


def _close_inherited() -> None:
    while _DESCRIPTORS:
        with suppress(OSError):
            os.close(_DESCRIPTORS.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_inherited)


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
