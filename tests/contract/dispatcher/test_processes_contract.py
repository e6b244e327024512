"""What every engine promises when processes die, stand still and wake: with real signals."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.support.command_line import YES, write_script
from tests.support.workers import (
    CHILDREN,
    STUCK,
    TAKEOVER_SECONDS,
    project_of,
    slow,
    unconfirmed,
    worker,
)

pytestmark = pytest.mark.parametrize("engine", sorted(CHILDREN))


def test_another_worker_finishes_what_a_killed_one_had_begun(tmp_path: Path, engine: str) -> None:
    """Of two workers one is killed in a round; the other finishes everything, soon and alone."""
    watcher = project_of(tmp_path, 6, STUCK)
    with worker(tmp_path, engine=engine) as dying:
        dying.wait_until(watcher.asked(2), "two rounds begun")
        write_script(tmp_path, [YES])
        with worker(tmp_path, engine=engine) as other:
            other.wait_until(watcher.has(4), "the rest done")
            dying.process.kill()
            dying.process.wait()
            assert other.wait_until(watcher.has(6), "all done") < TAKEOVER_SECONDS
            other.send(signal.SIGTERM)
            assert (0, 6) == (other.end(), other.calls())
    watcher.check_whole(6)
    assert 2 == unconfirmed(watcher, 6)


def test_two_that_take_over_from_one_dead_worker_do_so_once(tmp_path: Path, engine: str) -> None:
    """Both find the same dead worker; each of its operations is run by one of them."""
    watcher = project_of(tmp_path, 8, STUCK)
    with worker(tmp_path, concurrency=8, engine=engine) as dying:
        dying.wait_until(watcher.asked(8), "all begun")
        dying.process.kill()
    write_script(tmp_path, [slow(0.05)])
    with worker(tmp_path, engine=engine) as one, worker(tmp_path, engine=engine) as two:
        assert one.wait_until(watcher.has(8), "all done") < TAKEOVER_SECONDS
        for each in (one, two):
            each.send(signal.SIGTERM)
        assert [0, 0] == [one.end(), two.end()]
        assert 8 == one.calls() + two.calls()
    watcher.check_whole(8)


def test_a_frozen_worker_is_taken_over_and_comes_too_late(tmp_path: Path, engine: str) -> None:
    """SIGSTOP, takeover after the claim's end, SIGCONT: one result counts, the other is told."""
    watcher = project_of(tmp_path, 3, slow(3.0))
    with worker(tmp_path, seconds=1.0, renew=0.2, concurrency=1, engine=engine) as frozen:
        frozen.wait_until(watcher.asked(1), "a round begun")
        frozen.send(signal.SIGSTOP)
        write_script(tmp_path, [YES])
        with worker(tmp_path, seconds=1.0, renew=0.2, engine=engine) as other:
            assert other.wait_until(watcher.has(3), "all done") < 1.0 + TAKEOVER_SECONDS
            frozen.send(signal.SIGCONT)
            log = tmp_path / "runtime" / "logs" / "llm.jsonl"
            frozen.wait_until(log.exists, "the late result is told")
            for each in (frozen, other):
                each.send(signal.SIGTERM)
            assert [0, 0] == [frozen.end(), other.end()]
            assert 3 == other.calls()
    events = [json.loads(line) for line in log.read_text().splitlines()]
    assert ["result_discarded"] == [event["event"] for event in events]
    assert "a result was discarded" in frozen.errors
    assert "[taken_over]" in frozen.errors
    assert "took a case over" in other.errors
    watcher.check_whole(3)
    assert 1 == unconfirmed(watcher, 3)
    assert not any(map(watcher.store.locks.is_ousted_at_work, watcher.store.list()))
