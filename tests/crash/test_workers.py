"""Workers die, stand still, wake, are asked to stop and overlap: each operation ends once."""

from __future__ import annotations

import json
import signal
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

from casework.checkpoints.claims import Wanted
from tests.crash.test_two_processes import child_holding, pipe
from tests.support.command_line import YES, child, write_script
from tests.support.workers import STUCK, TAKEOVER_SECONDS, project_of, slow, worker


def test_a_kill_in_the_recovery_loses_nothing_either(tmp_path: Path) -> None:
    """A worker that is killed while it makes up for a killed one is made up for too."""
    watcher = project_of(tmp_path, 3, STUCK)
    for calls in (2, 4):
        with worker(tmp_path) as dying:
            dying.wait_until(watcher.asked(calls), "two rounds begun")
            held = [claim.worker for claim in watcher.store.index.claims.of_others("")]
            assert 2 == len(held)
            assert 1 == len(set(held))
            dying.process.kill()
    write_script(tmp_path, [YES])
    with worker(tmp_path) as last:
        assert last.wait_until(watcher.has(3), "all done") < TAKEOVER_SECONDS
        last.send(signal.SIGTERM)
        assert (0, 3) == (last.end(), last.calls())
    watcher.check_whole(3)


def test_whoever_did_not_claim_is_never_broken_into(tmp_path: Path) -> None:
    """A plain round in another process is waited for, even where a frozen worker's claim ran out.

    The claim on the case is one that a living worker left behind; the lock is not that worker's.
    """
    watcher = project_of(tmp_path, 2, YES)
    index, claims = watcher.store.index, watcher.store.index.claims
    index.plan(["first"])
    (wanted, _) = index.due(datetime.now(UTC), 2)
    left = Wanted(wanted.case_id, wanted.ophash, 0)
    claims.take("ghost", [left], elapsed=0.0, until=1.0)
    with watcher.store.lock("\0worker ghost"), child_holding(tmp_path, "c000") as holder:
        with worker(tmp_path, seconds=0.3, renew=0.1) as other:
            other.wait_until(watcher.has(1), "the free case done")
            other.wait_until(lambda: [] == claims.of_others(""), "the held case tried and left")
            other.send(signal.SIGTERM)
            assert (0, 1) == (other.end(), other.calls())
        assert "took a case over" not in other.errors
        pipe(holder.stdin).write("go\n")
        pipe(holder.stdin).flush()
        assert "SUCCESS\n" == pipe(holder.stdout).readline()


def test_one_signal_lets_rounds_end_and_two_leave(tmp_path: Path) -> None:
    """SIGTERM commits what runs and ends with 0; a second one ends at once."""
    watcher = project_of(tmp_path, 4, slow(0.5))
    with worker(tmp_path) as gentle:
        gentle.wait_until(watcher.asked(2), "two rounds begun")
        gentle.send(signal.SIGTERM)
        assert (0, 2) == (gentle.end(), gentle.calls())
    assert watcher.has(2)()
    assert not watcher.has(3)()
    write_script(tmp_path, [STUCK])
    with worker(tmp_path) as hasty:
        hasty.wait_until(watcher.asked(4), "two more rounds begun")
        hasty.send(signal.SIGTERM)
        said = hasty.process.stderr
        assert said is not None
        while "stopping" not in said.readline():
            assert hasty.process.poll() is None
        hasty.send(signal.SIGTERM)
        assert 130 == hasty.end()
    assert [] == watcher.store.index.claims.of_others("")
    write_script(tmp_path, [YES])
    assert 0 == child("run", cwd=tmp_path).returncode
    watcher.check_whole(4)


def test_a_rolling_restart_with_overlap_loses_and_repeats_nothing(tmp_path: Path) -> None:
    """Each new worker starts before the old one is asked to stop; every case costs one call."""
    watcher = project_of(tmp_path, 60, slow(0.05))
    calls = 0
    with ExitStack() as running:
        old = running.enter_context(worker(tmp_path))
        for done in (5, 15, 25):
            old.wait_until(watcher.has(done), f"{done} done")
            new = running.enter_context(worker(tmp_path))
            new.wait_until(watcher.has(done + 5), f"{done + 5} done")
            old.send(signal.SIGTERM)
            assert 0 == old.end()
            calls += old.calls()
            old = new
        old.wait_until(watcher.has(60), "all done")
        old.send(signal.SIGTERM)
        assert 0 == old.end()
        assert 60 == calls + old.calls()
    watcher.check_whole(60)


def test_stale_files_block_nobody_and_prove_nothing(tmp_path: Path) -> None:
    """Lock and health files that name process 1 or last month are only files."""
    watcher = project_of(tmp_path, 2, YES)
    health = tmp_path / "health.json"
    stale = {
        "format": "casework-health/1",
        "state": "working",
        "worker": "1",
        "pid": 1,
        "started_at": "2020-01-01T00:00:00Z",
        "updated_at": (datetime.now(UTC) - timedelta(days=31)).isoformat(),
        "running": 2,
        "next_due_at": None,
        "hold": None,
    }
    health.write_text(json.dumps(stale), encoding="utf-8")
    words = ("worker", "--check-health", str(health))
    assert 1 == child(*words, cwd=tmp_path).returncode
    with watcher.store.lock("c000"), watcher.store.lock("c001"):
        pass
    for path in (tmp_path / "runtime" / "locks").glob("*.lock"):
        path.write_text("1 2020-01-01T00:00:00Z")
    with worker(tmp_path) as one:
        one.wait_until(watcher.has(2), "all done")
        one.send(signal.SIGTERM)
        assert 0 == one.end()
    watcher.check_whole(2)


def test_four_workers_share_a_thousand_cases(tmp_path: Path) -> None:
    """The index is one file under four writers: no case is lost, none is asked twice."""
    watcher = project_of(tmp_path, 1000, YES)
    with ExitStack() as running:
        workers = [running.enter_context(worker(tmp_path, concurrency=8)) for _ in range(4)]
        workers[0].wait_until(watcher.has(1000), "all done")
        for each in workers:
            each.send(signal.SIGTERM)
        assert [0, 0, 0, 0] == [each.end() for each in workers]
        assert 1000 == sum(each.calls() for each in workers)
    watcher.check_whole(1000)
