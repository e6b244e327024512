"""Every prefix of the recorded writes, after a power loss, opens as one generation or the next."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from casework.checkpoints.disk import DiskCall, ObservedDisk
from casework.checkpoints.fold import PackageHead
from casework.checkpoints.inflight import Intent, IntentTarget
from casework.checkpoints.memory_storage import MemoryStorage
from casework.checkpoints.names import case_folder, outcome_path, request_path
from casework.checkpoints.records import operation_hash
from casework.checkpoints.store import CheckpointStore
from casework.checkpoints.verify import verify_storage
from casework.errors import PackageNotFound
from tests.simulation.lossy_disk import LossyDisk
from tests.support.packages import CASE, Workshop

FOLDER = case_folder(CASE)


class Blackout:
    """Looks, after every call to the disk, at everything that a power loss could leave.

    Args:
        root: The runtime folder.
        anonymous_drafts: Which kind of drafts the disk knows.
        judge: Asked about each possible state.
    """

    def __init__(
        self, root: Path, judge: Callable[[MemoryStorage], None], *, anonymous_drafts: bool
    ) -> None:
        self._lossy = LossyDisk(root)
        self._judge = judge
        self.states = 0
        self.disk = ObservedDisk(self._observe, anonymous_drafts=anonymous_drafts)

    def _observe(self, call: DiskCall, moment: str) -> None:
        if moment == "after":
            self._lossy.follow(call)
            self.look()

    def look(self) -> None:
        """Judge every state that is possible now."""
        for state in self._lossy.states():
            self.states += 1
            self._judge(state)


def generation_in(state: MemoryStorage) -> int:
    """Open a package as any process would, and return its generation (0 for none)."""
    try:
        return CheckpointStore(state).open(CASE).generation
    except PackageNotFound:
        return 0


@pytest.mark.parametrize("anonymous_drafts", [True, False])
def test_every_prefix_opens_as_one_generation_or_the_next(
    tmp_path: Path, *, anonymous_drafts: bool
) -> None:
    """No power loss mixes generations, loses an acknowledged one, or leaves a torn file."""
    root = tmp_path / "runtime"
    root.mkdir()
    acknowledged = 0
    seen: set[int] = set()

    def judge(state: MemoryStorage) -> None:
        generation = generation_in(state)
        seen.add(generation - acknowledged)
        assert generation in (acknowledged, acknowledged + 1)
        if generation:
            report = verify_storage(state, FOLDER)
            assert report.ok, report.findings

    blackout = Blackout(root, judge, anonymous_drafts=anonymous_drafts)
    workshop = Workshop(root, disk=blackout.disk)

    def settled(head: PackageHead) -> PackageHead:
        nonlocal acknowledged
        acknowledged = head.generation
        blackout.look()
        return head

    head = settled(workshop.create())
    head = settled(workshop.run(head, "a", "temporary_failure"))
    head = settled(workshop.run(head, "b", "error"))
    head = settled(workshop.store.resume(CASE, head.package_id, "b", new_operation_id="c"))
    workshop.pass_time(60)
    head = settled(workshop.run(head, "a"))
    assert (5, {0, 1}, True) == (head.generation, seen, blackout.states > 1000)


def test_a_file_is_whole_wherever_its_name_survives(tmp_path: Path) -> None:
    """An outcome that is visible after a power loss can be adopted: it is never torn."""
    root = tmp_path / "runtime"
    root.mkdir()
    workshop = Workshop(MemoryStorage())
    change = workshop.change(workshop.create(), "a")
    ophash = operation_hash(1, "a")
    wanted = dict(change.files)
    assert {request_path(ophash), outcome_path(ophash, 1)} == wanted.keys()
    found: set[str] = set()

    def judge(state: MemoryStorage) -> None:
        for name in state.list(f"{FOLDER}/llm/operations/{ophash}"):
            path = f"llm/operations/{ophash}/{name}"
            assert wanted[path] == state.read(f"{FOLDER}/{path}")
            found.add(path)

    blackout = Blackout(root, judge, anonymous_drafts=True)
    broken = Workshop(root, disk=blackout.disk)
    broken.run(broken.create(), "a")
    assert wanted.keys() == found


def test_work_goes_on_from_whatever_a_power_loss_left(tmp_path: Path) -> None:
    """On every remaining state the same case can be created and the same round committed."""
    root = tmp_path / "runtime"
    root.mkdir()
    continued = 0

    def judge(state: MemoryStorage) -> None:
        nonlocal continued
        workshop = Workshop(state)
        workshop.pass_time(7)
        head = workshop.create()
        if not head.operations:
            head = workshop.run(head, "a")
            continued += 1
        assert (2, True) == (head.generation, verify_storage(state, FOLDER).ok)

    blackout = Blackout(root, judge, anonymous_drafts=True)
    workshop = Workshop(root, disk=blackout.disk)
    workshop.run(workshop.create(), "a")
    assert continued > 100


def test_an_announced_round_survives_every_power_loss(tmp_path: Path) -> None:
    """Once ``begin`` has returned, the announcement is found, and the newest one replaces it."""
    root = tmp_path / "runtime"
    root.mkdir()
    announced: list[str] = []

    def judge(state: MemoryStorage) -> None:
        found = [intent.started_at for intent in CheckpointStore(state).inflight.list()]
        assert found in ([*announced[-1:]], ["next"])

    blackout = Blackout(root, judge, anonymous_drafts=True)
    inflight = CheckpointStore(root, disk=blackout.disk).inflight
    intent = Intent(
        case_id=CASE,
        package_id="p",
        ophash="a" * 64,
        operation_id="a",
        round=1,
        started_at="next",
        targets=(IntentTarget("remote", "m", "cloud", "0.01 USD"),),
    )
    inflight.begin(intent)
    announced.append("next")
    blackout.look()
    again = Intent(
        case_id=CASE,
        package_id="p",
        ophash="a" * 64,
        operation_id="a",
        round=1,
        started_at="next",
        targets=intent.targets,
        earlier=(intent.start(),),
    )
    inflight.begin(again)
    blackout.look()
    assert [again] == list(inflight.list())
