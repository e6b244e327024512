"""What a process that stays tells of what it finds, and how often."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from casework.runtime.run import sweeping
from casework.runtime.run.batch import BatchOptions
from casework.runtime.run.pipeline_run import PipelineRun
from casework.runtime.run.sweeping import Sweeper
from tests.support.governed_line import GovernedLine, good


async def told_in_two_sweeps(root: Path, *names: str) -> list[str]:
    """Let files arrive that are no ZIPs yet, sweep twice, and return what was told."""
    line, told = GovernedLine(root, good), list[str]()
    inbox = root / "runtime" / "inbox"
    inbox.mkdir(parents=True)
    now = line.clock.now().timestamp()
    for name in names:
        (inbox / name).write_bytes(b"the beginning")
        os.utime(inbox / name, (now, now))
    run = PipelineRun(line.workspace, line.pipeline, options=BatchOptions())
    sweeper = Sweeper(line.workspace, run.batch, told.append)
    with run.batch.engine.at_work():
        await sweeper.sweep()
        await sweeper.sweep()
    return told


async def test_a_file_on_its_way_is_told_of_once(tmp_path: Path) -> None:
    """It is looked at again with every sweep, in silence."""
    told = await told_in_two_sweeps(tmp_path, "a.zip", "b.zip")
    assert [f"inbox: {name} left [bad_zip]" for name in ("a.zip", "b.zip")] == told


async def test_what_was_told_is_remembered_within_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond the limit something is told again rather than remembered for ever."""
    monkeypatch.setattr(sweeping, "TOLD_MAX", 2)
    assert 6 == len(await told_in_two_sweeps(tmp_path, "a.zip", "b.zip", "c.zip"))
