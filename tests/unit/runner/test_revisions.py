"""A raised revision asks everything anew and keeps everything that was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from casework.checkpoints.records import OperationStatus, PackageStatus
from casework.checkpoints.verify import verify
from casework.errors import InvalidRequest, LockBusy, PackageNotFound
from casework.gateway.providers.scripted import Reply
from casework.runner.revisions import RevisionReason, raise_revision, revision_path
from casework.runtime.run.interruption import Interruption
from casework.runtime.views.export_rows import case_rows
from tests.support.pipeline_workspace import Desk
from tests.support.scripted_line import DOWN, GOOD, Line

WHY = RevisionReason("The rules are read otherwise.", "ada")


def raised(line: Line, why: RevisionReason = WHY, case_id: str = "case-1") -> None:
    """Raise the revision of a case."""
    raise_revision(line.store, case_id, why, now=line.clock.now)


async def test_everything_is_asked_anew_and_the_old_results_stay(tmp_path: Path) -> None:
    """The same id is another operation of the new revision; the oracle accepts both."""
    line = Line(tmp_path, {"p": [GOOD]})
    head = line.add()
    await line.run(head)
    before = line.files()
    raised(line)
    again = await line.run(line.store.open("case-1"))
    assert (2, 2) == (again.rounds_completed + 1, len(line.providers["p"].calls))
    assert before.items() <= line.files().items()
    line.assert_verifies()
    rows = list(case_rows(line.store, "case-1", every_campaign=True))
    assert [(1, "SUCCESS"), (2, "SUCCESS")] == [(r.analysis_revision, r.status) for r in rows]
    assert [2] == [row.analysis_revision for row in case_rows(line.store, "case-1")]


async def test_the_package_says_why_and_by_whom(tmp_path: Path) -> None:
    """In a file of its own, which the commit names."""
    line = Line(tmp_path, {"p": [GOOD]})
    line.add()
    raised(line)
    told = json.loads(line.store.read_file("case-1", revision_path(2)))
    assert (2, "ada", WHY.reason) == (told["analysis_revision"], told["actor"], told["reason"])
    newest = line.commits()[-1]
    assert ("revision_raised", "ada", 2) == (
        newest["kind"],
        newest["actor"],
        newest["analysis_revision"],
    )


async def test_nothing_of_the_old_revision_is_pending_any_more(tmp_path: Path) -> None:
    """What waited for its next round is history, for the package and for the index."""
    line = Line(tmp_path, {"p": [DOWN]})
    await line.run(line.add())
    assert PackageStatus.RETRY_PENDING is line.store.open("case-1").status
    raised(line)
    assert PackageStatus.ACTIVE is line.store.open("case-1").status
    assert ([], None) == (line.store.index.operations("case-1"), line.store.index.next_due_at())
    line.assert_verifies()


async def test_the_next_run_plans_everything_for_the_new_revision() -> None:
    """Of the revised case only."""
    desk = Desk([Reply('{"answer": "yes"}')])
    await desk.run().run(Interruption())
    raise_revision(desk.store, "b", WHY, now=desk.clock.now)
    run = desk.run()
    assert (2, 1) == (run.counts().success, run.counts().waiting)
    await run.run(Interruption())
    assert (3, 4) == (run.counts().success, len(desk.provider.calls))
    (row,) = desk.store.index.operations("b")
    assert (2, OperationStatus.SUCCESS) == (row.analysis_revision, row.status)


def test_a_sealed_copy_of_a_revised_case_verifies(tmp_path: Path) -> None:
    """Also twice revised."""
    line = Line(tmp_path, {"p": [GOOD]})
    line.add()
    raised(line)
    raised(line)
    sealed = tmp_path / "case.zip"
    line.store.export("case-1", sealed)
    assert verify(sealed).ok
    assert 3 == line.store.open("case-1").analysis_revision


def test_a_revision_needs_a_reason_a_case_and_its_lock(tmp_path: Path) -> None:
    """Otherwise nothing is written."""
    line = Line(tmp_path, {"p": [GOOD]})
    line.add()
    before = line.files()
    with pytest.raises(InvalidRequest):
        raised(line, RevisionReason(" ", "ada"))
    with pytest.raises(PackageNotFound):
        raised(line, case_id="other")
    with line.store.lock("case-1"), pytest.raises(LockBusy):
        raised(line)
    assert before == line.files()
