"""Held work goes when the index knows that its needs are met, without a look at any package."""

from __future__ import annotations

from pathlib import Path

import pytest

from casework.checkpoints.call_names import CALLS_PHASE
from casework.checkpoints.index import PackageIndex
from casework.checkpoints.index_plans import HeldRule
from casework.checkpoints.index_rows import Planned
from casework.checkpoints.records import PackageStatus
from tests.support.packages import Workshop


def rule(operation_id: str, *needs: str, digest: str = "d", parts: bool = False) -> HeldRule:
    """Return what an operation waits for."""
    return HeldRule(operation_id=operation_id, needs=needs, has_parts=parts, digest=digest)


@pytest.fixture(name="workshop")
def workshop_of_two_cases(tmp_path: Path) -> Workshop:
    """Return a workshop with two cases of which nothing was run."""
    workshop = Workshop(tmp_path / "runtime")
    workshop.create("one")
    workshop.create("two")
    return workshop


def plan(index: PackageIndex, *held: str) -> None:
    """Plan an operation that needs nothing, and others that do."""
    index.plan(["a", *held], held=held, keep=lambda name: "#" in name)


def planned(index: PackageIndex, case_id: str) -> dict[str, str]:
    """Return what the planned operations of a case wait for."""
    return {o.operation_id: o.planned.value for o in index.operations(case_id) if o.planned}


def test_what_needs_an_answer_goes_where_there_is_one(workshop: Workshop) -> None:
    """In one case the need is met; in the other it failed."""
    index = workshop.store.index
    plan(index, "b", "c")
    workshop.run(workshop.store.open("one"), "a", "success")
    workshop.run(workshop.store.open("two"), "a", "error")
    index.let_go([rule("b", "a"), rule("c", "a", "b")])
    assert {"b": "READY", "c": "HELD"} == planned(index, "one")
    assert {"b": "HELD", "c": "HELD"} == planned(index, "two")


def test_the_answer_of_a_later_campaign_counts(workshop: Workshop) -> None:
    """What is needed failed, was asked again under another id, and succeeded there."""
    index = workshop.store.index
    plan(index, "b")
    head = workshop.run(workshop.store.open("one"), "a", "error")
    head = workshop.store.resume("one", head.package_id, "a", new_operation_id="a@12")
    index.let_go([rule("b", "a")])
    assert {"b": "HELD"} == planned(index, "one")
    workshop.run(head, "a@12", "success")
    index.let_go([rule("b", "a")])
    assert {"b": "READY"} == planned(index, "one")


@pytest.mark.parametrize("other", ["a@x", "a@1x", "ab", "a#1of2", "A"])
def test_an_operation_of_a_like_name_is_another(workshop: Workshop, other: str) -> None:
    """Only the id itself and its numbered campaigns count."""
    index = workshop.store.index
    plan(index, "b")
    workshop.run(workshop.store.open("one"), other, "success")
    index.let_go([rule("b", "a")])
    assert Planned.HELD.value == planned(index, "one")["b"]


def test_what_needs_something_skipped_is_skipped_down_the_line(workshop: Workshop) -> None:
    """At once, whatever else it needs; and held again where the rule of the first one changed."""
    index = workshop.store.index
    rules = [rule("b", "a"), rule("c", "b", "a"), rule("d", "c")]
    plan(index, "b", "c", "d")
    index.let_go(rules)
    (b,) = [o for o in index.operations("one") if o.operation_id == "b"]
    index.set_planned("one", b.ophash, Planned.SKIPPED)
    index.let_go(rules)
    assert {"a": "READY", "b": "SKIPPED", "c": "SKIPPED", "d": "SKIPPED"} == planned(index, "one")
    assert {"a": "READY", "b": "HELD", "c": "HELD", "d": "HELD"} == planned(index, "two")
    index.let_go([rule(r.operation_id, *r.needs, digest="new") for r in rules])
    assert {"a": "READY", "b": "HELD", "c": "HELD", "d": "HELD"} == planned(index, "one")


def test_an_operation_waits_for_its_parts_where_it_has_some(workshop: Workshop) -> None:
    """A case without parts goes at once, one with parts when each of them succeeded."""
    index = workshop.store.index
    plan(index, "long")
    index.plan(["long#1of2", "long#2of2"], case_id="two")
    parts = [rule("long", parts=True)]
    index.let_go(parts)
    assert "READY" == planned(index, "one")["long"]
    head = workshop.run(workshop.store.open("two"), "long#1of2", "success")
    index.let_go(parts)
    assert {"a": "READY", "long": "HELD", "long#2of2": "READY"} == planned(index, "two")
    plan(index, "long")
    assert "long#2of2" in planned(index, "two")
    workshop.run(head, "long#2of2", "success")
    index.let_go(parts)
    assert {"a": "READY", "long": "READY"} == planned(index, "two")


def test_planned_work_of_one_case_can_be_taken_back(workshop: Workshop) -> None:
    """The other case keeps it, and what has a state stays."""
    index = workshop.store.index
    plan(index)
    (one,), (two,) = index.operations("one"), index.operations("two")
    index.drop_planned("one", one.ophash)
    workshop.run(workshop.store.open("two"), "a", "success")
    index.drop_planned("two", two.ophash)
    assert ([], 1) == (index.operations("one"), len(index.operations("two")))


def test_calls_of_clients_are_neither_planned_nor_due_nor_counted(workshop: Workshop) -> None:
    """Neither in a case of their own nor in another, before a rescan and after it."""
    index, store = workshop.store.index, workshop.store
    workshop.run(store.create("chat", {}, phase=CALLS_PHASE), "call:alice:k", "error")
    workshop.run(store.open("one"), "call:alice:k", "temporary_failure")
    plan(index)
    counts = index.counts()
    assert (2, {PackageStatus.ACTIVE: 1, PackageStatus.RETRY_PENDING: 1}) == (
        counts.cases,
        counts.packages,
    )
    assert ({}, {Planned.READY: 2}) == (counts.operations, counts.planned)
    workshop.pass_time(3600)
    due = [(o.case_id, o.operation_id) for o in index.due(workshop.at, limit=9)]
    assert [("one", "a"), ("two", "a")] == due
    index.rescan()
    plan(index)
    assert counts == index.counts()
    store.forget("chat")
    assert counts == index.counts()
