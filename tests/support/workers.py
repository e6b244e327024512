"""Real workers as child processes, and waiting for what they bring about."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from casework.checkpoints.index_rows import IndexCounts
from casework.checkpoints.records import OperationStatus
from casework.checkpoints.store import CheckpointStore
from casework.checkpoints.verify import verify
from casework.runner.exposure import exposures
from casework.strict_json import JSONObject
from tests.support.command_line import ROOT, child_environment, make_project

PATIENCE_SECONDS: Final = 60.0
TAKEOVER_SECONDS: Final = 10.0
"""How soon after its end a claim's work has to be finished by another worker."""

CALLS_FILE: Final = "calls.txt"

CHILDREN: Final = {"local": "tests.crash.worker_child"}
"""The program that runs a worker on each engine."""

STUCK: Final[JSONObject] = {"do": "hang"}


@dataclass(slots=True)
class Worker:
    """A worker process, with what it wrote to standard error once it has ended."""

    process: subprocess.Popen[str]
    errors: str = ""
    out: str = ""

    def wait_until(self, happened: Callable[[], bool], what: str) -> float:
        """Wait until something has happened and return how many seconds that took.

        The worker's death is noticed at once and is a failure.
        """
        begun = time.monotonic()
        while not happened():
            assert time.monotonic() - begun < PATIENCE_SECONDS, what
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(0.02)
                out, errors = self.process.communicate()
                raise AssertionError(f"{what}: the worker ended: {out}{errors}")
        return time.monotonic() - begun

    def send(self, number: int) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def end(self) -> int:
        """Wait for its end, keep what it wrote, and return its exit code."""
        self.out, self.errors = self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode

    def calls(self) -> int:
        """Return how many calls it counted."""
        (line,) = (line for line in self.out.splitlines() if line.startswith("calls "))
        return int(line.split()[1])


@contextmanager
def worker(
    project: Path,
    *,
    seconds: float = 30.0,
    renew: float = 10.0,
    concurrency: int = 2,
    engine: str = "local",
) -> Iterator[Worker]:
    """Run a worker while the context lasts."""
    words = (str(project), str(seconds), str(renew), str(concurrency))
    process = subprocess.Popen(
        [sys.executable, "-m", CHILDREN[engine], *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=child_environment(),
    )
    try:
        yield Worker(process)
    finally:
        process.kill()
        with suppress(ValueError):
            process.communicate()


class Watcher:
    """Looks at a project from outside, as any other process may."""

    def __init__(self, project: Path) -> None:
        self.store = CheckpointStore(project / "runtime")
        self._calls = project / CALLS_FILE

    def counts(self) -> IndexCounts:
        """Return how many operations are in which state."""
        return self.store.index.counts()

    def has(self, successes: int) -> Callable[[], bool]:
        """Return a question: are there so many answers?"""
        return lambda: self.counts().operations.get(OperationStatus.SUCCESS, 0) >= successes

    def asked(self, calls: int) -> Callable[[], bool]:
        """Return a question: have workers made so many calls by now?"""
        return lambda: self._calls.exists() and len(self._calls.read_text().split()) >= calls

    def check_whole(self, cases: int) -> None:
        """Demand one answer a case, and packages in which the oracle finds nothing wrong."""
        names = list(self.store.list())
        assert cases == len(names)
        for case_id in names:
            folder = self.store.package_folder(case_id)
            report = verify(folder)
            assert report.ok, report.findings
            assert 1 == len(list(folder.glob("llm/operations/*/outcome-*.json"))), case_id
            (state,) = self.store.open(case_id).operations.values()
            assert OperationStatus.SUCCESS is state.status


def slow(seconds: float, text: str = '{"answer": "late"}') -> JSONObject:
    """Return a step that answers after a while."""
    return {"do": "reply", "text": text, "delay_seconds": seconds}


def project_of(folder: Path, cases: int, step: JSONObject) -> Watcher:
    """Make a project with so many imported cases."""
    store = CheckpointStore(make_project(folder, [step]) / "runtime")
    for number in range(cases):
        store.create(f"c{number:03}", {"text.txt": f"Text {number}.".encode()})
    return Watcher(folder)


def unconfirmed(watcher: Watcher, cases: int) -> int:
    """Return how many calls the audit names as perhaps paid in vain."""
    names = [f"c{number:03}" for number in range(cases)]
    return sum(not row.confirmed for name in names for row in exposures(watcher.store, name))
