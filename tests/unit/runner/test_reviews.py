"""A person's decision is committed beside the outcome, and what it leaves is what stands."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.checkpoints.memory_storage import MemoryStorage
from casework.checkpoints.names import outcome_path
from casework.checkpoints.records import OperationStatus, PackageStatus, operation_hash
from casework.checkpoints.reviews import Correction, ReviewVerdict
from casework.checkpoints.verify import verify_storage
from casework.errors import CaseworkError, IllegalTransition, StaleGeneration
from casework.runner.reviews import (
    CORRECTIONS_MAX,
    Decision,
    Reviewer,
    effective_output,
    view_token,
)
from casework.strict_json import JSON
from tests.support.packages import CASE, Result, Workshop

OP = operation_hash(1, "op")
APPROVE = Decision(ReviewVerdict.APPROVED, "ada")
REJECT = Decision(ReviewVerdict.REJECTED, "ada", "not what the report says")


def corrects(*corrections: tuple[str, JSON]) -> Decision:
    """Return a decision that sets these values."""
    return Decision(
        ReviewVerdict.CORRECTED, "bob", corrections=tuple(Correction(*pair) for pair in corrections)
    )


class Desk:
    """A case with one finished operation, and a person who decides about it.

    Args:
        result: What the operation came to.
    """

    def __init__(self, result: Result | None = "success") -> None:
        self.storage = MemoryStorage()
        self.workshop = Workshop(self.storage, rounds_max=1)
        self.store = self.workshop.store
        head = self.workshop.create()
        if result is not None:
            self.workshop.run(head, "op", result)
        self.reviewer = Reviewer(self.store, now=lambda: self.workshop.at)

    def decide(self, decision: Decision, view: str | None = None) -> JSON:
        """Decide about the operation, and return what stands then."""
        self.reviewer.decide(CASE, OP, decision, view=view)
        assert verify_storage(self.storage, "cases/" + self.folder).ok
        return effective_output(self.store, CASE, OP)[0]

    @property
    def folder(self) -> str:
        """Return the folder of the case below that of all cases."""
        (spread,) = self.storage.list("cases")
        (name,) = self.storage.list(f"cases/{spread[:-1]}")
        return f"{spread}{name[:-1]}"


def test_an_approval_leaves_the_answer_and_names_who_gave_it() -> None:
    """The generation rises by one, and commit and review name the person."""
    desk = Desk()
    before = desk.store.open(CASE).generation
    assert {"answer": "yes"} == desk.decide(APPROVE)
    _, review = effective_output(desk.store, CASE, OP)
    assert review is not None
    assert ("ada", 1, ReviewVerdict.APPROVED) == (review.actor, review.number, review.verdict)
    entries = list(desk.store.inspect(CASE).timeline())
    assert (before + 1, "ada") == (entries[-1].generation, entries[-1].actor)


def test_a_correction_never_touches_the_outcome() -> None:
    """What the model said stays as it is; what stands is the corrected answer."""
    desk = Desk()
    path = outcome_path(OP, 1)
    said = desk.store.read_file(CASE, path)
    assert {"answer": "no", "by": ["me"]} == desk.decide(
        corrects(("/answer", "no"), ("/by", []), ("/by/-", "me"))
    )
    assert said == desk.store.read_file(CASE, path)


def test_reviews_build_on_one_another() -> None:
    """A correction of a correction, a rejection, and a second look that lets it stand after all."""
    desk = Desk()
    desk.decide(corrects(("/answer", "no")))
    assert {"answer": "no", "why": 1} == desk.decide(corrects(("/why", 1)))
    assert None is desk.decide(REJECT)
    assert PackageStatus.ERROR is desk.store.open(CASE).status
    assert {"answer": "no", "why": 1} == desk.decide(APPROVE)
    assert 4 == len(desk.storage.list(f"cases/{desk.folder}/reviews/{OP}"))


@pytest.mark.parametrize("result", ["error", "temporary_failure"])
def test_a_person_may_answer_in_place_of_the_model(result: Result) -> None:
    """The whole value under the empty pointer; the operation counts as done from then on."""
    desk = Desk(result)
    assert {"answer": "by hand"} == desk.decide(corrects(("", {"answer": "by hand"})))
    head = desk.store.open(CASE)
    assert PackageStatus.SUCCESS is head.status
    assert head.operations[OP].status is not OperationStatus.SUCCESS
    assert {OperationStatus.SUCCESS: 1} == desk.store.index.counts().operations


@pytest.mark.parametrize("result", ["error", "temporary_failure"])
def test_a_rejection_closes_an_item_without_an_answer(result: Result) -> None:
    """A blocked operation that was rejected waits for nobody, and its package says so."""
    desk = Desk(result)
    assert None is desk.decide(REJECT)
    head = desk.store.open(CASE)
    assert (PackageStatus.ERROR, None) == (head.status, head.routing.reason)
    assert [OP] == [operation.ophash for operation in desk.store.index.decided()]


@pytest.mark.parametrize(
    ("result", "decision", "code"),
    [
        ("error", APPROVE, "no_answer"),
        ("success", corrects(("/nowhere/deep", 1)), "pointer_not_found"),
        ("success", corrects(("answer", 1)), "pointer_not_found"),
        ("success", corrects(("", "text")), "schema_violation"),
        ("success", corrects(("", {"other": 1})), "schema_violation"),
        ("success", corrects(("/answer", float("nan"))), "not_strict_json"),
        ("success", corrects(("/answer", "\ud800")), "not_strict_json"),
        ("success", corrects(), "bad_decision"),
        (
            "success",
            corrects(*(("/answer", n) for n in range(CORRECTIONS_MAX + 1))),
            "bad_decision",
        ),
        ("success", replace(REJECT, reason=" "), "bad_decision"),
        ("success", replace(APPROVE, actor=""), "bad_decision"),
        ("success", replace(APPROVE, actor="a" * 5000), "bad_decision"),
        ("success", corrects(("/answer", "x" * (5 << 20))), "request_too_large"),
    ],
)
def test_a_decision_that_cannot_stand_changes_nothing(
    result: Result, decision: Decision, code: str
) -> None:
    """It is refused under a stable code, and the package is as before."""
    desk = Desk(result)
    head = desk.store.open(CASE)
    with pytest.raises(CaseworkError) as refusal:
        desk.decide(decision)
    assert code == refusal.value.code
    assert head == desk.store.open(CASE)


def test_a_stale_view_is_refused() -> None:
    """Who saw an answer that was corrected since decides nothing; who looks again may."""
    desk = Desk()
    head = desk.store.open(CASE)
    seen = view_token(head.package_id, head.operations[OP])
    desk.decide(corrects(("/answer", "no")), seen)
    with pytest.raises(StaleGeneration) as refusal:
        desk.decide(APPROVE, seen)
    assert "stale_view" == refusal.value.code
    head = desk.store.open(CASE)
    assert {"answer": "no"} == desk.decide(
        APPROVE, view_token(head.package_id, head.operations[OP])
    )


def test_another_operation_of_the_case_makes_no_view_stale() -> None:
    """A view is of one operation; what happens beside it is no reason to look again."""
    desk = Desk()
    head = desk.store.open(CASE)
    seen = view_token(head.package_id, head.operations[OP])
    desk.workshop.run(head, "other")
    assert {"answer": "yes"} == desk.decide(APPROVE, seen)


def test_nothing_is_decided_while_a_round_is_to_come() -> None:
    """An operation that waits for its next round is not finished."""
    desk = Desk(None)
    desk.workshop.rounds_max = 2
    desk.workshop.run(desk.store.open(CASE), "op", "temporary_failure")
    with pytest.raises(IllegalTransition) as refusal:
        desk.decide(REJECT)
    assert "not_reviewable" == refusal.value.code


def test_an_operation_that_lives_on_is_decided_about_under_its_new_id() -> None:
    """A rejected answer may be asked for again; the review stays with the old id."""
    desk = Desk()
    desk.decide(REJECT)
    head = desk.store.open(CASE)
    head = desk.store.resume(CASE, head.package_id, "op", new_operation_id="op@2")
    with pytest.raises(IllegalTransition):
        desk.decide(APPROVE)
    assert head.operations[OP].review is not None
    assert head.operations[operation_hash(1, "op@2")].review is None
    assert PackageStatus.RETRY_PENDING is head.status


def test_an_answer_that_stands_is_not_asked_for_again() -> None:
    """Neither an unreviewed answer nor an approved one is begun anew."""
    desk = Desk()
    desk.decide(APPROVE)
    package_id = desk.store.open(CASE).package_id
    with pytest.raises(IllegalTransition):
        desk.store.resume(CASE, package_id, "op", new_operation_id="op@2")


answers = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=4,
)


@given(st.lists(st.builds(lambda value: ("/answer", value), answers), min_size=1, max_size=5))
def test_whatever_is_corrected_verifies(corrections: list[tuple[str, JSON]]) -> None:
    """Each review follows from the one before it, as the oracle recomputes it."""
    desk = Desk()
    for correction in corrections:
        standing = desk.decide(corrects(correction))
    assert {"answer": corrections[-1][1]} == standing
