"""Rounds that the crash suite interrupts.

A play is ``ROOT HOURS``: the project, and how much later than the first start it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from casework.checkpoints.disk import ObservedDisk
from tests.crash.scenario import EXPECTED, play
from tests.crash.zygote import Observer, serve


def operations(words: Sequence[str], observe: Observer) -> int:
    """Play the scenario; 0 if everything ended as expected."""
    root, hours_later = words
    disk = ObservedDisk(observe)
    statuses = play(Path(root), disk, observe, hours_later=int(hours_later))
    return 0 if statuses == EXPECTED else 3


if __name__ == "__main__":
    serve(operations)
