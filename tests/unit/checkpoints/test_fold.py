"""What is folded step by step equals what is counted anew, at a cost that does not grow."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.checkpoints.fold import OperationStates, PackageHead, Tally, advance, unborn
from casework.checkpoints.memory_storage import MemoryStorage
from casework.checkpoints.names import case_folder, commit_path, snapshot_path
from casework.checkpoints.package_reader import PackageReader
from casework.checkpoints.records import (
    NO_ROUTING,
    OperationState,
    OperationStatus,
    PackageIdentity,
    PackageStatus,
    Routing,
)
from casework.checkpoints.snapshots import INTERVAL, decode_snapshot, encode_snapshot, reach
from casework.checkpoints.store import CheckpointStore
from casework.errors import CheckpointError, IntegrityError, PackageNotFound
from casework.strict_json import canonical
from tests.support.packages import CASE, START, Workshop

FOLDER = case_folder(CASE)
IDENTITY = PackageIdentity(case_id=CASE, package_id="0" * 64, created_at=START)

changes = st.lists(
    st.tuples(
        st.integers(0, 6),
        st.sampled_from(OperationStatus),
        st.booleans(),
        st.sampled_from([0, 0, 0, 0, 1]),
    ),
    max_size=150,
)


def state_of(
    number: int, status: OperationStatus, *, resumed: bool, revision: int
) -> OperationState:
    """Return a state, its routing telling which operation it is of."""
    return OperationState(
        operation_id=f"op-{number}",
        analysis_revision=revision,
        status=status,
        phase="p",
        rounds_completed=1,
        rounds_max=1,
        retry_delay_seconds=1.0,
        blocked_retry_seconds=1.0,
        routing=Routing(f"r{number}") if status is OperationStatus.BLOCKED else NO_ROUTING,
        resumed_as="x" if resumed else None,
    )


@given(changes)
def test_the_kept_head_equals_one_counted_anew(
    history: list[tuple[int, OperationStatus, bool, int]],
) -> None:
    """Tally, status, routing and states never drift from what the operations say."""
    head, revision = unborn(IDENTITY), 1
    known: dict[str, OperationState] = {}
    blocked: list[str] = []
    for number, status, resumed, raised in history:
        revision += raised
        state = state_of(number, status, resumed=resumed, revision=revision)
        head = advance(head, {state.ophash: state}, analysis_revision=revision, phase="p")
        known[state.ophash] = state
        blocked = [name for name in blocked if name != state.ophash] + [state.ophash]
    current = [s for s in known.values() if not s.resumed_as and s.analysis_revision == revision]
    counted = {status: sum(s.status is status for s in current) for status in OperationStatus}
    assert known == dict(head.operations)
    assert len(known) == len(head.operations)
    assert Tally(
        pending=counted[OperationStatus.RETRY_PENDING],
        blocked=counted[OperationStatus.BLOCKED],
        failed=counted[OperationStatus.ERROR],
        succeeded=counted[OperationStatus.SUCCESS],
    ) == (head.tally)
    waiting = [name for name in blocked if known[name] in current and known[name].routing.reason]
    assert head.routing == (known[waiting[-1]].routing if waiting else NO_ROUTING)
    assert head.status is head.tally.status


@pytest.mark.parametrize(
    ("tally", "status"),
    [
        (Tally(), PackageStatus.ACTIVE),
        (Tally(succeeded=1), PackageStatus.SUCCESS),
        (Tally(succeeded=1, failed=1), PackageStatus.ERROR),
        (Tally(failed=1, blocked=1), PackageStatus.BLOCKED),
        (Tally(blocked=1, pending=1), PackageStatus.RETRY_PENDING),
    ],
)
def test_a_package_waits_for_what_is_most_urgent(tally: Tally, status: PackageStatus) -> None:
    """Pending goes before blocked, blocked before failed, failed before done."""
    assert status is tally.status


def test_older_heads_stay_as_they_were() -> None:
    """A successor shares with its predecessor and changes nothing in it."""
    first = state_of(1, OperationStatus.SUCCESS, resumed=False, revision=1)
    base = OperationStates().changed({first.ophash: first})
    second = state_of(2, OperationStatus.ERROR, resumed=False, revision=1)
    later = base.changed({second.ophash: second}).settled()
    assert ([first.ophash], {first.ophash, second.ophash}) == (list(base), set(later))
    with pytest.raises(KeyError):
        base[second.ophash]


@pytest.mark.parametrize(
    ("generation", "after"),
    [(64, 0), (128, 0), (192, 128), (256, 0), (320, 256), (384, 256), (448, 384), (512, 0)],
)
def test_snapshots_reach_back_like_a_binary_counter(generation: int, after: int) -> None:
    """Each block is written again only when a larger one closes over it."""
    assert after == reach(generation)


@pytest.fixture(name="storage", scope="module")
def storage_with_long_history() -> MemoryStorage:
    """Return a storage with a package of 4 * 64 + 10 generations."""
    storage = MemoryStorage()
    workshop = Workshop(storage)
    head = workshop.create()
    for number in range(4 * INTERVAL + 9):
        head = workshop.run(head, f"op-{number}", "error" if number % 5 else "success")
    return storage


def copy_of(storage: MemoryStorage) -> MemoryStorage:
    """Return a storage with the same files."""
    copy = MemoryStorage()
    for path, content in storage._files.items():
        copy.create([(path, content)])
    return copy


def folded(storage: MemoryStorage) -> PackageHead:
    """Return the head as commits alone tell it."""
    reader = PackageReader(storage, FOLDER)
    return reader.forward(unborn(reader.identity()), reader.newest())


def same(one: PackageHead, other: PackageHead) -> bool:
    """Compare heads without what only the newest reader of a commit knows."""
    return replace(one, changed=None, waiting=None) == replace(other, changed=None, waiting=None)


def test_a_head_with_snapshots_equals_the_fold_of_all_commits(storage: MemoryStorage) -> None:
    """Snapshots are derived: they change what is read, never what is found."""
    head = PackageReader(storage, FOLDER).head()
    assert same(folded(storage), head)


@pytest.mark.parametrize("generation", [64, 128, 192, 256])
@pytest.mark.parametrize("content", [None, b"", b"{}", b"torn"])
def test_missing_and_damaged_snapshots_are_passed_over(
    storage: MemoryStorage, generation: int, content: bytes | None
) -> None:
    """Whichever snapshot is gone or unreadable, the head is the same."""
    broken = copy_of(storage)
    broken.delete(f"{FOLDER}/{snapshot_path(generation)}")
    if content is not None:
        broken.create([(f"{FOLDER}/{snapshot_path(generation)}", content)])
    assert same(folded(storage), PackageReader(broken, FOLDER).head())


def test_a_snapshot_of_another_history_is_passed_over(storage: MemoryStorage) -> None:
    """Only commits decide: a well-formed snapshot that contradicts them has no say."""
    head = folded(storage)
    foreign = encode_snapshot(replace(head, generation=256, record_sha256="0" * 64), 0, {})
    broken = copy_of(storage)
    broken.delete(f"{FOLDER}/{snapshot_path(256)}")
    broken.create([(f"{FOLDER}/{snapshot_path(256)}", foreign)])
    assert same(head, PackageReader(broken, FOLDER).head())


def test_lost_snapshots_are_made_anew_by_the_next_one(storage: MemoryStorage) -> None:
    """A writer that misses an earlier block writes the whole state instead."""
    broken = copy_of(storage)
    for generation in (64, 128, 192, 256):
        broken.delete(f"{FOLDER}/{snapshot_path(generation)}")
    workshop = Workshop(broken)
    head = workshop.store.open(CASE)
    for number in range(1000, 1000 + 3 * INTERVAL - 10):
        head = workshop.run(head, f"op-{number}")
    found = [PackageReader(broken, FOLDER).snapshot(blocks * INTERVAL) for blocks in (5, 6, 7)]
    assert [0, 0, 384] == [snapshot.after for snapshot in found if snapshot is not None]
    assert 5 * INTERVAL - 1 == len(found[0].states if found[0] else ())
    assert same(folded(broken), CheckpointStore(broken).open(CASE))


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_no_flipped_byte_of_a_snapshot_is_believed(place: int, bits: int) -> None:
    """Whatever byte changes, the snapshot is refused."""
    state = state_of(1, OperationStatus.BLOCKED, resumed=False, revision=1)
    head = advance(unborn(IDENTITY), {state.ophash: state}, analysis_revision=1, phase="p")
    head = replace(head, generation=64, record_sha256="0" * 64)
    whole = encode_snapshot(head, 0, {state.ophash: canonical(state.to_json())})
    content = bytearray(whole)
    content[place % len(content)] ^= bits
    assert 1 == len(decode_snapshot(whole, "s").states)
    with pytest.raises(CheckpointError):
        decode_snapshot(bytes(content), "s")


@pytest.mark.parametrize("newest", [*range(1, 20), 63, 64, 65, 127, 128, 129, 200])
def test_the_newest_commit_is_found_without_listing(newest: int) -> None:
    """Galloping ends at the right generation from every starting point."""
    storage = MemoryStorage()
    for generation in range(1, newest + 1):
        storage.create([(commit_path(generation), b"x")])
    reader = PackageReader(storage)
    assert {newest} == {reader.newest(hint) for hint in (0, 1, newest // 2, newest)}
    with pytest.raises(IntegrityError):
        reader.newest(newest + 1)


def test_nothing_is_no_package() -> None:
    """A folder without a first commit holds no package, whatever else is known."""
    for hint in (0, 7):
        with pytest.raises(PackageNotFound):
            PackageReader(MemoryStorage()).newest(hint)
