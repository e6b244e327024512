"""Threads for the disk, in which what begins a round goes before what ends one."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from itertools import count
from queue import PriorityQueue
from threading import Lock, Thread
from typing import Any, Final, ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")

BEGINNING: Final = 0
ENDING: Final = 1
_LAST: Final = 2


@dataclass(order=True, slots=True)
class _Job:
    lane: int
    number: int
    run: Callable[[], None] | None = field(compare=False)
    """None ends a thread."""
    future: Future[Any] | None = field(compare=False, default=None)


class DiskThreads:
    """A fixed number of threads with two lanes.

    Rounds that end together would hold up those that could begin meanwhile: a call that has not
    begun costs time at its provider, a commit that waits a little costs nothing.

    Args:
        threads: How many.
    """

    def __init__(self, threads: int) -> None:
        self._jobs: PriorityQueue[_Job] = PriorityQueue()
        self._numbers = count()
        self._guard = Lock()
        self._closed = False
        self.beginning: Executor = _Lane(self._put, BEGINNING)
        """For what has to be done before a call."""
        self.ending: Executor = _Lane(self._put, ENDING)
        """For what is done after it."""
        self._threads = [
            Thread(target=self._work, name=f"casework-disk-{n}", daemon=True)
            for n in range(threads)
        ]
        self._started = False

    def shutdown(self, *, wait: bool) -> None:
        """Take no new work, cancel what has not begun, and perhaps wait for what has."""
        with self._guard:
            self._closed = True
            waiting = []
            while not self._jobs.empty():
                waiting.append(self._jobs.get())
            for _ in self._threads:
                self._jobs.put(_Job(_LAST, next(self._numbers), None))
        for job in waiting:
            if job.future is not None:
                job.future.cancel()
        if wait and self._started:
            for thread in self._threads:
                thread.join()

    def _put(self, lane: int, future: Future[_T], call: Callable[[], _T]) -> None:
        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001 - handed to whoever waits
                future.set_exception(error)

        with self._guard:
            if self._closed:
                raise RuntimeError("the threads have been shut down")
            if not self._started:
                self._started = True
                for thread in self._threads:
                    thread.start()
            self._jobs.put(_Job(lane, next(self._numbers), run, future))

    def _work(self) -> None:
        while (run := self._jobs.get().run) is not None:
            run()


class _Lane(Executor):
    def __init__(
        self, put: Callable[[int, Future[Any], Callable[[], Any]], None], lane: int
    ) -> None:
        self._put = put
        self._lane = lane

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        """Put work into the lane."""
        future: Future[_T] = Future()
        self._put(self._lane, future, lambda: fn(*args, **kwargs))
        return future
