"""An import beside others: what somebody else is creating is waited for, not refused."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from casework.checkpoints.store import CheckpointStore
from casework.runner.documents import (
    Document,
    ProblemCode,
    RawFile,
    ReadFile,
    Refusal,
    make_document,
    read_file,
)
from casework.runtime.importing import BUSY_TRIES, Arrival, Arrived, import_documents


def a_document() -> Document:
    """Return a small document."""
    file = read_file(RawFile("a.txt", b"Text.", "a.txt"))
    assert isinstance(file, ReadFile)
    return make_document("a.txt", [file], source="a.txt")


def test_a_case_that_another_import_creates_is_waited_for_and_known(tmp_path: Path) -> None:
    """The lock is free again in a moment, and then the case is there already."""
    document, other = a_document(), CheckpointStore(tmp_path)
    with ExitStack() as held:
        held.enter_context(other.lock(document.case_id))

        def meanwhile(_: float) -> None:
            held.close()
            other.create(document.case_id, document.originals, derived=document.derived)

        (event,) = import_documents([document], CheckpointStore(tmp_path), sleep=meanwhile)
    assert Arrived(document, Arrival.KNOWN) == event


def test_a_case_whose_other_creator_gave_up_is_created(tmp_path: Path) -> None:
    """Whoever held the lock left nothing behind."""
    document = a_document()
    with ExitStack() as held:
        held.enter_context(CheckpointStore(tmp_path).lock(document.case_id))
        (event,) = import_documents(
            [document], CheckpointStore(tmp_path), sleep=lambda _: held.close()
        )
    assert Arrived(document, Arrival.CREATED) == event


def test_a_lock_that_is_never_freed_is_a_refusal(tmp_path: Path) -> None:
    """After a bounded number of waits; nothing is begun behind the holder's back."""
    document, waits = a_document(), list[float]()
    with CheckpointStore(tmp_path).lock(document.case_id):
        (event,) = import_documents([document], CheckpointStore(tmp_path), sleep=waits.append)
    assert isinstance(event, Refusal)
    assert (ProblemCode.UNREADABLE, BUSY_TRIES) == (event.problem.code, len(waits))
    assert [] == list(CheckpointStore(tmp_path).list())
