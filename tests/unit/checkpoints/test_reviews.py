"""The oracle recomputes every decision, and finds those that no person could have made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from casework.checkpoints.change import Change
from casework.checkpoints.fold import PackageHead
from casework.checkpoints.names import case_folder, outcome_path, review_path
from casework.checkpoints.records import CommitKind, OperationState, PackageStatus, operation_hash
from casework.checkpoints.reviews import Correction, Review, ReviewMark, ReviewVerdict
from casework.checkpoints.verify import verify
from casework.errors import CheckpointError, FormatError, IllegalTransition
from casework.strict_json import JSON, digest, sha256_hex
from tests.support.packages import CASE, START, Workshop

OP = operation_hash(1, "op")
ANSWER: JSON = {"answer": "yes"}

APPROVAL = Review(
    operation_id="op",
    analysis_revision=1,
    number=1,
    verdict=ReviewVerdict.APPROVED,
    actor="ada",
    decided_at=START,
    reason=None,
    corrects_sha256=digest(ANSWER),
    corrections=(),
    output=ANSWER,
    output_sha256=digest(ANSWER),
    validator=None,
)
CORRECTION = replace(
    APPROVAL,
    verdict=ReviewVerdict.CORRECTED,
    corrections=(Correction("/answer", "no"),),
    output={"answer": "no"},
    output_sha256=digest({"answer": "no"}),
)


def mark_of(review: Review, content: bytes) -> ReviewMark:
    """Return the mark that an operation bears for a review."""
    return ReviewMark(
        verdict=review.verdict,
        number=review.number,
        sha256=sha256_hex(content),
        size=len(content),
        output_sha256=review.output_sha256,
    )


def change_of(
    head: PackageHead,
    review: Review,
    *,
    edit: Callable[[OperationState], OperationState] = lambda state: state,
) -> Change:
    """Return the commit of a review, the operation edited."""
    content = review.encode()
    after = replace(head.operations[OP], review=mark_of(review, content))
    return Change(
        case_id=CASE,
        package_id=head.package_id,
        expected_generation=head.generation,
        kind=CommitKind.REVIEWED,
        at=START,
        operations={OP: edit(after)},
        files=((review_path(OP, review.number), content),),
    )


@pytest.fixture(name="workshop")
def workshop_with_answer(tmp_path: Path) -> Workshop:
    """Return a workshop with a case whose operation succeeded."""
    workshop = Workshop(tmp_path)
    workshop.run(workshop.create(), "op")
    return workshop


def test_a_review_comes_back_as_it_was() -> None:
    """Encoding and decoding lose nothing; bytes that are not canonical are refused."""
    content = CORRECTION.encode()
    assert CORRECTION == Review.decode(content, "review")
    with pytest.raises(FormatError):
        Review.decode(content + b"\n", "review")


def test_states_without_a_review_keep_their_bytes(workshop: Workshop) -> None:
    """The member is absent where there is none, so packages of before verify unchanged."""
    state = workshop.store.open(CASE).operations[OP]
    assert "review" not in state.to_json()
    assert state == OperationState.from_json(state.to_json(), "state")
    marked = replace(state, review=mark_of(APPROVAL, b""))
    assert marked == OperationState.from_json(marked.to_json(), "state")


@pytest.mark.parametrize(
    "review",
    [
        replace(APPROVAL, corrects_sha256="0" * 64),
        replace(APPROVAL, output={"answer": "no"}),
        replace(APPROVAL, output={"answer": "no"}, output_sha256=digest({"answer": "no"})),
        replace(APPROVAL, corrections=(Correction("/answer", "yes"),)),
        replace(APPROVAL, operation_id="another"),
        replace(APPROVAL, analysis_revision=2),
        replace(CORRECTION, corrections=()),
        replace(CORRECTION, corrections=(Correction("/answer", "maybe"),)),
        replace(CORRECTION, corrections=(Correction("/a/b/c", "no"),)),
        replace(CORRECTION, corrects_sha256=None),
    ],
)
def test_a_decision_that_does_not_follow_is_found(workshop: Workshop, review: Review) -> None:
    """The digests, the operation and the answer are those that the verdict makes of the outcome."""
    workshop.store.commit(change_of(workshop.store.open(CASE), review))
    report = verify(workshop.store.package_folder(CASE))
    assert ["review_mismatch"] == [finding.code for finding in report.errors]


@pytest.mark.parametrize(
    "change",
    [
        lambda head: change_of(head, replace(APPROVAL, number=2)),
        lambda head: change_of(head, replace(APPROVAL, output_sha256=None)),
        lambda head: change_of(head, APPROVAL, edit=lambda s: replace(s, review=None)),
        lambda head: change_of(head, APPROVAL, edit=lambda s: replace(s, phase="NEXT")),
        lambda head: change_of(head, APPROVAL, edit=lambda s: replace(s, rounds_completed=2)),
        lambda head: replace(change_of(head, APPROVAL), files=()),
        lambda head: replace(
            change_of(head, APPROVAL), files=(("reviews/note.json", APPROVAL.encode()),)
        ),
        lambda head: replace(change_of(head, APPROVAL), operations={}),
    ],
)
def test_an_impossible_review_is_refused(
    workshop: Workshop, change: Callable[[PackageHead], Change]
) -> None:
    """Numbering, file and mark are judged before anything is written."""
    head = workshop.store.open(CASE)
    with pytest.raises(IllegalTransition):
        workshop.store.commit(change(head))
    assert head == workshop.store.open(CASE)


def test_a_damaged_review_is_named_and_not_read(workshop: Workshop) -> None:
    """Its file is under the same digests as every other."""
    workshop.store.commit(change_of(workshop.store.open(CASE), APPROVAL))
    path = review_path(OP, 1)
    place = workshop.store.package_folder(CASE) / path
    place.write_bytes(place.read_bytes().replace(b"ada", b"eve"))
    report = verify(workshop.store.package_folder(CASE))
    assert [("file_damaged", path)] == [(f.code, f.path) for f in report.errors]
    with pytest.raises(CheckpointError):
        workshop.store.read_file(CASE, path)


def test_earlier_reviews_can_still_be_read(workshop: Workshop) -> None:
    """A later decision hides nothing."""
    workshop.store.commit(change_of(workshop.store.open(CASE), CORRECTION))
    second = replace(
        CORRECTION,
        number=2,
        corrects_sha256=CORRECTION.output_sha256,
        verdict=ReviewVerdict.REJECTED,
        corrections=(),
        reason="neither",
    )
    head = workshop.store.commit(change_of(workshop.store.open(CASE), second))
    assert verify(workshop.store.package_folder(CASE)).ok
    assert CORRECTION.encode() == workshop.store.read_file(CASE, review_path(OP, 1))
    assert second.encode() == workshop.store.read_file(CASE, review_path(OP, 2))
    assert PackageStatus.ERROR is head.status


def test_a_review_travels_with_its_package(workshop: Workshop, tmp_path: Path) -> None:
    """Sealed and received elsewhere, the decision stands there too."""
    workshop.store.commit(change_of(workshop.store.open(CASE), CORRECTION))
    workshop.store.export(CASE, tmp_path / "case.zip")
    assert () == verify(tmp_path / "case.zip").findings
    elsewhere = Workshop(tmp_path / "elsewhere")
    received = elsewhere.store.receive(tmp_path / "case.zip").head
    assert workshop.store.open(CASE).operations[OP] == received.operations[OP]
    outcome = outcome_path(OP, 1)
    assert workshop.store.read_file(CASE, outcome) == elsewhere.store.read_file(CASE, outcome)
    assert (elsewhere.store.package_folder(CASE)).is_relative_to(tmp_path / "elsewhere")
    assert case_folder(CASE) in str(elsewhere.store.package_folder(CASE))


def test_snapshots_carry_decisions(tmp_path: Path) -> None:
    """A cold reader that starts from a snapshot knows the decision and who waits no more."""
    workshop = Workshop(tmp_path, rounds_max=1)
    head = workshop.run(workshop.create(), "op", "temporary_failure")
    rejection = replace(
        APPROVAL,
        verdict=ReviewVerdict.REJECTED,
        corrects_sha256=None,
        output=None,
        output_sha256=None,
        reason="withdrawn",
    )
    head = workshop.store.commit(change_of(head, rejection))
    while head.generation < 66:
        head = workshop.run(head, f"op-{head.generation}")
    package = workshop.store.package_folder(CASE)
    assert (package / "snapshots/0000000064.json").exists()
    assert () == verify(package).findings
    cold = Workshop(tmp_path).store.open(CASE)
    assert head.operations[OP] == cold.operations[OP]
    assert (PackageStatus.ERROR, head.tally, None) == (cold.status, cold.tally, cold.routing.reason)
