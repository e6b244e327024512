"""The store: one generation after another, whoever asks and whatever died before."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from casework.checkpoints.change import Change
from casework.checkpoints.memory_storage import MemoryStorage
from casework.checkpoints.names import case_folder, commit_path, outcome_path
from casework.checkpoints.records import (
    CommitKind,
    OperationStatus,
    PackageStatus,
    operation_hash,
)
from casework.checkpoints.store import CheckpointStore
from casework.checkpoints.verify import verify, verify_storage
from casework.errors import (
    FormatError,
    IllegalTransition,
    IntegrityError,
    LockBusy,
    NotDue,
    OperationConflict,
    PackageNotFound,
    StaleGeneration,
    StorageError,
)
from tests.support.packages import CASE, INPUTS, Workshop, files_below

FOLDER = case_folder(CASE)


class CountingStorage(MemoryStorage):
    """A storage that counts what is asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0
        self.lists = 0

    def read(self, path: str) -> bytes:
        """Count and read."""
        self.reads += 1
        return super().read(path)

    def list(self, folder: str) -> list[str]:
        """Count and list."""
        self.lists += 1
        return super().list(folder)


@pytest.fixture(name="workshop")
def workshop_in_memory() -> Workshop:
    """Return a workshop that needs no disk."""
    return Workshop(MemoryStorage())


def test_the_same_case_is_created_once(workshop: Workshop) -> None:
    """The same inputs again change nothing; other inputs are refused."""
    head = workshop.create()
    workshop.pass_time(100)
    assert head == workshop.create()
    with pytest.raises(FormatError) as refusal:
        workshop.store.create(CASE, {"report.txt": b"other"})
    assert "case_exists" == refusal.value.code


def test_inputs_are_kept_byte_for_byte_under_their_names(workshop: Workshop) -> None:
    """Each input is found again by the user's own name, which no path could hold."""
    inputs = {"Mails/Über.TXT": b"\xff\x00", "mails/über.txt": b"", "../x": b"1", "con": b"2"}
    workshop.store.create("Fall 1", inputs, derived={"text.txt": b"product"})
    view = workshop.store.inspect("Fall 1")
    found = {
        entry.name or entry.path.removeprefix("original/"): view.read(entry.path)
        for entry in view.originals()
    }
    assert inputs == found
    assert b"product" == workshop.store.read_file("Fall 1", "case/text.txt")


@pytest.mark.parametrize(
    ("case_id", "names", "code"),
    [
        ("", ["a"], "bad_id"),
        ("\ud800", ["a"], "bad_id"),
        ("a", ["\udfff"], "bad_id"),
        ("a", ["x", "x/y"], "names_collide"),
    ],
)
def test_what_cannot_be_stored_is_refused(
    workshop: Workshop, case_id: str, names: Sequence[str], code: str
) -> None:
    """Ids and names that no storage can hold are refused before anything is written."""
    with pytest.raises(FormatError) as refusal:
        workshop.store.create(case_id, dict.fromkeys(names, b""))
    assert (code, []) == (refusal.value.code, list(workshop.store.list()))


def test_ids_that_look_alike_have_packages_of_their_own(workshop: Workshop) -> None:
    """Ids that differ in case or normal form only are different cases."""
    ids = ["Case", "case", "CASE", "e\u0301", "\u00e9", "../case", "case."]
    for case_id in ids:
        workshop.store.create(case_id, {"id": case_id.encode()})
    assert sorted(ids) == sorted(workshop.store.list())
    assert ids == [workshop.store.read_file(case_id, "original/id").decode() for case_id in ids]


def test_a_commit_adds_one_generation(workshop: Workshop) -> None:
    """Each commit raises the generation by one, and what it named can be read."""
    head = workshop.run(workshop.create(), "a")
    assert (2, PackageStatus.SUCCESS) == (head.generation, head.status)
    path = outcome_path(operation_hash(1, "a"), 1)
    assert b'"answer":"yes"' in workshop.store.read_file(CASE, path)


def test_a_stale_writer_changes_nothing(workshop: Workshop) -> None:
    """A change made for an older generation is void, whichever store instance brings it."""
    storage = MemoryStorage()
    first, second = Workshop(storage), Workshop(storage)
    head = first.create()
    late = second.change(second.store.open(CASE), "b")
    newest = first.run(head, "a")
    for writer in (second, Workshop(storage), first):
        with pytest.raises(StaleGeneration):
            writer.store.commit(late)
    assert newest == second.store.open(CASE)
    assert verify_storage(storage, FOLDER).ok


def test_of_many_writers_one_wins(tmp_path: Path) -> None:
    """Eight stores commit the same generation at once: one succeeds, seven are told."""
    head = Workshop(tmp_path).create()

    def race(number: int) -> bool:
        writer = Workshop(tmp_path)
        try:
            writer.store.commit(writer.change(head, f"op-{number}"))
        except StaleGeneration:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        assert 1 == sum(threads.map(race, range(8)))
    store = CheckpointStore(tmp_path)
    assert 2 == store.open(CASE).generation
    assert verify(store.package_folder(CASE)).ok


def test_many_threads_may_use_one_store(tmp_path: Path) -> None:
    """Thirty-two threads drive cases of their own through one store, and nothing is lost."""
    workshop = Workshop(tmp_path)

    def drive(number: int) -> int:
        head = workshop.create(f"case-{number}")
        for operation in ("a", "b", "c"):
            with workshop.store.lock(head.case_id):
                head = workshop.run(workshop.store.open(head.case_id), operation)
        return head.generation

    with ThreadPoolExecutor(32) as threads:
        assert {4} == set(threads.map(drive, range(64)))
    counts = workshop.store.index.counts()
    assert (64, {OperationStatus.SUCCESS: 192}) == (counts.cases, counts.operations)


def test_reopening_costs_one_failed_read() -> None:
    """An unchanged package is known; only the next generation is asked for."""
    storage = CountingStorage()
    workshop = Workshop(storage)
    workshop.run(workshop.create(), "a")
    storage.reads = storage.lists = 0
    workshop.store.open(CASE)
    assert (1, 0) == (storage.reads, storage.lists)


def test_a_cold_open_reads_little_and_lists_nothing() -> None:
    """A package of 500 generations opens by galloping, its snapshots and the last few records."""
    storage = CountingStorage()
    workshop = Workshop(storage)
    head = workshop.create()
    for number in range(500):
        head = workshop.run(head, f"op-{number}")
    storage.reads = storage.lists = 0
    assert dict(head.operations) == dict(CheckpointStore(storage).open(CASE).operations)
    assert (True, 0) == (storage.reads < 100, storage.lists)


def test_lost_commits_are_noticed_by_the_index(tmp_path: Path) -> None:
    """If the index knows a generation that is gone, opening names the way to find out more."""
    workshop = Workshop(tmp_path)
    workshop.run(workshop.create(), "a")
    (workshop.store.package_folder(CASE) / commit_path(2)).unlink()
    with pytest.raises(IntegrityError) as refusal:
        CheckpointStore(tmp_path).open(CASE)
    assert "casework verify" in str(refusal.value)


def test_a_removed_case_can_be_imported_again(tmp_path: Path) -> None:
    """The index forgets a package that was removed by hand."""
    workshop = Workshop(tmp_path)
    workshop.run(workshop.create(), "a")
    folder = workshop.store.package_folder(CASE)
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    with pytest.raises(PackageNotFound):
        CheckpointStore(tmp_path).open(CASE)
    head = CheckpointStore(tmp_path).create(CASE, INPUTS)
    assert head == CheckpointStore(tmp_path).open(CASE)


def test_a_package_of_another_id_is_not_the_one_asked_for(workshop: Workshop) -> None:
    """A case that has another package than the caller believes is not opened."""
    workshop.create()
    with pytest.raises(PackageNotFound) as refusal:
        workshop.store.open(CASE, "0" * 64)
    assert "other_package" == refusal.value.code


def test_a_leftover_of_a_crash_gives_way(workshop: Workshop) -> None:
    """An outcome that no commit names is replaced by the one that is committed."""
    storage = MemoryStorage()
    workshop = Workshop(storage)
    head = workshop.create()
    path = outcome_path(operation_hash(1, "a"), 1)
    storage.create([(f"{FOLDER}/{path}", b"from another life")])
    assert b"from another life" == workshop.store.uncommitted(CASE, path)
    change = workshop.change(head, "a")
    workshop.store.commit(change)
    assert dict(change.files)[path] == workshop.store.read_file(CASE, path)
    assert None is workshop.store.uncommitted(CASE, path)


def test_leftovers_are_replaced_only_by_who_can_have_the_lock(tmp_path: Path) -> None:
    """While another worker holds the case, nobody removes a file that may be his."""
    workshop, other = Workshop(tmp_path), Workshop(tmp_path)
    head = workshop.create()
    path = outcome_path(operation_hash(1, "a"), 1)
    place = workshop.store.package_folder(CASE) / path
    place.parent.mkdir(parents=True)
    place.write_bytes(b"his")
    with other.store.lock(CASE), pytest.raises(LockBusy):
        workshop.store.commit(workshop.change(head, "a"))
    assert b"his" == place.read_bytes()


def test_a_committed_file_is_never_written_again(workshop: Workshop) -> None:
    """A change that would replace a committed file is refused, and the file stands."""
    head = workshop.create()
    step = Change(
        case_id=CASE,
        package_id=head.package_id,
        expected_generation=1,
        kind=CommitKind.RECEIVED,
        at=workshop.at,
        operations={},
        files=(("case/note.txt", b"first"),),
    )
    workshop.store.commit(step)
    again = replace(step, expected_generation=2, files=(("case/note.txt", b"second"),))
    with pytest.raises(FormatError) as refusal:
        workshop.store.commit(again)
    assert "immutable_file" == refusal.value.code
    assert b"first" == workshop.store.read_file(CASE, "case/note.txt")


@pytest.mark.parametrize(
    "path", ["original/x", "package.json", "commits/9", "snapshots/1", "../x", "/x", "other/x"]
)
def test_commits_write_only_where_they_may(workshop: Workshop, path: str) -> None:
    """Inputs, identity, history and everything outside are closed to later commits."""
    head = workshop.create()
    change = replace(
        workshop.change(head, "a"), kind=CommitKind.REVIEWED, operations={}, files=((path, b""),)
    )
    with pytest.raises(FormatError):
        workshop.store.commit(change)
    assert head == workshop.store.open(CASE)


def test_a_file_that_was_changed_on_the_disk_is_not_read(tmp_path: Path) -> None:
    """What a commit named is given out only if its bytes are the committed ones."""
    workshop = Workshop(tmp_path)
    workshop.create()
    place = workshop.store.package_folder(CASE) / "original/report.txt"
    place.write_bytes(b"The pump failed trice.")
    with pytest.raises(IntegrityError):
        workshop.store.read_file(CASE, "original/report.txt")
    place.unlink()
    with pytest.raises(IntegrityError):
        workshop.store.read_file(CASE, "original/report.txt")
    with pytest.raises(PackageNotFound):
        workshop.store.read_file(CASE, "original/other.txt")


def test_an_impossible_commit_is_refused_before_it_is_written(tmp_path: Path) -> None:
    """Nothing runs after SUCCESS, and the package's bytes stay as they were."""
    workshop = Workshop(tmp_path)
    head = workshop.run(workshop.create(), "a")
    folder = workshop.store.package_folder(CASE)
    before = files_below(folder)
    with pytest.raises(IllegalTransition):
        workshop.store.commit(workshop.change(head, "a"))
    assert before == files_below(folder)


def test_phase_and_revision_change_only_where_a_commit_says_so(workshop: Workshop) -> None:
    """A raised revision turns operations into history; the same id then starts anew."""
    head = workshop.run(workshop.create(), "a", "temporary_failure")
    base = replace(workshop.change(head, "b"), operations={}, files=())
    for change in (
        replace(base, kind=CommitKind.REVIEWED, phase="NEXT"),
        replace(base, kind=CommitKind.RECEIVED, analysis_revision=2),
    ):
        with pytest.raises(IllegalTransition):
            workshop.store.commit(change)
    head = workshop.store.commit(replace(base, kind=CommitKind.PHASE_CHANGED, phase="NEXT"))
    assert ("NEXT", PackageStatus.RETRY_PENDING) == (head.phase, head.status)
    raised = replace(
        base,
        kind=CommitKind.REVISION_RAISED,
        expected_generation=head.generation,
        analysis_revision=2,
    )
    head = workshop.store.commit(raised)
    assert (2, PackageStatus.ACTIVE) == (head.analysis_revision, head.status)
    assert 0 == sum(workshop.store.index.counts().operations.values())
    assert PackageStatus.SUCCESS == workshop.run(head, "a").status


def test_a_blocked_operation_lives_on_under_a_new_id(workshop: Workshop) -> None:
    """Not before its time, not under a used id, linked both ways, and then due at once."""
    head = workshop.exhaust(workshop.create(), "a")
    resume = workshop.store.resume
    names = (CASE, head.package_id, "a")
    assert (PackageStatus.BLOCKED, "inbox") == (head.status, head.routing.destination)
    with pytest.raises(NotDue):
        resume(*names, new_operation_id="b")
    workshop.pass_time(3600)
    with pytest.raises(OperationConflict):
        resume(*names, new_operation_id="a")
    head = resume(*names, new_operation_id="b")
    old, new = (head.operations[operation_hash(1, name)] for name in ("a", "b"))
    assert ("b", "a") == (old.resumed_as, new.resumed_from)
    assert (PackageStatus.RETRY_PENDING, None) == (head.status, head.routing.destination)
    assert ["b"] == [o.operation_id for o in workshop.store.index.due(workshop.at, 9)]
    with pytest.raises(OperationConflict):
        resume(*names, new_operation_id="c")
    head = workshop.run(head, "b")
    assert PackageStatus.SUCCESS == head.status


def test_what_succeeded_or_never_ran_cannot_be_resumed(workshop: Workshop) -> None:
    """A failed one at once; a finished, unknown or never begun one not at all."""
    head = workshop.run(workshop.create(), "fails", "error")
    head = workshop.run(head, "done")
    with pytest.raises(OperationConflict):
        workshop.store.resume(CASE, head.package_id, "fails", new_operation_id="done")
    head = workshop.store.resume(CASE, head.package_id, "fails", new_operation_id="x")
    assert 0 == head.tally.failed
    for name, refusal in (
        ("x", IllegalTransition),
        ("done", IllegalTransition),
        ("unknown", PackageNotFound),
    ):
        with pytest.raises(refusal):
            workshop.store.resume(CASE, head.package_id, name, new_operation_id="y")


def test_an_operation_that_waits_can_be_left_for_another(workshop: Workshop) -> None:
    """Changed settings leave a way on: the old id is history, and only the new one is due."""
    head = workshop.run(workshop.create(), "waits", "temporary_failure")
    head = workshop.store.resume(CASE, head.package_id, "waits", new_operation_id="anew")
    assert (1, PackageStatus.RETRY_PENDING) == (head.tally.pending, head.status)
    later = workshop.at + timedelta(days=1)
    assert ["anew"] == [o.operation_id for o in workshop.store.index.due(later, 9)]
    with pytest.raises(IllegalTransition):
        workshop.store.commit(workshop.change(head, "waits"))


def test_a_resumption_waits_for_nobody(tmp_path: Path) -> None:
    """While somebody works on the case, resuming is refused at once."""
    workshop, other = Workshop(tmp_path), Workshop(tmp_path)
    head = workshop.run(workshop.create(), "a", "error")
    with other.store.lock(CASE), pytest.raises(LockBusy):
        workshop.store.resume(CASE, head.package_id, "a", new_operation_id="b")


def test_ground_that_ignores_create_only_is_refused() -> None:
    """A bucket that overwrites, or gives back other bytes, is found out before any paid call."""

    class Overwriting(MemoryStorage):
        def create(self, files: Sequence[tuple[str, bytes]]) -> None:
            for path, content in files:
                if path in self._files:
                    self._files[path] = content
                else:
                    super().create([(path, content)])

    class Lying(MemoryStorage):
        def read(self, path: str) -> bytes:
            return super().read(path) + b"!"

    CheckpointStore(MemoryStorage()).prove()
    for storage, code in ((Overwriting(), "create_only_ignored"), (Lying(), "ground_lies")):
        with pytest.raises(StorageError) as refusal:
            CheckpointStore(storage).prove()
        assert code == refusal.value.code
        assert {} == storage._files


def test_the_ground_is_left_as_it_was(tmp_path: Path) -> None:
    """Proving leaves no file behind but the lock's."""
    store = CheckpointStore(tmp_path)
    store.prove()
    store.prove()
    assert 1 == len(files_below(tmp_path))


def test_another_thread_is_kept_out_while_a_case_is_held(workshop: Workshop) -> None:
    """Creating and resuming wait for nobody, not even for a thread of the same process."""
    head = workshop.create()

    def resume() -> None:
        workshop.store.resume(CASE, head.package_id, "extract", new_operation_id="extract@2")

    with ThreadPoolExecutor(1) as threads, workshop.store.lock(CASE), pytest.raises(LockBusy):
        threads.submit(resume).result()
    with ThreadPoolExecutor(1) as threads, workshop.store.lock("new"), pytest.raises(LockBusy):
        threads.submit(workshop.store.create, "new", INPUTS).result()


def test_a_case_that_lost_its_first_commit_is_damage_and_not_a_new_case(tmp_path: Path) -> None:
    """Importing it again removes nothing of what is left of it."""
    store = CheckpointStore(tmp_path)
    store.create(CASE, {"report.txt": b"text"})
    folder = tmp_path / FOLDER / "commits"
    (folder / "0000000001.json").rename(folder / "0000000002.json")
    with pytest.raises(IntegrityError):
        CheckpointStore(tmp_path).create(CASE, {"report.txt": b"text"})
    assert (folder / "0000000002.json").exists()
