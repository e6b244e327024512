"""Threads with two lanes: what begins a round goes first, and nothing is left behind."""

from __future__ import annotations

from threading import Event

import pytest

from casework.runtime.run.disk_threads import DiskThreads


def test_what_begins_a_round_goes_before_what_ends_one() -> None:
    """Of what waits the beginnings are done first, each lane in the order of its asking."""
    threads, gate, order = DiskThreads(1), Event(), list[str]()
    first = threads.ending.submit(gate.wait, 30)
    waiting = [
        lane.submit(order.append, word)
        for lane, word in (
            (threads.ending, "commit 1"),
            (threads.beginning, "open 1"),
            (threads.ending, "commit 2"),
            (threads.beginning, "open 2"),
        )
    ]
    gate.set()
    assert first.result(30)
    for future in waiting:
        future.result(30)
    threads.shutdown(wait=True)
    assert ["open 1", "open 2", "commit 1", "commit 2"] == order


def test_an_error_reaches_whoever_waits() -> None:
    """The thread goes on, and the result is the error."""
    threads = DiskThreads(1)
    with pytest.raises(ZeroDivisionError):
        threads.ending.submit(divmod, 1, 0).result(30)
    assert (0, 1) == threads.ending.submit(divmod, 1, 3).result(30)
    threads.shutdown(wait=True)


def test_a_shutdown_ends_what_runs_and_cancels_what_waits() -> None:
    """Work that has begun comes to its end, other work never begins, new work is refused."""
    threads, begun, gate = DiskThreads(1), Event(), Event()

    def work() -> str:
        begun.set()
        gate.wait(30)
        return "done"

    running = threads.ending.submit(work)
    begun.wait(30)
    waiting = threads.beginning.submit(work)
    threads.shutdown(wait=False)
    gate.set()
    assert "done" == running.result(30)
    assert waiting.cancelled()
    with pytest.raises(RuntimeError):
        threads.ending.submit(work)


def test_threads_that_were_never_needed_are_never_started() -> None:
    """A run that is only planned costs none."""
    threads = DiskThreads(4)
    threads.shutdown(wait=True)
    assert not any(thread.is_alive() for thread in threads._threads)
