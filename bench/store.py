"""What packages cost, as ratios against floors measured in the same run on the same disk.

Prints

* a commit (outcome and record) beside the least that any create-only protocol does with the same
  bytes: write a file, fsync it, link it, fsync the folder; both take turns, since the disk's speed
  moves with the neighbours;
* the same commit in a package of 10,000 outcomes beside one in a package of 1;
* commits from 32 threads beside commits from one, and the floor's growth over the same threads;
* opening a package of 10,000 outcomes and 1 GB in a process that has never seen it;
* 10,000 cases: creating them, rescanning them, counting by state, the next due operation, memory.

``--quick`` takes under a minute. Ratios are what to quote; absolute numbers move with the machine.

ext4 passes over every inode that was deleted in the last minutes before it makes a new one, and how
many there are depends on where a folder happens to lie. So ratios also stand without the time of
making files (``bare``); where both differ much, leave the disk alone for minutes and run again.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TypeVar

from casework.checkpoints.change import Change
from casework.checkpoints.disk import Disk, Draft
from casework.checkpoints.fold import PackageHead
from casework.checkpoints.folder_storage import FolderStorage
from casework.checkpoints.names import case_folder, outcome_path, request_path
from casework.checkpoints.package_reader import PackageReader
from casework.checkpoints.records import (
    CommitKind,
    FileEntry,
    OperationState,
    OperationStatus,
    operation_hash,
)
from casework.checkpoints.store import CheckpointStore

T = TypeVar("T")

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OUTCOME = b'{"output":"' + b"o" * 3000 + b'"}'
THREADS = 32
CASES = 10_000
OUTCOMES = 10_000
LARGE_OUTCOME_BYTES = 100_000
FEW = 20
SEVERAL = 4
SECTION_SECONDS = 8.0


class UnsyncedDisk(Disk):
    """A disk that never waits, to build large packages in little time."""

    def sync(self, draft: Draft) -> None:
        """Skip the wait."""

    def sync_folder(self, path: str) -> None:
        """Skip the wait."""

    def start_writeback(self, draft: Draft) -> None:
        """Skip the hint."""


class WatchedDisk(Disk):
    """A disk that tells how long it took to make files."""

    def __init__(self) -> None:
        super().__init__()
        self.making_seconds = 0.0

    def begin(self, folder: str, *, named: bool = False) -> Draft:
        """Open a draft and add up the time."""
        begun = time.perf_counter()
        draft = super().begin(folder, named=named)
        self.making_seconds += time.perf_counter() - begun
        return draft


def round_of(head: PackageHead, operation_id: str, outcome: bytes = OUTCOME) -> Change:
    """Return one more failed round: its outcome and, the first time, the request."""
    ophash = operation_hash(1, operation_id)
    before = head.operations.get(ophash) or OperationState(
        operation_id=operation_id,
        analysis_revision=1,
        status=OperationStatus.RETRY_PENDING,
        phase=head.phase,
        request_fingerprint="0" * 64,
        config_fingerprint="1" * 64,
        rounds_completed=0,
        rounds_max=1_000_000,
        retry_delay_seconds=60.0,
        blocked_retry_seconds=3600.0,
    )
    number = before.rounds_completed + 1
    files: tuple[tuple[str, bytes], ...] = ((outcome_path(ophash, number), outcome),)
    if number == 1:
        files = ((request_path(ophash), OUTCOME), *files)
    added = tuple(FileEntry.of(path, content) for path, content in files)
    after = replace(
        before,
        rounds_completed=number,
        due_at=NOW,
        last_round_at=NOW,
        artifacts=(*before.artifacts, *added),
    )
    return Change(
        case_id=head.case_id,
        package_id=head.package_id,
        expected_generation=head.generation,
        kind=CommitKind.LLM_ROUND,
        at=NOW,
        operations={ophash: after},
        files=files,
    )


class Floor:
    """The bare protocol in a folder of its own."""

    def __init__(self, folder: Path, bytes_each: int) -> None:
        folder.mkdir()
        self._folder = str(folder)
        self._content = b"x" * bytes_each
        self._count = 0
        self.making_seconds = 0.0

    def commit(self) -> None:
        """Write, fsync, link, fsync the folder, and remove the temporary name."""
        self._count += 1
        temporary, final = f"{self._folder}/.t{self._count}", f"{self._folder}/f{self._count}"
        begun = time.perf_counter()
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        self.making_seconds += time.perf_counter() - begun
        os.write(descriptor, self._content)
        os.fsync(descriptor)
        os.close(descriptor)
        os.link(temporary, final)
        above = os.open(self._folder, os.O_RDONLY)
        os.fsync(above)
        os.close(above)
        os.unlink(temporary)  # noqa: PTH108 - the floor makes bare calls


def timed(work: Callable[[], object]) -> float:
    """Return the seconds that some work takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def middle(seconds: Sequence[float]) -> str:
    """Return the median in milliseconds, as text."""
    return f"{statistics.median(seconds) * 1000:6.2f} ms"


class Turns:
    """The times of one thing that takes turns with another, with and without making files.

    Args:
        maker: What adds up the seconds of making files.
    """

    def __init__(self, maker: WatchedDisk | Floor) -> None:
        self._maker = maker
        self.whole: list[float] = []
        self.bare: list[float] = []

    def take(self, work: Callable[[], T]) -> T:
        """Do one turn and keep its times."""
        made, begun = self._maker.making_seconds, time.perf_counter()
        result = work()
        elapsed = time.perf_counter() - begun
        self.whole.append(elapsed)
        self.bare.append(elapsed - (self._maker.making_seconds - made))
        return result

    def over(self, other: Turns) -> str:
        """Return how many times as long as the other it took, as text."""
        whole = statistics.median(self.whole) / statistics.median(other.whole)
        bare = statistics.median(self.bare) / statistics.median(other.bare)
        return f"{whole:4.2f} (bare {bare:4.2f})"


def committed_bytes(store: CheckpointStore, head: PackageHead) -> int:
    """Return the bytes of a head's newest record and outcome."""
    record = store.package_folder(head.case_id) / f"commits/{head.generation:010d}.json"
    return len(OUTCOME) + record.stat().st_size


def paced(rounds: int) -> Iterator[int]:
    """Count to the rounds asked for, or until a slow disk has used up the time."""
    begun = time.perf_counter()
    for number in range(rounds):
        yield number
        if time.perf_counter() - begun > SECTION_SECONDS:
            return


def commit_beside_floor(base: Path, rounds: int) -> None:
    """Let commits of a few small packages and the floor take turns."""
    disk = WatchedDisk()
    store = CheckpointStore(base / "serial", disk=disk)
    heads = [store.create(f"case-{number}", {"a.txt": b"x"}) for number in range(FEW)]
    firsts = Turns(disk)
    for place, head in enumerate(heads):
        heads[place] = firsts.take(partial(store.commit, round_of(head, "a")))
    floor = Floor(base / "floor", committed_bytes(store, heads[0]))
    commits, floors = Turns(disk), Turns(floor)
    for number in paced(rounds):
        place = number % FEW
        heads[place] = commits.take(partial(store.commit, round_of(heads[place], "a")))
        floors.take(floor.commit)
    print(f"commit           {middle(commits.whole)}   floor {middle(floors.whole)}", end="")
    print(f"   floor/commit {floors.over(commits)}")
    print(f"  of a new operation (with its request and folder) {middle(firsts.whole)}")


def large_beside_small(base: Path, rounds: int) -> None:
    """Build a package of 10,000 outcomes and 1 GB; commit to it and to a small one in turns."""
    root = base / "large"
    builder = CheckpointStore(root, disk=UnsyncedDisk())
    large = builder.create("large", {"a.txt": b"x"})
    content = b"o" * LARGE_OUTCOME_BYTES
    for number in range(OUTCOMES):
        large = builder.commit(round_of(large, f"op-{number}", content))
    os.sync()
    cold_open(root, large)
    disk = WatchedDisk()
    store = CheckpointStore(root, disk=disk)
    large, small = store.open("large"), store.create("small", {"a.txt": b"x"})
    for number in range(FEW):
        small = store.commit(round_of(small, f"op-{number}"))
    larges, smalls = Turns(disk), Turns(disk)
    for number in paced(rounds):
        # Both continue an operation of equal length, so that both records are equally long.
        to_large, to_small = (round_of(h, f"op-{number % FEW}") for h in (large, small))
        large = larges.take(partial(store.commit, to_large))
        small = smalls.take(partial(store.commit, to_small))
    mean = statistics.mean(larges.bare) / statistics.mean(smalls.bare)
    print(
        f"in {OUTCOMES:,} outcomes {middle(larges.whole)}   in {FEW} {middle(smalls.whole)}", end=""
    )
    print(f"   ratio {larges.over(smalls)}, of means, snapshots included: {mean:4.2f}")


def cold_open(root: Path, expected: PackageHead) -> None:
    """Open a large package from its files alone, as a new process without an index would."""
    folder = case_folder(expected.case_id)
    size = sum(path.stat().st_size for path in (root / folder).rglob("*") if path.is_file())
    times = []
    for _ in range(7):
        gc.collect()
        reader = PackageReader(FolderStorage(root), folder)
        begun = time.perf_counter()
        head = reader.head()
        times.append(time.perf_counter() - begun)
        assert (expected.generation, expected.tally) == (head.generation, head.tally)
    print(f"head of {size / 1e9:.2f} GB, {len(head.operations):,} operations {middle(times)}")


def each_place(work: Callable[[int], None]) -> None:
    """Do the work of every thread, one after another."""
    for place in range(THREADS):
        work(place)


def several(work: Callable[[int], None], place: int) -> None:
    """Do the work of one thread a few times."""
    for _ in range(SEVERAL):
        work(place)


def threads_beside_one(base: Path, rounds: int) -> None:
    """Commit to as many packages as threads, and let the floor do the same."""
    store = CheckpointStore(base / "threads")
    heads = [store.create(f"case-{number}", {"a.txt": b"x"}) for number in range(THREADS)]
    heads = [store.commit(round_of(head, "a")) for head in heads]
    floors = [Floor(base / f"floor-{number}", 4500) for number in range(THREADS)]

    def commits(place: int) -> None:
        heads[place] = store.commit(round_of(heads[place], "a"))

    def floor_commits(place: int) -> None:
        floors[place].commit()

    rates: dict[str, list[float]] = {}
    for _ in paced(max(rounds // 100, 3)):
        for name, work in (("commits", commits), ("floor", floor_commits)):
            rates.setdefault(f"{name} 1", []).append(1 / timed(partial(each_place, work)))
            with ThreadPoolExecutor(THREADS) as pool:
                list(pool.map(work, range(THREADS)))  # starts the threads
                begun = time.perf_counter()
                list(pool.map(partial(several, work), range(THREADS)))
                elapsed = time.perf_counter() - begun
            rates.setdefault(f"{name} {THREADS}", []).append(SEVERAL / elapsed)
    best = {name: statistics.median(found) for name, found in rates.items()}
    for name in ("commits", "floor"):
        one, many = (best[f"{name} {count}"] * THREADS for count in (1, THREADS))
        print(
            f"{name:8} 1 thread {one:6.0f}/s   {THREADS} threads {many:6.0f}/s   x{many / one:.1f}"
        )


def many_cases(base: Path, cases: int) -> None:
    """Create many cases, then let a new process take stock of them."""
    root = base / "many"
    store = CheckpointStore(root, disk=UnsyncedDisk())
    cpu = time.process_time()
    for number in range(cases):
        store.create(f"case-{number:05}", {"a.txt": b"The pump failed twice."})
    cpu = time.process_time() - cpu
    print(
        f"{cases:,} cases: created at {cases / cpu:,.0f} per second of CPU (syncs not waited for)"
    )
    for number in range(0, cases, 10):
        head = store.open(f"case-{number:05}")
        store.index.put(store.commit(round_of(head, "a")))
    receiver, sender = multiprocessing.Pipe(duplex=False)
    context = multiprocessing.get_context("spawn")
    child = context.Process(target=take_stock, args=(root, cases, sender))
    child.start()
    for name, text in receiver.recv():
        print(f"  {name:28} {text}")
    child.join()


def take_stock(root: Path, cases: int, sender: Connection) -> None:
    """Measure an index of many cases in a process of its own, memory included."""
    index = CheckpointStore(root).index
    index.plan(["a"])
    counted = timed(index.counts)
    dues = [timed(lambda: index.due(NOW, 1)) for _ in range(50)]
    nexts = [timed(index.next_due_at) for _ in range(50)]
    assert cases == index.counts().cases
    rescanned = timed(index.rescan)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    sender.send(
        [
            ("counts by state", f"{counted * 1000:.2f} ms"),
            ("next due operation", middle(dues)),
            ("time of the next one", middle(nexts)),
            ("rescan of every package", f"{rescanned:.1f} s"),
            ("largest resident memory", f"{memory:.0f} MB, the rescan included"),
        ]
    )


def main() -> None:
    """Measure and print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--quick", action="store_true", help="fewer rounds")
    options.add_argument("--folder", type=Path, default=None, help="disk to measure")
    chosen = options.parse_args()
    rounds = 400 if chosen.quick else 4000
    with tempfile.TemporaryDirectory(dir=chosen.folder) as name:
        base = Path(name)
        commit_beside_floor(base, rounds)
        threads_beside_one(base, rounds)
        large_beside_small(base, rounds)
        many_cases(base, CASES)


if __name__ == "__main__":
    main()
