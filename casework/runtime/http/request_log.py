"""The request log: a line for each request, written beside the work and never in its way."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Final

import msgspec

from casework.checkpoints.locks import FileLocks
from casework.checkpoints.timestamps import write_time
from casework.facade.request_line import RequestLine
from casework.gateway.clock import Clock
from casework.runner.rotated_file import RotatedFile

LINES_MAX: Final = 10_000
"""Most lines that wait to be written; those beyond are lost and counted."""
BATCH_LINES: Final = 100
"""Most lines written in one go; while they are put into words, no request is served."""
BATCH_SECONDS: Final = 0.5
CLOSE_SECONDS: Final = 2.0

LOG_BYTES_MAX: Final = 10 * 1024 * 1024
BACKUPS: Final = 2

LINES_LOST: Final = "lines_lost"
"""The event of the line that says how many lines could not be kept."""


def open_request_log(runtime: Path, clock: Clock) -> RequestLog:
    """Return the log of a project's requests, being written; ``close`` ends it.

    Args:
        runtime: The project's runtime folder.
        clock: The time.
    """
    locks = FileLocks(runtime / "locks")
    path = runtime / "logs" / "requests.jsonl"
    file = RotatedFile(
        path=path,
        bytes_max=LOG_BYTES_MAX,
        backups=BACKUPS,
        exclusive=lambda: locks.hold("\0requests.jsonl"),
    )
    log = RequestLog(file, now=clock.now)
    log.start()
    return log


class RequestLog:
    """Takes lines at once and writes them in a thread, in batches.

    While the disk refuses, lines wait; when as many wait as may, further ones are lost and
    counted. Once the disk is back, what waited is written, and then one line that says how many
    were lost.

    Args:
        file: Where they are written.
        now: The time, for the line about lost ones.
    """

    def __init__(self, file: RotatedFile, *, now: Callable[[], datetime]) -> None:
        self._file = file
        self._now = now
        self._waiting: deque[RequestLine] = deque()
        self._unwritten = b""
        """A batch that the disk did not take, or the rest of one."""
        self._lost = 0
        self._lost_told = 0
        self._closing = False
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="request-log", daemon=True)

    @property
    def lost(self) -> int:
        """Return how many lines were lost so far."""
        return self._lost

    @property
    def waiting(self) -> int:
        """Return how many lines wait to be written."""
        return len(self._waiting) + self._unwritten.count(b"\n")

    def take(self, line: RequestLine) -> None:
        """Take a line; neither waits nor fails. To be called by one thread only."""
        if self._closing or len(self._waiting) >= LINES_MAX:
            self._lost += 1
            return
        self._waiting.append(line.bounded())
        if len(self._waiting) == BATCH_LINES:
            self._wake.set()

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def close(self) -> None:
        """Take no more, and write what waits; returns within a few seconds whatever the disk does.

        What a disk that is gone did not take is lost.
        """
        self._closing = True
        self._wake.set()
        self._thread.join(CLOSE_SECONDS)

    def write(self) -> bool:
        """Write a batch, and further ones that are full; tell whether the disk took them.

        It is the thread's work, and its alone.
        """
        while True:
            if not self._unwritten:
                self._unwritten = self._batch()
            if self._unwritten:
                try:
                    written = self._file.append(self._unwritten)
                except OSError:
                    return False
                # A disk that fills up takes a part. The line that is cut is written again, whole,
                # unless nothing but its end is missing.
                self._unwritten = self._unwritten[
                    self._unwritten.rfind(b"\n", 0, written + 1) + 1 :
                ]
            if self._unwritten or len(self._waiting) < BATCH_LINES:
                return not self._unwritten

    def _run(self) -> None:
        while not self._closing:
            self._wake.wait(BATCH_SECONDS)
            self._wake.clear()
            self.write()
        while self.write() and self._waiting:
            pass
        self._lost += self.waiting
        self._waiting.clear()
        self._unwritten = b""

    def _batch(self) -> bytes:
        number = min(len(self._waiting), BATCH_LINES)
        lines = [_encoded(self._waiting.popleft()) for _ in range(number)]
        lost = self._lost
        if lost > self._lost_told and not self._waiting:
            told = {
                "ts": write_time(self._now()),
                "event": LINES_LOST,
                "lines": lost - self._lost_told,
            }
            lines.append(msgspec.json.encode(told))
            self._lost_told = lost
        return b"".join(line + b"\n" for line in lines)


def _encoded(line: RequestLine) -> bytes:
    fields = msgspec.structs.asdict(line)
    fields = {"ts": write_time(fields.pop("at")), "event": "request", **fields}
    fields["elapsed_ms"] = round(line.elapsed_ms, 1)
    fields["upstream_ms"] = None if line.upstream_ms is None else round(line.upstream_ms, 1)
    fields["cost"] = None if line.cost is None else line.cost.to_json()
    try:
        return msgspec.json.encode(fields)
    except UnicodeEncodeError:  # half a character in a name that a client or a server wrote
        return msgspec.json.encode({name: _whole(value) for name, value in fields.items()})


def _whole(value: object) -> object:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
