"""A process that forks a child for each play, lets it die at a step, and tells how it did.

Importing everything once makes a crash cost milliseconds, so that every step can be tried. A line
on its standard input is ``STEP WORD ...``: the step at which the child kills itself with SIGKILL (0
for never; a step lies before or after a call), and what it is to play. The answer is ``STATUS
STEPS``: the wait status, and how many steps a child that lived has counted.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

ROOT: Final = Path(__file__).resolve().parents[2]

Observer: TypeAlias = Callable[[object, str], None]
"""Told of each step before and after it happens."""

Play: TypeAlias = Callable[[Sequence[str], Observer], int]
"""Plays what the words say and returns the exit code."""


def serve(play: Play) -> None:
    """Play lines until the input ends."""
    for line in sys.stdin:
        kill_at, *words = line.split()
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                _child(play, words, kill_at=int(kill_at), pipe=writing)
            finally:
                os._exit(4)
        os.close(writing)
        _, status = os.waitpid(pid, 0)
        with os.fdopen(reading, "rb") as counted:
            steps = counted.read().decode() or "0"
        print(status, steps, flush=True)


def _child(play: Play, words: Sequence[str], *, kill_at: int, pipe: int) -> None:
    """Play and die at the step, or report how many steps there were."""
    steps = 0

    def observe(_call: object, _moment: str) -> None:
        nonlocal steps
        steps += 1
        if steps == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    code = play(words, observe)
    os.write(pipe, str(steps).encode())
    os._exit(code)


class Zygote:
    """The process, as a test sees it.

    Args:
        module: Serves one play when it is run.
    """

    def __init__(self, module: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )

    def play(self, *words: object, kill_at: int = 0) -> tuple[int, int]:
        """Run one child and return its exit (negative: the signal) and its steps."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(kill_at, *words, file=self._process.stdin, flush=True)
        status, steps = self._process.stdout.readline().split()
        waited = int(status)
        exited = -(waited & 0x7F) if waited & 0x7F else waited >> 8
        return exited, int(steps)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()
