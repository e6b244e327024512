"""Two real processes on one store: one works on a case, the other is told so at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from casework.checkpoints.verify import verify
from casework.errors import LockBusy
from casework.runner.operation import ResultStatus
from tests.support.scripted_line import GOOD, Line, objects

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def child_holding(root: Path, case_id: str) -> Iterator[subprocess.Popen[str]]:
    """Run a process that stands in the middle of a call for a case."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.crash.held_child", str(root), case_id],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    try:
        assert "called\n" == pipe(process.stdout).readline()
        yield process
    finally:
        process.kill()
        process.communicate()


def pipe(end: IO[str] | None) -> IO[str]:
    """Return an end of a pipe that is known to be there."""
    assert end is not None
    return end


async def test_one_runs_the_other_is_busy_and_other_cases_overlap(tmp_path: Path) -> None:
    """While a child is inside its call, its case is refused here and another case finishes."""
    line = Line(tmp_path, {"a": [GOOD]})
    one, two = line.add("one"), line.add("two")
    with child_holding(tmp_path, "one") as child:
        with pytest.raises(LockBusy):
            await line.run(one)
        assert ResultStatus.SUCCESS is (await line.run(two)).status
        pipe(child.stdin).write("go\n")
        pipe(child.stdin).flush()
        assert "SUCCESS\n" == pipe(child.stdout).readline()
    assert [1] == line.calls()
    assert {"answer": "from the child"} == line.outcomes("one")[0]["output"]
    line.assert_verifies("one")


async def test_a_frozen_process_keeps_its_case_and_a_killed_one_frees_it(tmp_path: Path) -> None:
    """SIGSTOP does not open the lock; SIGKILL does, and the round is named as unconfirmed."""
    line = Line(tmp_path, {"noted": [GOOD]})
    head = line.add("one")
    with child_holding(tmp_path, "one") as child:
        os.kill(child.pid, signal.SIGSTOP)
        with pytest.raises(LockBusy):
            await line.run(head)
        child.kill()
        child.wait()
        result = await line.run(head)
    assert ResultStatus.SUCCESS is result.status
    starts = objects(line.outcomes("one")[0]["unconfirmed"])
    targets = [target for start in starts for target in objects(start["targets"])]
    assert ["remote"] == [target["provider"] for target in targets]
    assert verify(line.folder("one")).ok
