"""On a disk: what each step costs, and what remains when a step fails."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from casework.checkpoints.disk import Disk, DiskCall, Draft, ObservedDisk
from casework.checkpoints.folder_storage import DRAFTS_OPEN_MAX, FolderStorage
from casework.checkpoints.storage import NotFound
from casework.errors import StorageError

PAIR = [("llm/op/outcome", b"answer"), ("commits/2", b"record")]

Make = Callable[[Callable[[DiskCall, str], None]], ObservedDisk]


@pytest.fixture(params=["anonymous", "named"], name="make_disk")
def disk_of_each_kind(request: pytest.FixtureRequest) -> Make:
    """Return a maker of observed disks with drafts of each kind."""
    return lambda observe: ObservedDisk(observe, anonymous_drafts=request.param == "anonymous")


def recorded(make_disk: Make, root: Path) -> tuple[FolderStorage, list[str]]:
    """Return a storage and the list into which its calls are written."""
    calls: list[str] = []

    def note(call: DiskCall, moment: str) -> None:
        if moment == "after":
            path = os.path.relpath(call.path, root)
            calls.append(f"{call.verb} {path}")

    return FolderStorage(root, disk=make_disk(note)), calls


def test_a_commit_syncs_no_more_than_it_must(make_disk: Make, tmp_path: Path) -> None:
    """Bytes of both, name of the first, then the last name: four syncs in known folders."""
    storage, calls = recorded(make_disk, tmp_path)
    storage.create([("llm/op/request", b"1"), ("commits/1", b"1")])
    calls.clear()
    storage.create(PAIR)
    assert [
        "begin llm/op",
        "write llm/op",
        "begin commits",
        "write commits",
        "sync llm/op",
        "sync commits",
        "publish llm/op/outcome",
        "sync_folder llm/op",
        "publish commits/2",
        "sync_folder commits",
    ] == calls


def test_new_folders_are_made_durable_up_to_the_root(make_disk: Make, tmp_path: Path) -> None:
    """A name counts only if every folder above it is certain, so each parent is synced once."""
    storage, calls = recorded(make_disk, tmp_path / "root")
    storage.create(PAIR)
    synced = [call for call in calls if call.startswith("sync_folder")]
    assert {"llm/op", "llm", ".", ".."} < {call.split(" ")[1] for call in synced}
    assert calls.index("sync_folder llm") < calls.index("publish commits/2")


def test_folders_made_by_others_are_not_trusted(make_disk: Make, tmp_path: Path) -> None:
    """Another process may have made a folder and died before syncing its name."""
    (tmp_path / "llm" / "op").mkdir(parents=True)
    storage, calls = recorded(make_disk, tmp_path)
    storage.create(PAIR)
    assert {"sync_folder llm", "sync_folder ."} <= set(calls)


def faults(steps: int) -> Iterator[tuple[int, int]]:
    """Yield each step with each error that a disk gives."""
    for step in range(steps):
        for number in (errno.ENOSPC, errno.EIO, errno.EROFS):
            yield step, number


CODES = {errno.ENOSPC: "disk_full", errno.EIO: "disk_error", errno.EROFS: "read_only"}


def test_every_failing_step_leaves_the_old_state(make_disk: Make, tmp_path: Path) -> None:
    """ENOSPC, EIO and EROFS at each call: a clear error, nothing torn, no draft, and no retry."""
    _, calls = recorded(make_disk, tmp_path / "count")
    whole, calls = recorded(make_disk, tmp_path / "whole")
    whole.create([("commits/1", b"old")])
    calls.clear()
    whole.create(PAIR)
    for step, number in faults(len(calls)):
        root = tmp_path / f"{step}-{number}"
        FolderStorage(root).create([("commits/1", b"old")])
        seen: list[str] = []

        def fail(
            call: DiskCall, moment: str, seen: list[str] = seen, at: int = step, how: int = number
        ) -> None:
            if moment == "before":
                seen.append(call.verb)
                if len(seen) == at + 1:
                    raise OSError(how, os.strerror(how))

        storage = FolderStorage(root, disk=make_disk(fail))
        with pytest.raises(StorageError) as refusal:
            storage.create(PAIR)
        assert (CODES[number], step + 1) == (refusal.value.code, len(seen)), seen
        assert str(root) not in str(refusal.value)
        check_remains(root, last_call=seen[-1], step=step, steps=len(calls))


def check_remains(root: Path, *, last_call: str, step: int, steps: int) -> None:
    """Demand that old files stand, new ones are whole, and no draft is left."""
    storage = FolderStorage(root)
    assert b"old" == storage.read("commits/1")
    for path, content in PAIR:
        try:
            assert content == storage.read(path)
        except NotFound:
            continue
        assert last_call in {"sync_folder", "publish"} or step == steps - 1
    assert [] == list(root.rglob(".tmp-*"))


def test_a_failed_creation_can_be_tried_again(make_disk: Make, tmp_path: Path) -> None:
    """What an error left behind of the same bytes is no obstacle, and is synced anew."""
    broken = True

    def fail(call: DiskCall, moment: str) -> None:
        if broken and moment == "before" and call.path.endswith("commits/2"):
            raise OSError(errno.ENOSPC, "full")

    storage = FolderStorage(tmp_path, disk=make_disk(fail))
    with pytest.raises(StorageError):
        storage.create(PAIR)
    assert b"answer" == storage.read("llm/op/outcome")
    broken = False
    storage.create(PAIR)
    assert b"record" == storage.read("commits/2")


@pytest.mark.parametrize("number", [errno.EPERM, errno.EOPNOTSUPP])
def test_a_disk_without_links_is_refused_clearly(tmp_path: Path, number: int) -> None:
    """Without links nothing can be created whole and once, and the error says so."""

    def fail(call: DiskCall, moment: str) -> None:
        if call.verb == "publish" and moment == "before":
            raise OSError(number, os.strerror(number))

    storage = FolderStorage(tmp_path, disk=ObservedDisk(fail))
    with pytest.raises(StorageError) as refusal:
        storage.create(PAIR)
    assert "links_unsupported" == refusal.value.code


def test_drafts_fall_back_to_names_where_the_disk_wants_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system that knows no nameless files is used with named ones, without a word."""
    real = os.open

    def picky(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EOPNOTSUPP, "no")
        return real(path, flags, mode)

    monkeypatch.setattr(os, "open", picky)
    storage = FolderStorage(tmp_path)
    storage.create(PAIR)
    assert b"record" == storage.read("commits/2")
    assert [] == list(tmp_path.rglob(".tmp-*"))


def test_nothing_is_written_through_links(tmp_path: Path) -> None:
    """A link in the place of a folder, planted before, is refused."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    root = tmp_path / "root"
    root.mkdir()
    (root / "llm").symlink_to(elsewhere)
    with pytest.raises(StorageError) as refusal:
        FolderStorage(root).create(PAIR)
    assert ("link_in_path", []) == (refusal.value.code, list(elsewhere.iterdir()))


def test_links_and_pipes_are_not_read(tmp_path: Path) -> None:
    """A link or a pipe in the place of a file is an error, and nobody waits for it."""
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe"):
        with pytest.raises(StorageError):
            FolderStorage(tmp_path).read(name)


def test_a_file_that_is_being_replaced_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ESTALE, with which NFS reports a replaced file, is not damage."""
    (tmp_path / "a").write_bytes(b"content")
    real, stale = os.fstat, iter([True, True])

    def shaky(descriptor: int) -> os.stat_result:
        if next(stale, False):
            raise OSError(errno.ESTALE, "stale")
        return real(descriptor)

    monkeypatch.setattr(os, "fstat", shaky)
    assert b"content" == FolderStorage(tmp_path).read("a")


def test_drafts_are_invisible_and_can_be_swept(tmp_path: Path) -> None:
    """What a crash left under a temporary name is not listed, and a sweep removes it."""
    storage = FolderStorage(tmp_path)
    storage.create([("commits/1", b"1")])
    (tmp_path / "commits" / ".tmp-dead").write_bytes(b"half")
    assert ["1"] == storage.list("commits")
    assert (1, 0) == (storage.sweep_drafts("commits"), storage.sweep_drafts("commits"))
    assert ["1"] == [path.name for path in (tmp_path / "commits").iterdir()]


def test_a_large_creation_holds_few_drafts_open(tmp_path: Path) -> None:
    """However many files there are, the number of open descriptors stays bounded."""
    open_now, most = 0, 0

    class Counting(Disk):
        def begin(self, folder: str, *, named: bool = False) -> Draft:
            nonlocal open_now, most
            draft = super().begin(folder, named=named)
            open_now += 1
            most = max(most, open_now)
            return draft

        def discard(self, draft: Draft) -> None:
            nonlocal open_now
            open_now -= 1
            super().discard(draft)

    files = [(f"original/{number}", b"x") for number in range(100)]
    FolderStorage(tmp_path, disk=Counting()).create(files)
    assert (0, True) == (open_now, most <= DRAFTS_OPEN_MAX + 1)


def test_a_folder_that_was_removed_is_made_again(tmp_path: Path) -> None:
    """What other hands removed does not stay in memory as if it stood."""
    storage, calls = recorded(ObservedDisk, tmp_path)
    storage.create(PAIR)
    for path in sorted(tmp_path.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    calls.clear()
    storage.create(PAIR)
    assert "sync_folder llm" in calls
