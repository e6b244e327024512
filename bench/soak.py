"""``casework serve`` for long: is its memory flat, and does it live through a disk that refuses?

    python -m bench.soak --requests 1000000
    python -m bench.soak --disk-outage 600

The first sends so many requests of every kind to a real process: whole answers, streams, vectors,
one in a hundred from a client that leaves, and one call in a hundred to a provider that fails.
Memory and open files are looked at all along. The second keeps clients busy, some of whose calls
are to be kept, while the disk under the project refuses for so many seconds: where mounting is
allowed, a small file system in memory that is filled, and topped up each second; else files that
stand where the folders of packages and logs belong. Calls that need no disk must go on being
answered, those to be kept must be told clearly that they are not, memory must find its level, and
all must work again afterwards. Both print what clients were told, and end with a failure if any of
that is not so.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from bench.gateway_processes import is_ready
from bench.soak_clients import Clients, Service, Tally, service, session
from bench.soak_disk import RefusingDisk, disk_of

CONCURRENCY = 48
LOOKS = 400
FAULT_EVERY = 100
REST_SECONDS = 6.0
"""Longer than connections to providers are kept."""
GROWTH_MIB_MAX = 4.0
GROWTH_SHARE_MAX = 0.05
FILES_MORE_MAX = 4
STAYING, KEEPING = 8, 4
KEPT_PAUSE_SECONDS = 0.05
KEYS_TRIED_AGAIN = 200
RECOVERY_SECONDS = 30.0
SOUND = {
    "whole 200",
    "stream whole",
    "stream broken off, told",
    "embedding whole",
    "leaving before an answer",
    "leaving in a stream",
    "kept 200",
}
"""What clients may be told."""
KEPT = {"kept 200"}
REFUSED = {"kept 503 disk_full", "kept 503 storage_error"}
"""What is told instead while the disk refuses."""


@dataclass(slots=True)
class Report:
    """What came of it."""

    findings: list[str] = field(default_factory=list)
    """What is not as it must be."""
    lines: list[str] = field(default_factory=list)

    def demand(self, line: str, *, holds: bool) -> None:
        """Take note of something that must hold."""
        self.lines.append(f"{line}{'' if holds else '   NOT AS IT MUST BE'}")
        if not holds:
            self.findings.append(line)

    def demand_told(self, tally: Tally, allowed: set[str]) -> None:
        """Take note of what clients were told, and that nothing else was."""
        self.lines += tally.lines()
        for told in sorted(tally.told.keys() - allowed):
            self.demand(f"{tally.told[told]} x {told}", holds=False)

    def demand_level(self, name: str, tally: Tally, *, since_quarter: int) -> None:
        """Take note of memory that must not grow from some quarter of the time to the last."""
        quarters = tally.quarters()
        first, last = quarters[since_quarter], quarters[-1]
        most = first + max(GROWTH_MIB_MAX, first * GROWTH_SHARE_MAX)
        line = f"{name}: {', '.join(f'{its:.1f}' for its in quarters)} MiB in the quarters of it"
        self.demand(line, holds=last <= most)


async def soak(watched: Service, requests: int, *, concurrency: int = CONCURRENCY) -> Report:
    """Send so many requests of every kind, and watch."""
    report, tally = Report(), Tally()
    _, files_before = watched.use()
    begun = time.perf_counter()
    async with session() as carrying:
        clients = Clients(carrying, watched, tally, random.Random(1))
        numbers = iter(range(requests))

        async def client() -> None:
            for number in numbers:
                if number % max(requests // LOOKS, 1) == 0:
                    tally.look(watched)
                await clients.any()

        await asyncio.gather(*(client() for _ in range(concurrency)))
    elapsed = time.perf_counter() - begun
    report.lines.append(f"{requests:,} requests in {elapsed:,.0f} s, {requests / elapsed:,.0f}/s")
    report.demand_told(tally, SOUND)
    report.demand_level("resident", tally, since_quarter=0)
    await ends_well(report, watched, tally, files_before)
    return report


async def ends_well(report: Report, watched: Service, tally: Tally, files_before: int) -> None:
    """Demand that the service answers, and has let go of all that it had opened."""
    report.demand("it answers at the end", holds=await is_ready(watched.port))
    await asyncio.sleep(REST_SECONDS)
    _, files = watched.use()
    line = f"open files: {files_before} before, {max(tally.files)} at most, {files} at rest after"
    report.demand(line, holds=files <= files_before + FILES_MORE_MAX)


class Outage:
    """Clients at work before, during and after an outage of the disk.

    Args:
        watched: The service.
        disk: What refuses.
        seconds: For how long it does.
        around_seconds: How long the time before and after is.
    """

    def __init__(
        self, watched: Service, disk: RefusingDisk, *, seconds: float, around_seconds: float
    ) -> None:
        self._watched = watched
        self._disk = disk
        self._seconds, self._around_seconds = seconds, around_seconds
        self._keys = (f"key-{number}" for number in count())
        self._refused: list[str] = []
        self._before, self._during, self._after = Tally(), Tally(), Tally()
        self._ended = False

    async def run(self) -> Report:
        """Go through it, and return what came of it."""
        _, files_before = self._watched.use()
        async with session() as carrying:
            clients = Clients(carrying, self._watched, self._before, random.Random(2))
            work = [self._staying(clients) for _ in range(STAYING)]
            work += [self._keeping(clients) for _ in range(KEEPING)]
            tasks = [asyncio.ensure_future(one) for one in work]
            await self._watch(clients, self._before, self._around_seconds)
            self._disk.refuse()
            await self._watch(clients, self._during, self._seconds, refusing=True)
            self._disk.relent()
            recovered = await self._recovery(clients)
            await self._watch(clients, self._after, self._around_seconds)
            self._ended = True
            await asyncio.gather(*tasks)
            report = self._report(recovered)
            clients.tally = again = Tally()
            for key in self._refused[:KEYS_TRIED_AGAIN]:
                await clients.kept(key)
        told = ", ".join(f"{told} {number}" for told, number in again.told.items())
        line = f"keys that were refused, sent again: {told}"
        report.demand(line, holds=set(again.told) <= {"kept 200"})
        await ends_well(report, self._watched, self._after, files_before)
        return report

    async def _watch(
        self, clients: Clients, tally: Tally, seconds: float, *, refusing: bool = False
    ) -> None:
        """Note in a tally what clients are told for a while, and what the service uses.

        What begins afterwards belongs to none, so that the disk can change its mind in between.
        """
        clients.tally = tally
        until = time.perf_counter() + seconds
        while (left := until - time.perf_counter()) > 0:
            if refusing:
                self._disk.refuse()
            tally.look(self._watched)
            await asyncio.sleep(min(left, 1.0))
        clients.tally = Tally()
        if tally.open:
            await tally.all_told.wait()

    async def _recovery(self, clients: Clients) -> float | None:
        """Return after how many seconds a call is kept again; None if none is for too long."""
        begun = time.perf_counter()
        while time.perf_counter() - begun < RECOVERY_SECONDS:
            if await clients.kept(next(self._keys)) == 200:
                return time.perf_counter() - begun
            await asyncio.sleep(KEPT_PAUSE_SECONDS)
        return None

    async def _staying(self, clients: Clients) -> None:
        while not self._ended:
            await clients.any()

    async def _keeping(self, clients: Clients) -> None:
        while not self._ended:
            key = next(self._keys)
            if await clients.kept(key) != 200:
                self._refused.append(key)
            await asyncio.sleep(KEPT_PAUSE_SECONDS)

    def _report(self, recovered: float | None) -> Report:
        report = Report()
        for name, tally, allowed in (
            ("before", self._before, SOUND),
            (f"while the disk refuses ({self._disk.how})", self._during, SOUND - KEPT | REFUSED),
            ("after", self._after, SOUND),
        ):
            report.lines.append(f"{name}: {tally.told.total():,} requests")
            report.demand_told(tally, allowed)
        refused = sum(self._during.told[told] for told in REFUSED)
        report.demand(f"{refused} calls to be kept were refused", holds=refused > 0)
        report.lines.append(
            f"resident before {statistics.median(self._before.resident_mib):.1f} MiB"
        )
        # First the lines of the request log that wait for the disk grow to their most.
        report.demand_level("while the disk refuses", self._during, since_quarter=2)
        report.lines.append(f"resident after {statistics.median(self._after.resident_mib):.1f} MiB")
        took = f"{recovered:.2f} s" if recovered is not None else f"more than {RECOVERY_SECONDS} s"
        report.demand(f"a call is kept again after {took}", holds=recovered is not None)
        lost = sum(lines_lost(self._watched.project))
        report.demand(f"lines of the request log that were lost and counted: {lost:,}", holds=True)
        return report


def lines_lost(project: Path) -> Iterator[int]:
    """Yield how many lines the request log says it lost, each time."""
    for path in (project / "runtime" / "logs").glob("requests.jsonl*"):
        for line in path.read_text().splitlines():
            if '"event":"lines_lost"' in line:
                yield json.loads(line)["lines"]


def main() -> None:
    """Soak, and print what came of it."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    options.add_argument("--requests", type=int, default=None, help="so many requests")
    options.add_argument("--disk-outage", type=float, default=None, help="so many seconds")
    options.add_argument("--around", type=float, default=30.0, help="seconds before and after it")
    options.add_argument("--folder", type=Path, default=None, help="where the project is made")
    chosen = options.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing is left behind
    findings: list[str] = []
    with tempfile.TemporaryDirectory(dir=chosen.folder) as name:
        if chosen.requests is not None:
            with service(Path(name, "soak"), fault_every=FAULT_EVERY) as watched:
                findings += told(asyncio.run(soak(watched, chosen.requests)))
        if chosen.disk_outage is not None:
            project = Path(name, "outage")
            with disk_of(project) as disk, service(project, fault_every=FAULT_EVERY) as watched:
                outage = Outage(
                    watched, disk, seconds=chosen.disk_outage, around_seconds=chosen.around
                )
                findings += told(asyncio.run(outage.run()))
    sys.exit(1 if findings else 0)


def told(report: Report) -> list[str]:
    """Print a report and return its findings."""
    print("\n".join(report.lines), flush=True)
    return report.findings


if __name__ == "__main__":
    main()
