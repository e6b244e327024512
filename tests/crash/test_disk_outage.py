"""A service at work loses its disk for a moment: the small form of ``bench/soak.py``."""

from __future__ import annotations

from pathlib import Path

from bench.soak import FAULT_EVERY, Outage
from bench.soak_clients import service
from bench.soak_disk import MissingFolders


async def test_a_service_lives_through_a_disk_that_refuses(tmp_path: Path) -> None:
    """Who needs no disk is answered, who does is told, and all works again after it."""
    runtime = tmp_path / "project" / "runtime"
    runtime.mkdir(parents=True)
    with service(tmp_path / "project", fault_every=FAULT_EVERY) as watched:
        outage = Outage(watched, MissingFolders(runtime), seconds=2.0, around_seconds=1.0)
        report = await outage.run()
    # In so short a time memory says nothing yet.
    assert [] == [finding for finding in report.findings if "MiB" not in finding], report.lines
