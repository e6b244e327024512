"""Work on whole packages that the crash suites interrupt: receiving, deciding, forgetting.

A process that forks a child for each line ``SCENE ROOT STEP`` on standard input; the child plays
the scene and kills itself with SIGKILL at that step of its disk (0 for never). The answer is
``EXIT STEPS``: the wait status, and how many steps a child that lived has counted.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final

from casework.checkpoints.disk import Disk, ObservedDisk
from casework.checkpoints.records import operation_hash
from casework.checkpoints.reviews import ReviewVerdict
from casework.checkpoints.store import CheckpointStore
from casework.runner.inbox import InboxProcessor
from casework.runner.inbox_folder import InboxFolder
from casework.runner.reviews import Decision, Reviewer
from tests.support.packages import CASE, START

LATER: Final = START + timedelta(days=1)


def inbox_of(root: Path, disk: Disk) -> tuple[CheckpointStore, InboxFolder, InboxProcessor]:
    """Return the inbox of a project on a given disk, after its recovery."""
    store = CheckpointStore(root / "runtime", now=lambda: LATER, disk=disk)
    store.recover()
    folder = InboxFolder(root / "runtime", now=lambda: LATER, disk=disk)
    processor = InboxProcessor(store, folder, now=lambda: LATER)
    return store, folder, processor


def receive(root: Path, disk: Disk) -> None:
    """Take up the files beside the project, in the order of their names."""
    _, folder, processor = inbox_of(root, disk)
    for source in sorted(root.glob("*.zip")):
        folder.put(source)
        processor.process_once()


def decide(root: Path, disk: Disk) -> None:
    """Approve an answer that nobody approved."""
    store, _, _ = inbox_of(root, disk)
    ophash = operation_hash(1, "answers")
    if store.open(CASE).operations[ophash].review is None:
        reviewer = Reviewer(store, now=lambda: LATER)
        reviewer.decide(CASE, ophash, Decision(ReviewVerdict.APPROVED, "ada"))


def forget(root: Path, disk: Disk) -> None:
    """Forget the case."""
    store, folder, _ = inbox_of(root, disk)
    store.forget(CASE)
    folder.forget(CASE)


SCENES: Final[dict[str, Callable[[Path, Disk], None]]] = {
    "receive": receive,
    "decide": decide,
    "forget": forget,
}


def child(scene: str, root: Path, kill_at: int, pipe: int) -> None:
    """Play a scene and die at the step, or report how many steps there were."""
    steps = 0

    def observe(_call: object, _moment: str) -> None:
        nonlocal steps
        steps += 1
        if steps == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    SCENES[scene](root, ObservedDisk(observe))
    os.write(pipe, str(steps).encode())
    os._exit(0)


def main() -> None:
    """Serve lines until the input ends."""
    for line in sys.stdin:
        scene, root, kill_at = line.split()
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                child(scene, Path(root), int(kill_at), writing)
            finally:
                os._exit(4)
        os.close(writing)
        _, status = os.waitpid(pid, 0)
        with os.fdopen(reading, "rb") as counted:
            steps = counted.read().decode() or "0"
        sys.stdout.write(f"{status} {steps}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
