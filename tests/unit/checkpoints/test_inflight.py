"""Announcements survive, replace each other safely, and never crash their reader."""

from __future__ import annotations

from dataclasses import replace

import pytest

from casework.checkpoints.inflight import FOLDER, InflightIntents, Intent, IntentTarget
from casework.checkpoints.memory_storage import MemoryStorage
from casework.checkpoints.names import case_folder, outcome_path
from casework.checkpoints.records import PackageStatus, operation_hash
from casework.errors import FormatError
from tests.support.packages import CASE, Workshop

INTENT = Intent(
    case_id=CASE,
    package_id="p" * 64,
    ophash=operation_hash(1, "a"),
    operation_id="a",
    round=1,
    started_at="2026-01-01T10:00:00Z",
    targets=(
        IntentTarget("remote", "m-1", "cloud", "0.02 USD"),
        IntentTarget("local", "m-2", "local", None),
    ),
)


def test_an_announcement_comes_back_as_it_was() -> None:
    """Targets, bounds and earlier starts are read back."""
    again = replace(INTENT, started_at="2026-01-01T11:00:00Z", earlier=(INTENT.start(),))
    assert again == Intent.decode(again.encode(), "x")


def test_the_newest_announcement_of_an_operation_counts() -> None:
    """A round begun again replaces its announcement and carries the earlier starts."""
    storage = MemoryStorage()
    inflight = InflightIntents(storage)
    newest = INTENT
    for number in range(5):
        inflight.begin(newest)
        assert (newest,) == inflight.list()
        assert newest == inflight.look(CASE, INTENT.ophash).newest
        earlier = (*newest.earlier, newest.start())
        newest = replace(newest, started_at=f"2026-01-01T11:0{number}:00Z", earlier=earlier)
    assert 2 >= len(storage.list(FOLDER))
    inflight.end(CASE, INTENT.ophash)
    assert ((), None) == (inflight.list(), inflight.look(CASE, INTENT.ophash).newest)


def test_two_cases_may_announce_the_same_operation() -> None:
    """Operations of one name in different cases do not share a file."""
    inflight = InflightIntents(MemoryStorage())
    other = replace(INTENT, case_id="case-2")
    inflight.begin(INTENT)
    inflight.begin(other)
    inflight.end("case-2", INTENT.ophash)
    assert (INTENT,) == inflight.list()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b"\xff\xfe", INTENT.encode()[:-9]])
def test_damaged_announcements_are_named_and_passed_over(content: bytes) -> None:
    """Whatever lies in the folder, reading goes on with the rest."""
    storage = MemoryStorage()
    storage.create([(f"{FOLDER}/0123-{'a' * 64}.json", content)])
    inflight = InflightIntents(storage)
    inflight.begin(INTENT)
    assert (INTENT,) == inflight.list()
    assert (f"0123-{'a' * 64}.json",) == inflight.damaged()
    with pytest.raises(FormatError):
        Intent.decode(content, "x")


def test_recovery_names_rounds_without_an_outcome_only() -> None:
    """Committed and adoptable rounds are settled; what is left may have been paid for in vain."""
    storage = MemoryStorage()
    workshop = Workshop(storage)
    head = workshop.create()
    for name in ("committed", "left whole", "lost"):
        ophash = operation_hash(1, name)
        workshop.store.inflight.begin(
            replace(INTENT, operation_id=name, ophash=ophash, package_id=head.package_id)
        )
    workshop.store.commit(workshop.change(head, "committed"))
    whole = outcome_path(operation_hash(1, "left whole"), 1)
    storage.create([(f"{case_folder(CASE)}/{whole}", b"{}")])
    restarted = Workshop(storage).store
    assert ["lost"] == [intent.operation_id for intent in restarted.recover()]
    assert {"left whole", "lost"} == {i.operation_id for i in restarted.inflight.list()}
    assert 1 == restarted.index.counts().packages[PackageStatus.SUCCESS]


def test_a_case_that_is_being_worked_on_is_not_recovered() -> None:
    """A round that runs now, here or in another process, is not lost."""
    workshop = Workshop(MemoryStorage())
    workshop.create()
    workshop.store.inflight.begin(INTENT)
    with workshop.store.lock(CASE):
        assert () == workshop.store.recover()
