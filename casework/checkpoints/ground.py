"""Proving, before anything is paid for, that the ground keeps what packages rest on."""

from __future__ import annotations

import logging
import os
import secrets
import statistics
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from casework.checkpoints.storage import AlreadyExists, NotFound, Storage
from casework.errors import StorageError

_LOG = logging.getLogger(__name__)

WAITING_TRIES: Final = 7

_PROBE_CONTENT: Final = b"x" * 4096

REMEDY: Final = "put the runtime folder on a disk of this machine"

_REFUSED: Final = {
    "fuse.sshfs": "sshfs neither locks nor links across hosts",
    "fuse.s3fs": "a bucket behind a file system ignores create-only",
    "fuse.gcsfuse": "a bucket behind a file system ignores create-only",
    "fuse.goofys": "a bucket behind a file system ignores create-only",
    "fuse.rclone": "a bucket behind a file system ignores create-only",
    "davfs": "WebDAV ignores create-only",
}
_SHARED: Final = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "virtiofs", "ceph", "glusterfs", "lustre"}
)
_LOCAL_LOCKS: Final = ("nolock", "local_lock=all", "local_lock=flock")


@dataclass(frozen=True, slots=True)
class Mount:
    """The file system that a folder lies on."""

    kind: str
    options: tuple[str, ...]


def prove_storage(storage: Storage) -> None:
    """Check that a name can be taken only once, and that what was created can be read back.

    Raises:
        StorageError: The ground breaks a promise, or refuses to create or sync.
    """
    path, content = f"probes/{secrets.token_hex(12)}", secrets.token_bytes(64)
    storage.create([(path, content)])
    try:
        if storage.read(path) != content:
            raise StorageError(
                "what was written is not what is read", code="ground_lies", remedy=REMEDY
            )
        try:
            storage.create([(path, b"second")])
        except AlreadyExists:
            return
        raise StorageError(
            "a name that is taken can be taken again", code="create_only_ignored", remedy=REMEDY
        )
    finally:
        with suppress(NotFound):
            storage.delete(path)


def waiting_ratio(storage: Storage) -> float:
    """Return how long creating a file waits for the disk, as a multiple of its own work.

    The median of a few tries. Near zero in memory, about one where a sync takes a tenth of a
    millisecond, in the hundreds on a slow or distant disk.

    Raises:
        StorageError: The ground refuses to create.
    """
    ratios = []
    for _ in range(WAITING_TRIES):
        path = f"probes/{secrets.token_hex(12)}"
        begun, worked = time.perf_counter(), time.thread_time()
        storage.create([(path, _PROBE_CONTENT)])
        elapsed, work = time.perf_counter() - begun, time.thread_time() - worked
        with suppress(NotFound):
            storage.delete(path)
        ratios.append(max(elapsed - work, 0.0) / max(work, 1e-6))
    return statistics.median(ratios)


def prove_mount(folder: Path) -> None:
    """Refuse file systems on which two hosts could both believe that they hold a lock.

    Locks that work here and not between hosts cannot be found out by trying, so the table of mounts
    is asked (on Linux; elsewhere nothing is known). A network file system with real locks is
    accepted with a warning.

    Raises:
        StorageError: The file system is known not to exclude.
    """
    mount = mount_of(folder)
    if mount is None:
        return
    reason = _REFUSED.get(mount.kind)
    if reason is None and mount.kind.startswith("nfs"):
        local = next((option for option in mount.options if option in _LOCAL_LOCKS), None)
        reason = f"NFS mounted with {local} locks on this host only" if local else None
    if reason is not None:
        raise StorageError(reason, code="locks_do_not_exclude", remedy=REMEDY)
    if mount.kind in _SHARED or mount.kind.startswith("fuse."):
        _LOG.warning(
            "the runtime folder lies on a shared file system; run it from one host only",
            extra={"action": "shared_ground", "file_system": mount.kind},
        )


def mount_of(folder: Path, table: Path = Path("/proc/self/mountinfo")) -> Mount | None:
    """Return the mount that a folder lies on, None where it cannot be told."""
    try:
        lines = table.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    place = os.path.realpath(folder)
    best: tuple[int, Mount] | None = None
    for line in lines:
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(), after.split()
        point = _unescaped(fields[4]) if len(fields) > _MOUNT_POINT else ""
        if not kinds or not point or not _is_below(place, point):
            continue
        if best is None or len(point) >= best[0]:
            best = len(point), Mount(kinds[0], tuple(kinds[-1].split(",")))
    return best[1] if best else None


_MOUNT_POINT: Final = 4


def _is_below(place: str, point: str) -> bool:
    return place == point or place.startswith(point.rstrip("/") + "/")


def _unescaped(text: str) -> str:
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, character)
    return text
