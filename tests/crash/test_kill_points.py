"""A real child is killed with SIGKILL before and after every call to the disk and the provider."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from casework.checkpoints.disk import Disk
from casework.checkpoints.verify import verify
from casework.gateway.clock import ManualClock
from casework.runner.exposure import exposures
from tests.crash.scenario import CALLS, CASE, OPERATIONS, calls_noted, open_store
from tests.crash.zygote import Zygote


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    """Return a running zygote."""
    process = Zygote("tests.crash.operation_steps")
    yield process
    process.close()


def packages(root: Path) -> list[Path]:
    """Return the folders that hold a committed package."""
    return [path.parent.parent for path in root.glob("runtime/cases/*/*/commits/0000000001.json")]


def check_packages(root: Path) -> None:
    """Demand that the oracle accepts every package as it lies there."""
    for package in packages(root):
        report = verify(package)
        assert report.ok, report.findings


def check_settled(root: Path, crashes: int) -> None:
    """Demand complete results, no call repeated without need, and each repetition named."""
    check_packages(root)
    noted = Counter(calls_noted(root / "calls.txt"))
    assert set(OPERATIONS) == set(noted)
    assert sum(noted.values()) <= CALLS + crashes
    store = open_store(root, Disk(), ManualClock())
    named = Counter(row.operation_id for row in exposures(store, CASE) if not row.confirmed)
    for operation, needed in OPERATIONS.items():
        assert noted[operation] - needed <= named[operation], operation


def test_no_kill_loses_or_repeats_more_than_the_call_in_flight(
    zygote: Zygote, tmp_path: Path
) -> None:
    """At every single step: packages verify, work resumes, one call is repeated at most."""
    whole = tmp_path / "whole"
    whole.mkdir()
    exited, steps = zygote.play(whole, 0)
    assert (0, True) == (exited, steps > 100)
    check_settled(whole, 0)
    for step in range(1, steps + 1):
        root = tmp_path / f"step-{step}"
        root.mkdir()
        exited, _ = zygote.play(root, 0, kill_at=step)
        assert -signal.SIGKILL == exited
        check_packages(root)
        exited, _ = zygote.play(root, 1)
        assert 0 == exited
        check_settled(root, 1)


def test_a_second_kill_during_recovery_changes_nothing(zygote: Zygote, tmp_path: Path) -> None:
    """Two crashes in a row, the second at every step after a first one in the middle of a call."""
    whole = tmp_path / "whole"
    whole.mkdir()
    _, steps = zygote.play(whole, 0)
    for step in range(1, steps, 7):
        root = tmp_path / f"step-{step}"
        root.mkdir()
        zygote.play(root, 0, kill_at=max(steps // 2, 1))
        zygote.play(root, 1, kill_at=step)
        check_packages(root)
        exited, _ = zygote.play(root, 2)
        assert 0 == exited
        check_settled(root, 2)
