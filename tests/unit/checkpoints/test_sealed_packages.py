"""Sealing and receiving: the same bytes everywhere, and nothing hostile gets in."""

from __future__ import annotations

import stat
import struct
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from casework.checkpoints.disk import DiskCall, ObservedDisk
from casework.checkpoints.inspection import Inspection, inspect_package
from casework.checkpoints.memory_storage import MemoryStorage
from casework.checkpoints.names import case_folder
from casework.checkpoints.receiving import Receipt
from casework.checkpoints.records import CommitKind, OperationStatus, PackageStatus
from casework.checkpoints.storage import NotFound
from casework.checkpoints.store import CheckpointStore
from casework.checkpoints.verify import verify
from casework.checkpoints.zip_storage import ZipLimits, ZipStorage
from casework.errors import (
    CheckpointError,
    FormatError,
    IntegrityError,
    LockBusy,
    PackageNotFound,
    StorageError,
)
from tests.support.packages import CASE, Workshop, files_below

FOLDER = case_folder(CASE)


@pytest.fixture(name="workshop")
def workshop_with_history(tmp_path: Path) -> Workshop:
    """Return a workshop with a package that went through every state."""
    workshop = Workshop(tmp_path / "here")
    workshop.full_history()
    return workshop


@pytest.fixture(name="sealed")
def sealed_package(workshop: Workshop, tmp_path: Path) -> Path:
    """Return the export of that package."""
    workshop.store.export(CASE, tmp_path / "case.zip")
    return tmp_path / "case.zip"


def rezipped(source: Path, target: Path, edit: Callable[[dict[str, bytes]], object]) -> Path:
    """Write a ZIP with the members of another one, edited."""
    with zipfile.ZipFile(source) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    edit(members)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return target


def test_the_same_generation_gives_the_same_bytes(
    workshop: Workshop, sealed: Path, tmp_path: Path
) -> None:
    """Neither time nor place nor leftovers nor another machine's store change an export."""
    package = workshop.store.package_folder(CASE)
    (package / "llm" / "leftover.json").write_bytes(b"{}")
    workshop.pass_time(1e6)
    workshop.store.export(CASE, tmp_path / "again.zip")
    elsewhere = CheckpointStore(MemoryStorage())
    elsewhere.receive(sealed)
    elsewhere.export(CASE, tmp_path / "elsewhere.zip")
    assert 1 == len({path.read_bytes() for path in tmp_path.glob("*.zip")})


def test_an_export_holds_what_commits_name_and_nothing_else(
    workshop: Workshop, sealed: Path
) -> None:
    """The members are the package's files, sorted, without time or owner."""
    with zipfile.ZipFile(sealed) as archive:
        infos = archive.infolist()
        members = {info.filename: archive.read(info) for info in infos}
    assert files_below(workshop.store.package_folder(CASE)) == members
    assert sorted(members) == [info.filename for info in infos]
    assert {((1980, 1, 1, 0, 0, 0), 0o100644)} == {
        (info.date_time, info.external_attr >> 16) for info in infos
    }


def test_an_export_is_sealed_and_verifies(sealed: Path) -> None:
    """The oracle opens the ZIP itself and finds nothing, not even a note."""
    report = verify(sealed)
    assert ((), CASE, 10) == (report.findings, report.case_id, report.generation)


def test_a_flipped_byte_of_an_archive_is_never_silent(sealed: Path, tmp_path: Path) -> None:
    """In a member it is an error, elsewhere at least a note that the archive is not as sealed."""
    content = sealed.read_bytes()
    broken = tmp_path / "broken.zip"
    for place in range(0, len(content), 101):
        flipped = bytearray(content)
        flipped[place] ^= 1
        broken.write_bytes(bytes(flipped))
        assert () != verify(broken).findings, place


def test_a_hand_made_archive_is_accepted_with_a_note(sealed: Path, tmp_path: Path) -> None:
    """Other compression is no damage; it is only not the sealed form."""
    other = rezipped(sealed, tmp_path / "other.zip", lambda _: None)
    report = verify(other)
    assert (True, ["not_sealed"]) == (report.ok, [finding.code for finding in report.findings])


@pytest.mark.parametrize("verb", ["begin", "write", "sync", "replace", "sync_folder"])
def test_a_failed_export_leaves_the_older_file(workshop: Workshop, sealed: Path, verb: str) -> None:
    """A full disk at any step: a clear error, the file of before, and no half one."""
    before = sealed.read_bytes()

    def fail(call: DiskCall, moment: str) -> None:
        if call.verb == verb and moment == "before":
            raise OSError(28, "No space left on device")

    store = CheckpointStore(workshop.store.folder or Path(), disk=ObservedDisk(fail))
    with pytest.raises(StorageError) as refusal:
        store.export(CASE, sealed)
    assert "disk_full" == refusal.value.code
    assert ([sealed], before) == (list(sealed.parent.glob("*.*")), sealed.read_bytes())


def test_an_export_into_nowhere_says_so(workshop: Workshop, tmp_path: Path) -> None:
    """A folder that is not there is not made in passing."""
    with pytest.raises(StorageError) as refusal:
        workshop.store.export(CASE, tmp_path / "missing" / "case.zip")
    assert "no_such_folder" == refusal.value.code


def test_a_damaged_package_is_not_exported(workshop: Workshop, tmp_path: Path) -> None:
    """What the commits do not confirm is not sealed."""
    (workshop.store.package_folder(CASE) / "original/report.txt").write_bytes(b"x")
    with pytest.raises(IntegrityError):
        workshop.store.export(CASE, tmp_path / "x.zip")
    assert [] == list(tmp_path.glob("*.*"))


def test_an_unknown_package_is_imported_unchanged(
    workshop: Workshop, sealed: Path, tmp_path: Path
) -> None:
    """Identity, generation and every byte are the sender's, and nothing becomes due."""
    there = Workshop(tmp_path / "there")
    received = there.store.receive(sealed)
    assert (Receipt.IMPORTED, workshop.store.open(CASE).record_sha256) == (
        received.receipt,
        received.head.record_sha256,
    )
    assert files_below(workshop.store.package_folder(CASE)) == files_below(
        there.store.package_folder(CASE)
    )
    assert verify(there.store.package_folder(CASE)).ok
    assert workshop.store.index.counts() == there.store.index.counts()


def test_a_known_package_grows_or_stays(workshop: Workshop, sealed: Path, tmp_path: Path) -> None:
    """Later generations are added; the same or older ones are duplicates."""
    there = Workshop(tmp_path / "there").store
    older = there.receive(sealed).head
    head = workshop.run(workshop.store.open(CASE), "more")
    head = workshop.run(head, "still more")
    newer = tmp_path / "newer.zip"
    workshop.store.export(CASE, newer)
    assert (Receipt.EXTENDED, head.record_sha256) == (
        (received := there.receive(newer)).receipt,
        received.head.record_sha256,
    )
    for source in (newer, sealed):
        again = there.receive(source)
        assert (Receipt.DUPLICATE, head.generation) == (again.receipt, again.head.generation)
    assert (older.generation + 2, True) == (
        there.open(CASE).generation,
        verify(there.package_folder(CASE)).ok,
    )


def test_histories_that_parted_are_not_joined(
    workshop: Workshop, sealed: Path, tmp_path: Path
) -> None:
    """Two packages that went different ways from one generation on stay apart."""
    there = Workshop(tmp_path / "there")
    there.run(there.store.receive(sealed).head, "here only")
    workshop.run(workshop.store.open(CASE), "there only")
    other = tmp_path / "other.zip"
    workshop.store.export(CASE, other)
    before = files_below(there.store.package_folder(CASE))
    with pytest.raises(FormatError) as refusal:
        there.store.receive(other)
    assert "diverged" == refusal.value.code
    foreign = Workshop(tmp_path / "foreign")
    foreign.store.create(CASE, {"other.txt": b""})
    with pytest.raises(FormatError) as refusal:
        foreign.store.receive(other)
    assert "diverged" == refusal.value.code
    assert before == files_below(there.store.package_folder(CASE))


def test_receiving_keeps_blocked_operations_waiting(tmp_path: Path) -> None:
    """A blocked operation is not retried elsewhere, whatever time has passed."""
    here, there = Workshop(tmp_path / "here"), Workshop(tmp_path / "there")
    head = here.exhaust(here.create(), "a")
    here.store.export(CASE, tmp_path / "case.zip")
    there.pass_time(10**6)
    received = there.store.receive(tmp_path / "case.zip").head
    assert (head.generation, PackageStatus.BLOCKED) == (received.generation, received.status)
    assert [] == there.store.index.due(there.at, 9)
    assert 1 == len(there.store.index.in_status(OperationStatus.BLOCKED))


def test_a_package_appears_whole_or_not_at_all(sealed: Path, tmp_path: Path) -> None:
    """Wherever receiving is cut off there is no package yet; receiving again completes it."""
    steps = 0

    def count(_call: DiskCall, _moment: str) -> None:
        nonlocal steps
        steps += 1

    CheckpointStore(tmp_path / "whole", disk=ObservedDisk(count)).receive(sealed)
    for step in range(1, steps + 1, 23):
        seen = 0

        def cut(_call: DiskCall, _moment: str, at: int = step) -> None:
            nonlocal seen
            seen += 1
            if seen == at:
                raise OSError(5, "cut off")

        root = tmp_path / str(step)
        with suppress(StorageError):
            CheckpointStore(root, disk=ObservedDisk(cut)).receive(sealed)
        assert list(CheckpointStore(root).list()) in ([], [CASE])
        if list(CheckpointStore(root).list()):
            assert 10 == CheckpointStore(root).open(CASE).generation
        assert 10 == CheckpointStore(root).receive(sealed).head.generation
        assert verify(CheckpointStore(root).package_folder(CASE)).ok


def test_records_without_their_first_are_never_built_upon_or_removed(sealed: Path) -> None:
    """Neither a new case nor another package takes the place of what is left of one."""
    storage = MemoryStorage()
    path = f"{FOLDER}/commits/0000000002.json"
    storage.create([(path, b"from another history")])
    with pytest.raises(IntegrityError):
        Workshop(storage).create()
    with pytest.raises(IntegrityError):
        CheckpointStore(storage).receive(sealed)
    assert b"from another history" == storage.read(path)


def test_receiving_waits_for_nobody(workshop: Workshop, sealed: Path) -> None:
    """While somebody works on the case, nothing is received."""
    other = CheckpointStore(workshop.store.folder or Path())
    with other.lock(CASE), pytest.raises(LockBusy):
        workshop.store.receive(sealed)


def test_a_package_that_lies_is_refused(sealed: Path, tmp_path: Path) -> None:
    """The oracle judges before anything is written, and names the file."""
    there = tmp_path / "there"
    lying = rezipped(
        sealed, tmp_path / "lying.zip", lambda m: m.update({"original/report.txt": b"x"})
    )
    with pytest.raises(IntegrityError) as refusal:
        CheckpointStore(there).receive(lying)
    assert "original/report.txt" == refusal.value.where
    assert {} == files_below(there)


def test_extra_members_are_not_taken_in(sealed: Path, tmp_path: Path) -> None:
    """A file that no commit names is left where it was."""
    extra = rezipped(sealed, tmp_path / "extra.zip", lambda m: m.update({"llm/extra": b"x"}))
    store = CheckpointStore(tmp_path / "there")
    store.receive(extra)
    assert not (store.package_folder(CASE) / "llm/extra").exists()


def entry(name: str, **changes: int) -> zipfile.ZipInfo:
    """Return a member's description with some fields changed."""
    info = zipfile.ZipInfo(name)
    for field, value in changes.items():
        setattr(info, field, value)
    return info


@pytest.mark.parametrize(
    ("members", "code"),
    [
        (["../x"], "unsafe_member"),
        (["/abs"], "unsafe_member"),
        (["a/../../x"], "unsafe_member"),
        (["a\\..\\b"], "unsafe_member"),
        (["c:/x"], "unsafe_member"),
        (["a/./b"], "unsafe_member"),
        (["a//b"], "unsafe_member"),
        (["ü"], "unsafe_member"),
        (["x" * 300], "unsafe_member"),
        (["a", "a"], "duplicate_member"),
        (["a", "A"], "duplicate_member"),
        (["a", "a/b"], "duplicate_member"),
        ([entry("l", external_attr=(stat.S_IFLNK | 0o777) << 16)], "special_member"),
        ([entry("d", external_attr=(stat.S_IFCHR | 0o666) << 16)], "special_member"),
        ([entry("p", external_attr=(stat.S_IFIFO | 0o666) << 16)], "special_member"),
        ([entry("f", external_attr=(stat.S_IFDIR | 0o755) << 16)], "special_member"),
        ([entry("b", compress_type=zipfile.ZIP_BZIP2)], "zip_method"),
    ],
)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_hostile_members_are_refused_before_anything_is_written(
    tmp_path: Path, members: list[str | zipfile.ZipInfo], code: str
) -> None:
    """Names that lead out, links, devices, twins: the whole file is refused."""
    hostile = tmp_path / "hostile.zip"
    with zipfile.ZipFile(hostile, "w") as archive:
        archive.writestr("package.json", b"{}")
        for member in members:
            archive.writestr(member, b"x")
    with pytest.raises(FormatError) as refusal:
        CheckpointStore(tmp_path / "there").receive(hostile)
    assert code == refusal.value.code
    assert not (tmp_path / "there").exists()
    assert {code} == {finding.code for finding in verify(hostile).errors}


def test_an_encrypted_member_is_refused(sealed: Path, tmp_path: Path) -> None:
    """Nobody is asked for a password."""
    content = bytearray(sealed.read_bytes())
    place = content.index(b"PK\x01\x02")
    content[place + 8] |= 1
    locked = tmp_path / "locked.zip"
    locked.write_bytes(content)
    with pytest.raises(FormatError) as refusal:
        ZipStorage(locked)
    assert "encrypted_member" == refusal.value.code


@pytest.mark.parametrize(
    "limits",
    [
        ZipLimits(members=3),
        ZipLimits(expanded_bytes=5_000),
        ZipLimits(member_bytes=500),
    ],
)
def test_a_package_over_the_limits_is_refused(
    sealed: Path, tmp_path: Path, limits: ZipLimits
) -> None:
    """Members, bytes in all and bytes of one are bounded, and each bound is reached here."""
    with pytest.raises(FormatError) as refusal:
        CheckpointStore(tmp_path / "there").receive(sealed, limits=limits)
    assert "too_large" == refusal.value.code


def test_a_bomb_is_not_expanded(tmp_path: Path) -> None:
    """A member that expands a thousandfold is refused by its ratio, before it is read."""
    bomb = tmp_path / "bomb.zip"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("original/zeros", bytes(50 << 20))
    with pytest.raises(FormatError) as refusal:
        ZipStorage(bomb)
    assert "too_large" == refusal.value.code


def test_an_announced_size_is_not_trusted(tmp_path: Path) -> None:
    """A member that announces less than it holds gives no byte more, and an error."""
    path = tmp_path / "liar.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", bytes(5 << 20))
    content = bytearray(path.read_bytes())
    place = content.index(b"PK\x01\x02")
    content[place + 24 : place + 28] = struct.pack("<L", 10)
    path.write_bytes(content)
    with ZipStorage(path) as storage, pytest.raises(IntegrityError):
        storage.read("a")


@pytest.mark.parametrize("content", [b"", b"PK", b"not a zip", b"PK\x05\x06" + bytes(18)])
def test_bytes_that_are_no_archive_are_refused(tmp_path: Path, content: bytes) -> None:
    """A file of another kind is a FormatError or an empty package, never a traceback."""
    path = tmp_path / "x.zip"
    path.write_bytes(content)
    with pytest.raises(CheckpointError):
        CheckpointStore(tmp_path / "there").receive(path)


def test_a_zip_reads_like_a_folder_and_is_never_written(workshop: Workshop, sealed: Path) -> None:
    """The reading half of the storage contract holds for a sealed package."""
    package = workshop.store.package_folder(CASE)
    with ZipStorage(sealed) as storage:
        for path, content in files_below(package).items():
            assert content == storage.read(path)
        assert sorted(
            f"{path.name}/" if path.is_dir() else path.name for path in package.iterdir()
        ) == storage.list("")
        assert [] == storage.list("nothing")
        for path in ("nothing", "commits", "package.json/x"):
            with pytest.raises(NotFound):
                storage.read(path)
        with pytest.raises(StorageError):
            storage.create([("a", b"")])
        with pytest.raises(StorageError):
            storage.delete("package.json")


def test_folder_archive_and_store_are_looked_into_alike(workshop: Workshop, sealed: Path) -> None:
    """Timeline, operations, requests and outcomes are the same from each of them."""

    def story(view: Inspection) -> object:
        return (
            list(view.timeline()),
            view.operations(),
            [view.request(state) for state in view.operations()],
            [list(view.outcomes(state)) for state in view.operations()],
            [view.read(entry.path) for entry in view.originals()],
        )

    told = story(workshop.store.inspect(CASE))
    for path in (workshop.store.package_folder(CASE), sealed):
        with inspect_package(path) as view:
            assert told == story(view)
            assert "again" == view.operation("blocked").resumed_as
            with pytest.raises(PackageNotFound):
                view.operation("unknown")
            with pytest.raises(PackageNotFound):
                view.outcome(view.operation("asked anew"), 1)
            assert None is view.request(view.operation("asked anew"))


def test_looking_writes_nothing_and_needs_no_lock(workshop: Workshop) -> None:
    """A package in a folder that may not be written, held by somebody else, can be read."""
    folder = workshop.store.package_folder(CASE)
    before = files_below(workshop.store.folder or Path())
    modes = [(path, path.stat().st_mode) for path in (folder, folder / "commits")]
    for path, _ in modes:
        path.chmod(0o555)
    try:
        with workshop.store.lock(CASE), inspect_package(folder) as view:
            kinds = [entry.kind for entry in view.timeline()]
            assert verify(folder).ok
    finally:
        for path, mode in modes:
            path.chmod(mode)
    assert (CommitKind.CREATED, CommitKind.RESUMED) == (kinds[0], kinds[-1])
    after = files_below(workshop.store.folder or Path())
    assert before == {name: after[name] for name in before}


def test_times_before_1980_do_not_matter(tmp_path: Path) -> None:
    """A package of long ago is sealed like any other."""
    workshop = Workshop(tmp_path / "here")
    workshop.at -= timedelta(days=365 * 60)
    workshop.run(workshop.create(), "a")
    workshop.store.export(CASE, tmp_path / "old.zip")
    assert () == verify(tmp_path / "old.zip").findings


def test_a_round_that_a_package_lacks_is_run_where_it_was_received(
    workshop: Workshop, sealed: Path, tmp_path: Path
) -> None:
    """A received package goes on like one's own."""
    there = Workshop(tmp_path / "there")
    there.at = workshop.at + timedelta(hours=1)
    head = there.store.receive(sealed).head
    head = there.run(head, "waits")
    assert replace(head, changed=None) == replace(
        CheckpointStore(tmp_path / "there").open(CASE), changed=None
    )
