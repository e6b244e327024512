"""Asking again makes a new operation, and leaves the old outcomes where they are."""

from __future__ import annotations

from pathlib import Path

from casework.checkpoints.memory_storage import MemoryStorage
from casework.checkpoints.records import OperationStatus
from casework.runner.inbox_items import inbox_items, reasons
from casework.runner.operation_ids import later_campaigns, pipeline_id
from casework.runtime.run.campaigns import Again, Became, ask_again, stopped_operations
from tests.support.packages import CASE, Workshop

STOPPED = (OperationStatus.ERROR, OperationStatus.BLOCKED)


def again(workshop: Workshop, reason: str | None = None) -> list[Again]:
    chosen = stopped_operations(workshop.store, STOPPED, reason=reason)
    return list(ask_again(workshop.store, chosen))


def test_a_failed_operation_lives_on_under_the_next_id() -> None:
    """``op`` becomes ``op@2``, and ``op@2`` becomes ``op@3``."""
    workshop = Workshop(MemoryStorage())
    head = workshop.run(workshop.create(), "op", "error")
    assert ["op@2"] == [one.new_operation_id for one in again(workshop)]
    workshop.run(workshop.store.open(head.case_id), "op@2", "error")
    assert ["op@3"] == [one.new_operation_id for one in again(workshop)]
    states = {s.operation_id: s.status for s in workshop.store.open(CASE).operations.values()}
    assert OperationStatus.ERROR is states["op"]
    assert OperationStatus.RETRY_PENDING is states["op@3"]


def test_a_used_id_is_stepped_over() -> None:
    """Where ``op@2`` stands for something else, ``op@3`` is taken."""
    workshop = Workshop(MemoryStorage())
    head = workshop.run(workshop.create(), "op@2", "success")
    workshop.run(head, "op", "error")
    assert ["op@3"] == [one.new_operation_id for one in again(workshop)]


def test_a_blocked_operation_waits_for_its_time() -> None:
    """Before its retry time that time is named; after it the operation goes on."""
    workshop = Workshop(MemoryStorage())
    workshop.exhaust(workshop.create(), "op")
    (early,) = again(workshop)
    assert (Became.NOT_DUE, True) == (early.became, early.due_at is not None)
    workshop.pass_time(7200)
    assert [Became.ASKED_AGAIN] == [one.became for one in again(workshop)]


def test_only_the_reason_that_was_named_is_asked_again() -> None:
    """Reasons are compared without regard to case, and others stay."""
    workshop = Workshop(MemoryStorage())
    head = workshop.run(workshop.create(), "op", "error")
    code = next(iter(reasons(workshop.store.index)[0]))
    assert [] == again(workshop, "something_else")
    assert 1 == len(again(workshop, code.upper()))
    assert head.case_id == CASE


def test_a_locked_case_is_told(tmp_path: Path) -> None:
    """A case in another worker's hands is named, not waited for."""
    workshop, other = Workshop(tmp_path), Workshop(tmp_path)
    workshop.run(workshop.create(), "op", "error")
    with other.store.lock(CASE):
        assert [Became.LOCKED] == [one.became for one in again(workshop)]


def test_blocked_work_is_in_the_inbox() -> None:
    """The inbox lists blocked operations with their reason."""
    workshop = Workshop(MemoryStorage())
    workshop.exhaust(workshop.create(), "op")
    (item,) = inbox_items(workshop.store.index)
    assert (CASE, OperationStatus.BLOCKED) == (item.case_id, item.status)
    assert [] == list(inbox_items(workshop.store.index, reason="refusal"))


def test_campaign_ids_are_told_from_ids_with_an_at_sign() -> None:
    """An id that the pipeline itself has is never taken apart."""
    assert "op" == pipeline_id("op@12", {"op"})
    assert "op@12" == pipeline_id("op@12", {"op@12"})
    assert "mail@home" == pipeline_id("mail@home", {"op"})
    assert ("op", 13) == later_campaigns("op@12")
    assert ("op@0", 2) == later_campaigns("op@0")
