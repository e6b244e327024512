"""The index is a cache: quick when it is there, rebuilt with the same answers when it is not."""

from __future__ import annotations

import multiprocessing
import os
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from threading import Event

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from casework.checkpoints import index as index_module
from casework.checkpoints.fold import PackageHead
from casework.checkpoints.index import PackageIndex
from casework.checkpoints.index_rows import Planned
from casework.checkpoints.memory_storage import MemoryStorage
from casework.checkpoints.records import OperationStatus, PackageStatus
from casework.checkpoints.reviews import ReviewMark, ReviewVerdict
from casework.checkpoints.store import CheckpointStore
from casework.errors import StorageError
from tests.support.packages import CASE, START, Workshop

ANSWERS: dict[str, Callable[[PackageIndex], object]] = {
    "counts": lambda index: index.counts(),
    "due": lambda index: index.due(START + timedelta(days=1), 100),
    "next": lambda index: index.next_due_at(),
    "packages": lambda index: index.packages(),
    "operations": lambda index: index.operations(CASE),
    "inbox": lambda index: index.in_status(OperationStatus.BLOCKED),
    "failed": lambda index: index.in_status(OperationStatus.ERROR),
}


def answers(index: PackageIndex) -> dict[str, object]:
    """Return everything that an index can be asked."""
    return {name: ask(index) for name, ask in ANSWERS.items()}


@pytest.fixture(name="workshop")
def workshop_with_history(tmp_path: Path) -> Workshop:
    """Return a workshop on a disk with two cases in many states."""
    workshop = Workshop(tmp_path / "runtime")
    workshop.full_history()
    workshop.run(workshop.create("case-2"), "a", "temporary_failure")
    return workshop


def index_file(workshop: Workshop) -> Path:
    """Return the file of a workshop's index."""
    assert workshop.store.folder is not None
    return workshop.store.folder / "index.sqlite3"


def test_an_index_that_was_lost_gives_the_same_answers(workshop: Workshop) -> None:
    """Deleting the file and rescanning the packages changes no answer."""
    before = answers(workshop.store.index)
    workshop.store.index.close()
    index_file(workshop).unlink()
    assert before == answers(CheckpointStore(index_file(workshop).parent).index)


def test_an_index_removed_while_it_is_open_is_made_anew(workshop: Workshop) -> None:
    """A process that has the file open notices that another one stands there, or none."""
    before = answers(workshop.store.index)
    index_file(workshop).unlink()
    assert before == answers(workshop.store.index)
    assert index_file(workshop).exists()


@pytest.mark.parametrize("content", [b"", b"not a database", b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_index_is_rebuilt(workshop: Workshop, content: bytes) -> None:
    """Whatever stands in the file, the answers are those of the packages."""
    before = answers(workshop.store.index)
    workshop.store.index.close()
    index_file(workshop).write_bytes(content)
    assert before == answers(CheckpointStore(index_file(workshop).parent).index)


def test_an_index_damaged_while_it_is_open_is_rebuilt(workshop: Workshop) -> None:
    """Pages that turn to noise under a running process cost a rescan and nothing else."""
    before = answers(workshop.store.index)
    size = index_file(workshop).stat().st_size
    with index_file(workshop).open("r+b") as file:
        file.seek(100)
        file.write(os.urandom(size - 100))
    assert before == answers(workshop.store.index)
    head = workshop.store.open("case-2")
    workshop.pass_time(60)
    workshop.run(head, "a")
    assert 3 == workshop.store.index.generation("case-2")


def test_an_index_that_holds_what_nobody_wrote_is_rebuilt(workshop: Workshop) -> None:
    """A state that does not exist is damage, not an answer and not a crash."""
    before = answers(workshop.store.index)
    workshop.store.index.close()
    with sqlite3.connect(index_file(workshop)) as other:
        other.execute("update operations set status = 'bogus' where status <> 'READY'")
        other.execute("update packages set status = 'bogus'")
    other.close()
    assert before == answers(CheckpointStore(index_file(workshop).parent).index)


def test_a_reboot_costs_a_rescan(tmp_path: Path) -> None:
    """Nothing of the file is believed after the machine restarted; before, nothing is read anew."""
    heads = [Workshop(MemoryStorage()).create(f"case-{number}") for number in range(3)]
    scans = 0

    def every_head() -> Iterator[PackageHead]:
        nonlocal scans
        scans += 1
        yield from heads

    for boot, expected in (("first", 1), ("first", 1), ("second", 2), ("second", 2)):
        index = PackageIndex(tmp_path / "i", every_head, boot=boot)
        assert (3, expected) == (index.counts().cases, scans)
        index.close()


def test_an_index_of_another_version_is_thrown_away(workshop: Workshop) -> None:
    """Tables of a version that this one does not know are not read."""
    before = answers(workshop.store.index)
    workshop.store.index.close()
    with sqlite3.connect(index_file(workshop)) as connection:
        connection.execute("update meta set value = '0' where name = 'version'")
        connection.execute("drop table tally")
    connection.close()
    assert before == answers(CheckpointStore(index_file(workshop).parent).index)


def test_a_read_only_folder_is_answered_from_memory(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no index can be written one is made in memory, and the answers are the same."""
    before = answers(workshop.store.index)
    real = sqlite3.connect

    def refusing(place: object, **options: object) -> sqlite3.Connection:
        if place != ":memory:":
            real("/nonexistent/folder/x").execute("select 1")
        return real(":memory:", isolation_level=None, check_same_thread=False)

    monkeypatch.setattr(sqlite3, "connect", refusing)
    assert before == answers(CheckpointStore(index_file(workshop).parent).index)


def test_planned_work_is_due_before_everything(workshop: Workshop) -> None:
    """Operations without a state are due at once, in the order planned, until they have one."""
    index = workshop.store.index
    index.plan(["first", "second", "answers"])
    due = index.due(START - timedelta(days=9), 100)
    assert [
        (CASE, "first"),
        ("case-2", "first"),
        (CASE, "second"),
        ("case-2", "second"),
        ("case-2", "answers"),
    ] == [(operation.case_id, operation.operation_id) for operation in due]
    assert (None, {Planned.READY: 5}) == (due[0].status, index.counts().planned)
    workshop.run(workshop.store.open(CASE), "first")
    assert {Planned.READY: 4} == index.counts().planned
    index.plan(["second"])
    assert {"second"} == {o.operation_id for o in index.in_status(Planned.READY)}
    index.plan(["only here"], case_id="case-2")
    assert {Planned.READY: 3} == index.counts().planned
    index.plan([])
    assert {} == index.counts().planned


def test_held_work_is_due_when_it_is_let_go(workshop: Workshop) -> None:
    """Work that waits for other operations is planned, counted and not due; planning keeps that."""
    index = workshop.store.index
    index.plan(["first", "second"], held={"second"})
    assert {Planned.READY: 2, Planned.HELD: 2} == index.counts().planned
    assert {"first"} == {o.operation_id for o in index.due(START - timedelta(days=9), 9)}
    here, there = index.in_status(Planned.HELD)
    index.set_planned(here.case_id, here.ophash, Planned.READY)
    index.set_planned(there.case_id, there.ophash, Planned.SKIPPED)
    index.plan(["first", "second"], held={"second"})
    assert {Planned.READY: 3, Planned.SKIPPED: 1} == index.counts().planned
    index.plan(["first", "second"])
    assert {Planned.READY: 4} == index.counts().planned
    index.plan(["first"], keep=lambda operation_id: operation_id == "second")
    assert {Planned.READY: 4} == index.counts().planned


def test_an_operation_that_has_a_state_is_not_planned_any_more(workshop: Workshop) -> None:
    """What stands in the package decides; a plan cannot change it."""
    index = workshop.store.index
    known = index.in_status(OperationStatus.SUCCESS)[0]
    index.set_planned(known.case_id, known.ophash, Planned.SKIPPED)
    assert OperationStatus.SUCCESS in {o.status for o in index.operations(known.case_id)}
    assert {} == index.counts().planned


def test_retries_come_due_at_their_time(workshop: Workshop) -> None:
    """Not a microsecond before its due time, and the longest due first."""
    index = workshop.store.index
    index.plan(["planned and never begun"])
    due_at = index.next_due_at()
    assert due_at is not None
    assert due_at > START
    index.plan([])
    assert [] == index.due(due_at - timedelta(microseconds=1), 9)
    assert due_at == index.due(due_at, 9)[0].due_at
    found = [operation.due_at for operation in index.due(due_at + timedelta(days=1), 9)]
    assert (sorted(found, key=str), 4) == (found, len(found))


def test_resumed_and_abandoned_operations_are_history(workshop: Workshop) -> None:
    """Counts hold current operations only: what lives on is counted where it lives."""
    counts = workshop.store.index.counts()
    assert {
        OperationStatus.SUCCESS: 1,
        OperationStatus.RETRY_PENDING: 4,
    } == counts.operations
    assert {PackageStatus.RETRY_PENDING: 2} == counts.packages
    assert {"answers", "waits", "again", "asked anew"} == {
        operation.operation_id for operation in workshop.store.index.operations(CASE)
    }


def test_the_inbox_says_why_and_until_when(tmp_path: Path) -> None:
    """A blocked operation is listed with its routing; pages follow each other without a gap."""
    workshop = Workshop(tmp_path)
    for number in range(5):
        workshop.exhaust(workshop.create(f"case-{number}"), "a")
    index, after, seen = workshop.store.index, ("", ""), []
    while page := index.in_status(OperationStatus.BLOCKED, after=after, limit=2):
        seen += page
        after = page[-1].case_id, page[-1].ophash
    assert [f"case-{number}" for number in range(5)] == [found.case_id for found in seen]
    assert ("LLM_UNAVAILABLE", "inbox", False) == (
        seen[0].routing.reason,
        seen[0].routing.destination,
        seen[0].routing.automatic_retry,
    )
    assert None is index.next_due_at()


def test_cases_are_listed_in_pages_and_by_prefix(tmp_path: Path) -> None:
    """Special characters in a prefix are text, not patterns."""
    workshop = Workshop(tmp_path)
    for case_id in ("a%1", "a%2", "ab", "b", "ä"):
        workshop.create(case_id)
    index = workshop.store.index
    assert ["a%1", "a%2"] == [package.case_id for package in index.packages(prefix="a%")]
    assert ["a%2", "ab"] == [p.case_id for p in index.packages(after="a%1", limit=2)]
    found = index.get("ä")
    assert found is not None
    assert (1, "BUILDING_CASE") == (found.generation, found.phase)
    assert None is index.get("c")


def test_an_older_head_changes_nothing(workshop: Workshop) -> None:
    """A late update of a generation that is history is ignored."""
    before = answers(workshop.store.index)
    storage = MemoryStorage()
    workshop.store.index.put(Workshop(storage).create())
    assert before == answers(workshop.store.index)


def test_a_crash_between_commit_and_index_is_noticed(workshop: Workshop) -> None:
    """A package that was about to change is read anew at the next start."""
    index = workshop.store.index
    index.mark_unsure("case-2")
    head = workshop.store.open("case-2")
    workshop.pass_time(60)
    workshop.store.commit(workshop.change(head, "a"))
    assert (2, ("case-2",)) == (index.generation("case-2"), index.unsure())
    restarted = CheckpointStore(index_file(workshop).parent)
    restarted.recover()
    assert (3, ()) == (restarted.index.generation("case-2"), restarted.index.unsure())


def test_no_answer_comes_from_an_index_that_is_thrown_away(workshop: Workshop) -> None:
    """Another thread, whose write failed, throws the file away: who asks sees all packages."""
    index = workshop.store.index
    expected = index.counts()

    def throw_away() -> None:
        for _ in range(100):
            index.discard()
            index.counts()

    seen = []
    with ThreadPoolExecutor(1) as pool:
        thrown = pool.submit(throw_away)
        while not thrown.done():
            seen.append(index.counts())
        thrown.result()
    assert [expected] * len(seen) == seen


def test_a_file_that_goes_while_it_is_opened_is_opened_anew(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither an answer nor a note ends in a file that has no name any more."""
    expected = workshop.store.index.counts()
    file, create = index_file(workshop), index_module._create
    created = []

    def create_and_lose(connection: sqlite3.Connection, boot: str) -> None:
        create(connection, boot)
        created.append(boot)
        if len(created) == 1:
            file.unlink()

    file.unlink()
    monkeypatch.setattr(index_module, "_create", create_and_lose)
    assert expected == workshop.store.index.counts()
    assert (2, True) == (len(created), file.exists())


def test_two_rescans_at_once_take_nothing_from_each_other(tmp_path: Path) -> None:
    """The first to end has read every package, whatever the other has read so far."""
    packages = [Workshop(MemoryStorage()).create(f"case-{number}") for number in range(3)]
    later_began, first_ended = Event(), Event()

    def later_heads() -> Iterator[PackageHead]:
        later_began.set()
        first_ended.wait(60)
        yield from packages

    later = PackageIndex(tmp_path / "i", later_heads)
    with ThreadPoolExecutor(1) as pool:

        def heads() -> Iterator[PackageHead]:
            yield from packages
            pool.submit(later.rescan)
            later_began.wait(60)

        first = PackageIndex(tmp_path / "i", heads)
        first.rescan()
        counted = first.counts().cases
        first_ended.set()
    assert (3, 3) == (counted, later.counts().cases)


def test_a_rescan_whose_file_is_thrown_away_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No file is called complete that holds only the packages that were read last."""
    monkeypatch.setattr(index_module, "RESCAN_BATCH", 1)
    packages = [Workshop(MemoryStorage()).create(f"case-{number}") for number in range(3)]
    scans = 0

    def heads() -> Iterator[PackageHead]:
        nonlocal scans
        scans += 1
        for number, head in enumerate(packages):
            if (scans, number) == (1, 2):
                (tmp_path / "i").unlink()
            yield head

    index = PackageIndex(tmp_path / "i", heads)
    assert (3, 3, 2) == (index.rescan(), index.counts().cases, scans)


def test_a_damaged_package_does_not_stop_a_rescan(workshop: Workshop) -> None:
    """The others are indexed; the damaged one is left to ``verify``."""
    place = workshop.store.package_folder("case-2") / "commits/0000000002.json"
    place.write_bytes(b"{}")
    workshop.store.index.discard()
    restarted = CheckpointStore(index_file(workshop).parent)
    assert [CASE] == [package.case_id for package in restarted.index.packages()]


def test_threads_share_one_index(workshop: Workshop) -> None:
    """Writers and askers from many threads do not meet inside a transaction."""

    def drive(number: int) -> int:
        workshop.run(workshop.create(f"thread-{number}"), "a")
        return len(workshop.store.index.due(workshop.at + timedelta(days=1), 50))

    with ThreadPoolExecutor(16) as threads:
        assert {4} == set(threads.map(drive, range(48)))
    assert 50 == workshop.store.index.counts().cases


def _drive_cases(root: Path, number: int) -> None:
    workshop = Workshop(root)
    for count in range(10):
        workshop.run(workshop.create(f"p{number}-{count}"), "a")


def test_processes_share_one_index(workshop: Workshop) -> None:
    """Two processes write while a third one asks, and no update is lost."""
    root = index_file(workshop).parent
    context = multiprocessing.get_context("spawn")
    children = [context.Process(target=_drive_cases, args=(root, n)) for n in range(2)]
    for child in children:
        child.start()
    while any(child.is_alive() for child in children):
        assert workshop.store.index.counts().cases >= 2
    assert [0, 0] == [child.exitcode for child in children]
    assert 22 == workshop.store.index.counts().cases


def test_a_forked_child_asks_through_its_own_connection(workshop: Workshop) -> None:
    """The child neither uses nor closes what its parent has open."""
    expected = workshop.store.index.counts()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if workshop.store.index.counts() == expected else 2
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert 0 == os.waitstatus_to_exitcode(status)
    assert expected == workshop.store.index.counts()


def test_an_index_that_cannot_be_written_is_thrown_away(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A commit stands whether or not the index can be told; the next question finds it."""

    def full(_connection: object, _head: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    head = workshop.store.open("case-2")
    workshop.pass_time(60)
    with monkeypatch.context() as broken:
        broken.setattr(index_module, "put_head", full)
        with pytest.raises(StorageError) as refusal:
            workshop.run(head, "a")
    assert "index_unavailable" == refusal.value.code
    assert 3 == workshop.store.open("case-2").generation
    assert 2 == workshop.store.index.counts().operations[OperationStatus.SUCCESS]


results = st.sampled_from(["success", "error", "temporary_failure"])
steps = st.lists(
    st.tuples(st.sampled_from(["c1", "c2"]), st.sampled_from(["a", "b"]), results), max_size=12
)


@settings(max_examples=60, deadline=None)
@given(steps)
def test_updates_and_a_rescan_always_agree(history: list[tuple[str, str, str]]) -> None:
    """Whatever rounds and resumptions happen, the kept index equals a rebuilt one."""
    storage = MemoryStorage()
    workshop = Workshop(storage, rounds_max=2)
    for case_id, asked, result in history:
        head, operation_id = workshop.create(case_id), asked
        states = {s.operation_id: s for s in head.operations.values()}
        while operation_id in states and states[operation_id].resumed_as:
            operation_id = str(states[operation_id].resumed_as)
        state = states.get(operation_id)
        if state is None or state.status is OperationStatus.RETRY_PENDING:
            workshop.run(head, operation_id, result)  # type: ignore[arg-type]
        elif state.status is not OperationStatus.SUCCESS:
            workshop.pass_time(3600)
            workshop.store.resume(
                case_id, head.package_id, operation_id, new_operation_id=f"{operation_id}+"
            )
        workshop.pass_time(60)
    kept, rebuilt = workshop.store.index, CheckpointStore(storage).index
    assert answers(rebuilt) == answers(kept)


@pytest.mark.parametrize(
    ("verdict", "counts_as"),
    [
        (ReviewVerdict.APPROVED, OperationStatus.SUCCESS),
        (ReviewVerdict.CORRECTED, OperationStatus.SUCCESS),
        (ReviewVerdict.REJECTED, OperationStatus.ERROR),
    ],
)
def test_what_a_person_decided_counts_as_decided(
    verdict: ReviewVerdict, counts_as: OperationStatus
) -> None:
    """Counts, the list of decisions, and a rescan agree; the status is still that of the rounds."""
    workshop = Workshop(MemoryStorage())
    head = workshop.run(workshop.create(), "op")
    ((ophash, state),) = head.operations.items()
    mark = ReviewMark(verdict=verdict, number=1, sha256="0" * 64, size=1, output_sha256="0" * 64)
    after = replace(head, operations=head.operations.changed({ophash: replace(state, review=mark)}))
    index = PackageIndex(None, lambda: [after])
    for look in (index.counts, index.rescan):
        look()
        assert {counts_as: 1} == index.counts().operations
        (found,) = index.decided()
        assert (verdict, counts_as, OperationStatus.SUCCESS) == (
            found.verdict,
            found.standing,
            found.status,
        )
    index.put(replace(head, generation=head.generation + 2, changed=None))
    assert ({OperationStatus.SUCCESS: 1}, []) == (index.counts().operations, index.decided())
