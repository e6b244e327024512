"""Forks a child for each line on standard input, lets it die at a step, and tells how it did.

Importing everything once makes a crash cost milliseconds, so that every step can be tried. A line
is ``ROOT STEP HOURS``: the project, the step at which the child kills itself with SIGKILL (0 for
never; a step lies before or after a call), and how much later than the first start it is. The
answer is ``EXIT STEPS``: the wait status, and how many steps a child that lived has counted.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from casework.checkpoints.disk import ObservedDisk
from tests.crash.scenario import EXPECTED, play


def child(root: Path, kill_at: int, hours_later: int, pipe: int) -> None:
    """Play the scenario and die at the step, or report how many steps there were."""
    steps = 0

    def observe(_call: object, _moment: str) -> None:
        nonlocal steps
        steps += 1
        if steps == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    statuses = play(root, ObservedDisk(observe), observe, hours_later=hours_later)
    os.write(pipe, str(steps).encode())
    os._exit(0 if statuses == EXPECTED else 3)


def main() -> None:
    """Serve lines until the input ends."""
    for line in sys.stdin:
        root, kill_at, hours_later = line.split()
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                child(Path(root), int(kill_at), int(hours_later), writing)
            finally:
                os._exit(4)
        os.close(writing)
        _, status = os.waitpid(pid, 0)
        with os.fdopen(reading, "rb") as counted:
            steps = counted.read().decode() or "0"
        print(status, steps, flush=True)


if __name__ == "__main__":
    main()
