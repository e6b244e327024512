"""``casework worker`` and ``run --watch`` as real processes: they stay, look around and stop."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from casework.checkpoints.store import CheckpointStore
from casework.runtime.run.session_record import SessionRecords
from casework.strict_json import JSONObject
from tests.support.command_line import (
    COMMAND,
    DOWN,
    YES,
    child,
    child_environment,
    make_project,
)
from tests.support.workers import Watcher, Worker


@contextmanager
def staying(folder: Path, *words: str, env: dict[str, str] | None = None) -> Iterator[Worker]:
    """Run a command that stays while the context lasts."""
    process = subprocess.Popen(
        [*COMMAND, *words],
        cwd=folder,
        env=child_environment(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield Worker(process)
    finally:
        process.kill()
        with suppress(ValueError):  # it was waited for, and its streams are closed
            process.communicate()


def told(path: Path, **expected: object) -> bool:
    """Tell whether a health file says all of this."""
    try:
        health: JSONObject = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return False
    return expected.items() <= health.items()


def test_a_worker_takes_up_what_comes_and_ends_with_0(tmp_path: Path) -> None:
    """New cases are run, the health file follows, SIGTERM ends it well and tells so."""
    make_project(tmp_path)
    health = tmp_path / "health.json"
    words = ("worker", "--concurrency", "2", "--health", str(health), "--json")
    with staying(tmp_path, *words) as worker:
        worker.wait_until(lambda: told(health, state="waiting"), "it waits")
        assert 0 == child("import", "inputs", cwd=tmp_path).returncode
        watcher = Watcher(tmp_path)
        worker.wait_until(watcher.has(3), "new cases are run")
        assert 0 == child("worker", "--check-health", str(health), cwd=tmp_path).returncode
        status = json.loads(child("status", "--json", cwd=tmp_path).stdout)
        assert ("worker", True) == (status["session"]["kind"], status["session"]["alive"])
        worker.send(signal.SIGTERM)
        assert 0 == worker.end()
    assert 3 == json.loads(worker.out)["calls"]
    assert told(health, state="stopped", running=0)
    assert 1 == child("worker", "--check-health", str(health), cwd=tmp_path).returncode
    status = json.loads(child("status", "--json", cwd=tmp_path).stdout)
    assert (False, 0) == (status["session"]["alive"], status["counts"]["running"])


def test_several_at_work_are_told_apart(tmp_path: Path) -> None:
    """The status names each worker and run that is alive, and none that died."""
    make_project(tmp_path)
    with staying(tmp_path, "worker") as one, staying(tmp_path, "run", "--watch") as two:
        records = SessionRecords(Watcher(tmp_path).store)
        for each in (one, two):
            each.wait_until(lambda: len(records.list()) == 2, "both tell")
        status = json.loads(child("status", "--json", cwd=tmp_path).stdout)
        pids = {at_work["kind"]: at_work["pid"] for at_work in status["at_work"]}
        assert {"worker": one.process.pid, "run": two.process.pid} == pids
        line = f"worker {one.process.pid}: 0 running".encode()
        assert line in child("status", cwd=tmp_path).stdout
        one.process.kill()
        one.process.wait()
        status = json.loads(child("status", "--json", cwd=tmp_path).stdout)
        assert [two.process.pid] == [at_work["pid"] for at_work in status["at_work"]]
    status = json.loads(child("status", "--json", cwd=tmp_path).stdout)
    assert ([], 0) == (status["at_work"], status["counts"]["running"])


def test_a_watching_run_stays_until_it_is_interrupted(tmp_path: Path) -> None:
    """``run --watch`` outlasts an empty queue and ends with 130."""
    make_project(tmp_path)
    child("import", "inputs", cwd=tmp_path)
    with staying(tmp_path, "run", "--watch") as watching:
        watcher = Watcher(tmp_path)
        watching.wait_until(watcher.has(3), "the first cases are run")
        (tmp_path / "inputs" / "d.txt").write_text("Four.", encoding="utf-8")
        child("import", "inputs", cwd=tmp_path)
        watching.wait_until(watcher.has(4), "a new case is run")
        watching.send(signal.SIGINT)
        assert 130 == watching.end()
    assert 2 == child("run", "--watch", "--once", cwd=tmp_path).returncode


def test_a_worker_waits_out_a_retry_in_a_zone_of_half_hours(tmp_path: Path) -> None:
    """Due times are UTC: a zone that moves its clocks by half an hour changes nothing."""
    make_project(tmp_path, [DOWN, YES], texts={"a.txt": "One."}, delay=1.0)
    zone = {"TZ": "Australia/Lord_Howe"}
    assert 0 == child("import", "inputs", cwd=tmp_path, env=zone).returncode
    with staying(tmp_path, "worker", env=zone) as worker:
        seconds = worker.wait_until(Watcher(tmp_path).has(1), "answered at the second round")
        worker.send(signal.SIGTERM)
        assert 0 == worker.end()
    assert 1.0 < seconds < 20.0
    store = CheckpointStore(tmp_path / "runtime")
    (state,) = store.open("a.txt").operations.values()
    assert 2 == state.rounds_completed


def test_a_worker_takes_in_packages_that_arrive(tmp_path: Path) -> None:
    """A sealed package dropped into the inbox is received and its work is done."""
    there = make_project(tmp_path / "there")
    child("import", "inputs", cwd=there)
    child("export", "--format", "zip", "-o", "out", cwd=there)
    here = make_project(tmp_path / "here")
    with staying(here, "worker") as worker:
        inbox = here / "runtime" / "inbox"
        inbox.mkdir(parents=True, exist_ok=True)
        for package in sorted((there / "out").glob("*.zip")):
            os.link(package, inbox / package.name)
        worker.wait_until(Watcher(here).has(3), "received and run")
        worker.send(signal.SIGTERM)
        assert 0 == worker.end()
    assert "imported" in worker.errors


def test_a_health_check_starts_nothing(tmp_path: Path) -> None:
    """Without a project, settings or a file the check only says that the worker is not well."""
    done = child("worker", "--check-health", "none.json", "--json", cwd=tmp_path)
    assert 1 == done.returncode
    document = json.loads(done.stdout)
    assert {"healthy": False, "complaint": "there is no health file"} == document
    assert [] == list(tmp_path.iterdir())
