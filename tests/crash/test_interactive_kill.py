"""A service is killed at every step of calls that are kept, and their keys are sent again."""

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
from tests.crash.call_steps import KEYS
from tests.crash.scenario import calls_noted, open_store
from tests.crash.zygote import Zygote


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    """Return a running zygote."""
    process = Zygote("tests.crash.call_steps")
    yield process
    process.close()


def check_packages(root: Path) -> None:
    """Demand that the oracle accepts every package as it lies there."""
    for record in root.glob("runtime/cases/*/*/commits/0000000001.json"):
        report = verify(record.parent.parent)
        assert report.ok, report.findings


def check_settled(root: Path) -> None:
    """Demand that no call was repeated without need, and that each repetition is named."""
    check_packages(root)
    noted = Counter(calls_noted(root / "calls.txt"))
    assert set(KEYS) == set(noted)
    store = open_store(root, Disk(), ManualClock())
    assert {f"call:alice:{key}" for key in KEYS} == set(store.list())
    for key, needed in KEYS.items():
        rows = list(exposures(store, f"call:alice:{key}"))
        unconfirmed = sum(not row.confirmed for row in rows)
        assert noted[key] - needed <= unconfirmed <= 1, key
        assert needed <= len(rows), key
    assert sum(noted.values()) <= sum(KEYS.values()) + 1


def test_no_kill_loses_a_reply_or_repeats_a_call_unnamed(zygote: Zygote, tmp_path: Path) -> None:
    """At every step: packages verify, the same key succeeds, and a repeated call is named."""
    whole = tmp_path / "whole"
    whole.mkdir()
    exited, steps = zygote.play(whole, 0)
    assert (0, True) == (exited, steps > 100)
    check_settled(whole)
    for step in range(1, steps + 1, 2):  # the disk is the same after a call and before the next
        root = tmp_path / f"step-{step}"
        root.mkdir()
        exited, _ = zygote.play(root, 0, kill_at=step)
        assert -signal.SIGKILL == exited
        check_packages(root)
        exited, _ = zygote.play(root, 1)
        assert 0 == exited
        check_settled(root)
        before = calls_noted(root / "calls.txt")
        exited, _ = zygote.play(root, 2)
        assert (0, before) == (exited, calls_noted(root / "calls.txt"))
