"""A full, broken or read-only disk at every step: a clear error, and nothing lost in silence."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from casework.checkpoints.disk import Disk, DiskCall, ObservedDisk
from casework.checkpoints.verify import verify
from casework.errors import CaseworkError, StorageError
from casework.gateway.clock import ManualClock
from casework.runner.exposure import exposures
from tests.crash.scenario import CALLS, CASE, EXPECTED, OPERATIONS, calls_noted, open_store, play

WRITING = {"make_folder", "begin", "write", "sync", "publish", "sync_folder", "replace"}


def nothing(_call: object, _moment: str) -> None:
    """Watch and do nothing."""


def count_calls(root: Path, wanted: Callable[[DiskCall], bool]) -> int:
    """Return how many calls of a kind the undisturbed scenario makes."""
    seen = 0

    def observe(call: DiskCall, moment: str) -> None:
        nonlocal seen
        seen += moment == "before" and wanted(call)

    root.mkdir()
    assert EXPECTED == play(root, ObservedDisk(observe), nothing)
    return seen


def break_at(step: int, number: int, wanted: Callable[[DiskCall], bool]) -> ObservedDisk:
    """Return a disk whose n-th call of a kind, and each one after it, fails."""
    seen = 0

    def observe(call: DiskCall, moment: str) -> None:
        nonlocal seen
        if moment == "before" and wanted(call):
            seen += 1
            if seen >= step:
                raise OSError(number, os.strerror(number))

    return ObservedDisk(observe)


@pytest.mark.parametrize(
    ("number", "code", "verbs"),
    [
        (errno.ENOSPC, "disk_full", {"make_folder", "begin", "write", "publish"}),
        (errno.EIO, "disk_error", {"sync", "sync_folder"}),
        (errno.EROFS, "read_only", WRITING),
    ],
)
def test_a_disk_that_fails_at_any_step_and_stays_so_loses_nothing(
    tmp_path: Path, number: int, code: str, verbs: set[str]
) -> None:
    """The error is clear, packages verify, and a mended disk finishes with each repeat named."""

    def wanted(call: DiskCall) -> bool:
        return call.verb in verbs

    steps = count_calls(tmp_path / "whole", wanted)
    assert steps > 10
    for step in range(1, steps + 1):
        root = tmp_path / f"step-{step}"
        root.mkdir()
        with pytest.raises(StorageError) as caught:
            play(root, break_at(step, number, wanted), nothing)
        assert code in {caught.value.code, getattr(caught.value.__cause__, "code", None)}
        assert str(root) not in str(caught.value)
        for package in root.glob("runtime/cases/*/*/commits/0000000001.json"):
            report = verify(package.parent.parent)
            assert report.ok, report.findings
        assert EXPECTED == play(root, Disk(), nothing, hours_later=1)
        check_repeats_are_named(root)


def check_repeats_are_named(root: Path) -> None:
    """Demand that no call was repeated without the audit saying so."""
    noted = Counter(calls_noted(root / "calls.txt"))
    assert sum(noted.values()) <= CALLS + 1
    named = Counter(
        row.operation_id
        for row in exposures(open_store(root, Disk(), ManualClock()), CASE)
        if not row.confirmed
    )
    for operation, needed in OPERATIONS.items():
        assert noted[operation] - needed <= named[operation], operation


def test_a_disk_that_is_full_before_the_call_means_no_call(tmp_path: Path) -> None:
    """If the round cannot be announced, nobody is asked."""
    play(tmp_path, Disk(), nothing)
    noted = calls_noted(tmp_path / "calls.txt")

    def observe(call: DiskCall, moment: str) -> None:
        if moment == "before" and call.verb == "begin" and call.path.endswith("inflight"):
            raise OSError(errno.ENOSPC, "full")

    with pytest.raises(CaseworkError) as caught:
        play(tmp_path, ObservedDisk(observe), nothing, case_id="case-2")
    assert "disk_full" == caught.value.code
    assert noted == calls_noted(tmp_path / "calls.txt")
