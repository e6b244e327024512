"""Work on whole packages that the crash suites interrupt: receiving, deciding, forgetting.

A play is ``SCENE ROOT``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from tests.crash.zygote import Observer, serve
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


def scenes(words: Sequence[str], observe: Observer) -> int:
    """Play one scene."""
    scene, root = words
    SCENES[scene](Path(root), ObservedDisk(observe))
    return 0


if __name__ == "__main__":
    serve(scenes)
