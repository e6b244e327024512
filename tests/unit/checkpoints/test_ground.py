"""What the table of mounts tells of the ground, and what is made of it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from casework.checkpoints import ground
from casework.checkpoints.ground import Mount, mount_of, prove_mount
from casework.checkpoints.memory_storage import MemoryStorage
from casework.checkpoints.store import CheckpointStore
from casework.errors import StorageError

TABLE = """\
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw,discard
30 27 0:30 / /srv/a\\040b rw - nfs4 server:/x rw,vers=4.2,local_lock=none
31 27 0:31 / /srv rw - xfs /dev/vdb rw
32 31 0:32 / /srv/deep/mount rw master:2 - fuse.sshfs me@host:/ rw,user_id=0
33 31 0:33 / /srv/over rw - ext4 /dev/vdc rw
34 33 0:34 / /srv/over rw - nfs server:/y rw,local_lock=all
broken line
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/home/me", "ext4"),
        ("/srv/a b/runtime", "nfs4"),
        ("/srv/a", "xfs"),
        ("/srv/deep/mount", "fuse.sshfs"),
        ("/srv/deep/mounted", "xfs"),
        ("/srv/over/x", "nfs"),
    ],
)
def test_a_folder_lies_on_the_deepest_and_newest_mount(
    tmp_path: Path, folder: str, kind: str
) -> None:
    """Mounts cover what lies below them, later ones what earlier ones had there."""
    table = tmp_path / "mountinfo"
    table.write_text(TABLE)
    mount = mount_of(Path(folder), table)
    assert mount is not None
    assert kind == mount.kind


def test_without_a_table_nothing_is_known(tmp_path: Path) -> None:
    """Other systems have no such file; nothing is refused there."""
    assert None is mount_of(tmp_path, tmp_path / "missing")


@pytest.mark.parametrize(
    "mount",
    [
        Mount("fuse.sshfs", ("rw",)),
        Mount("fuse.s3fs", ("rw",)),
        Mount("nfs", ("rw", "nolock")),
        Mount("nfs4", ("rw", "local_lock=flock")),
    ],
)
def test_ground_on_which_two_hosts_could_hold_one_lock_is_refused(
    monkeypatch: pytest.MonkeyPatch, mount: Mount
) -> None:
    """Locks that end at the host, or a bucket in disguise, are refused with the reason."""
    monkeypatch.setattr(ground, "mount_of", lambda _folder: mount)
    with pytest.raises(StorageError) as refusal:
        prove_mount(Path("/x"))
    assert "locks_do_not_exclude" == refusal.value.code


@pytest.mark.parametrize(
    ("mount", "warnings"),
    [
        (Mount("ext4", ("rw",)), 0),
        (Mount("nfs4", ("rw", "local_lock=none")), 1),
        (Mount("9p", ("rw",)), 1),
        (Mount("fuse.unknown", ("rw",)), 1),
        (None, 0),
    ],
)
def test_shared_ground_is_accepted_with_a_warning(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    mount: Mount | None,
    warnings: int,
) -> None:
    """A network folder whose locks may reach other hosts is used, and said to be one."""
    monkeypatch.setattr(ground, "mount_of", lambda _folder: mount)
    with caplog.at_level(logging.WARNING):
        prove_mount(Path("/x"))
    assert warnings == len(caplog.records)


class TimedStorage(MemoryStorage):
    """A storage whose creations take so much time and do so much work, in seconds."""

    def __init__(self, elapsed: float, work: float) -> None:
        super().__init__()
        self._takes = elapsed, work
        self._elapsed = self._worked = 0.0

    def perf_counter(self) -> float:
        return self._elapsed

    def thread_time(self) -> float:
        return self._worked

    def create(self, files: Sequence[tuple[str, bytes]]) -> None:
        super().create(files)
        self._elapsed += self._takes[0]
        self._worked += self._takes[1]


@pytest.mark.parametrize(
    ("elapsed", "work", "threads"),
    [
        (0.0003, 0.0003, 1),
        (0.0006, 0.0003, 1),
        (0.0012, 0.0004, 2),
        (0.0056, 0.0002, 27),
        (1, 0.0002, 32),
    ],
)
def test_the_slower_the_disk_the_more_threads_wait_for_it(
    monkeypatch: pytest.MonkeyPatch, elapsed: float, work: float, threads: int
) -> None:
    """One thread is enough in memory; a slow disk gets as many as are allowed."""
    storage = TimedStorage(elapsed, work)
    monkeypatch.setattr(ground, "time", storage)
    assert threads == CheckpointStore(storage).disk_threads(32)
    assert [] == storage.list("probes")
