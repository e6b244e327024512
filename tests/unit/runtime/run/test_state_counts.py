"""Every operation is in exactly one state, and the states add up to what was imported."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from casework.checkpoints.call_names import CALLS_PHASE
from casework.checkpoints.index_pages import every_case, pipeline_cases
from casework.checkpoints.index_rows import IndexCounts, Planned
from casework.checkpoints.memory_storage import MemoryStorage
from casework.checkpoints.records import OperationStatus, PackageStatus
from casework.errors import StorageError
from casework.runtime.cli.run_display import LiveScreen, PlainLines
from casework.runtime.line.limit_windows import Closed, LimitKind
from casework.runtime.run.session_record import ProviderRecord, SessionRecord, UsageRecord
from casework.runtime.run.state_counts import StateCounts, of_index
from casework.runtime.views.line_standing import LimitStanding, LineStanding
from casework.runtime.views.status_breakdown import Cut, breakdown
from casework.runtime.views.status_view import StatusView, status_lines, with_running
from tests.support.packages import CASE, Workshop

START = datetime(2026, 1, 1, 10, 0, tzinfo=UTC)


def counted(operations: dict[OperationStatus, int], *, cases: int, planned: int) -> IndexCounts:
    ready = {Planned.READY: planned} if planned else {}
    return IndexCounts(cases, {PackageStatus.ACTIVE: cases}, operations, ready)


def test_what_was_never_planned_waits_too() -> None:
    """After an index was lost, unplanned operations of the pipeline still count."""
    counts = of_index(counted({OperationStatus.SUCCESS: 3}, cases=5, planned=0), 2)
    assert (10, 3, 7, True) == (counts.total, counts.success, counts.waiting, counts.reconciles)


def test_running_work_is_counted_once() -> None:
    """What is being worked on leaves the state that the index still gives it."""
    index = counted({OperationStatus.RETRY_PENDING: 2}, cases=4, planned=2)
    counts = of_index(index, 1, running=[None, OperationStatus.RETRY_PENDING])
    assert (2, 1, 1, True) == (counts.running, counts.retry, counts.waiting, counts.reconciles)


def test_more_running_than_unfinished_is_cut() -> None:
    """Counts taken at slightly different moments never go below zero."""
    counts = StateCounts(cases=2, total=2, success=1, error=0, blocked=0, retry=0, waiting=1)
    assert (1, 0) == (with_running(counts, 5).running, with_running(counts, 5).waiting)


def view(*, alive: bool = True, success: int = 3112) -> StatusView:
    counts = StateCounts(
        cases=5000,
        total=5000,
        success=success,
        error=41,
        blocked=17,
        retry=22,
        waiting=5000 - success - 84,
        running=4,
    )
    session = SessionRecord(
        id="s",
        pipeline="extract",
        started_at=START,
        updated_at=START,
        reused=2480,
        completions=632,
        rounds=700,
        running=4,
        rate_per_minute=18.4,
        eta_seconds=5880.0,
        usage=UsageRecord(),
        providers={
            "local-a": ProviderRecord(
                model="m", calls=700, failures=3, last_code=None, median_ms=3200.0
            )
        },
        reasons={},
    )
    return StatusView(
        project="claims",
        profile="local_only",
        travel="no document may leave this machine",
        pipeline="extract",
        counts=counts,
        usage=UsageRecord(calls=700, calls_without_price=700, calls_without_tokens=700),
        reasons={"schema_violation": 23, "truncated": 11},
        next_due_at=START,
        session=session,
        session_alive=alive,
        passed_over=(("cloud-c", "privacy_profile"),),
    )


def test_the_screen_fits_and_says_everything() -> None:
    """Seven lines: project, counts, pace, providers, money, reasons."""
    lines = list(status_lines(view()))
    text = "\n".join(lines)
    assert 12 > len(lines)
    assert "profile local_only  (no document may leave this machine)" in lines[0]
    assert "done 3,112 (62%)  error 41  inbox 17  retry 22 (next 2026-01-01" in lines[1]
    assert "18.4/min (5 min)  ETA 1 h 38 min" in text
    assert "reused 2,480 results" in text
    assert "local-a (m)  up  700 calls  p50 3.2 s  err 0.4%" in text
    assert "cloud-c  not eligible: privacy_profile" in text
    assert "cost unknown" in text
    assert "top reasons  schema_violation 23   truncated 11" in text


def test_a_run_that_died_is_not_shown_as_running() -> None:
    """Without a sign of life there is neither rate nor estimate."""
    text = "\n".join(status_lines(view(alive=False)))
    assert "no run at work  the last run died" in text
    assert "ETA" not in text


def test_plain_lines_come_now_and_then() -> None:
    """A line is written at once, after one per cent, or after ten seconds; not in between."""
    lines: list[str] = []
    now = [0.0]
    plain = PlainLines(lines.append, lambda: now[0])
    for moment, success in ((0, 3112), (1, 3112), (2, 3120), (3, 3170), (14, 3171), (99, 3171)):
        now[0] = float(moment)
        plain.show(view(success=success))
    assert ["63%", "64%", "64%"] == [line.split()[0] for line in lines]


def test_a_run_that_waits_for_a_limit_says_so() -> None:
    """Where nothing runs because a limit is reached; while others answer, it is no news."""
    lines: list[str] = []
    closed = Closed(LimitKind.DAY, START)
    limit = LimitStanding(provider="free", closed=closed, today=9, per_day=9, resets_at=START)
    for running in (0, 2):
        shown = replace(view(), counts=replace(view().counts, running=running))
        shown = replace(shown, line=LineStanding(limits=(limit,)))
        PlainLines(lines.append, lambda: 0.0).show(shown)
    told = ["limit  free is at requests_per_day until" in line for line in lines]
    assert [True, False] == told


def test_the_live_screen_lets_no_control_character_through() -> None:
    """A project whose folder is named strangely cannot move the cursor."""
    drawn: list[str] = []
    strange = view()
    LiveScreen(drawn.append).show(
        StatusView(
            project="\x1b[2J",
            profile=None,
            travel=strange.travel,
            pipeline=None,
            counts=strange.counts,
            usage=strange.usage,
            reasons={},
        )
    )
    assert "\x1b" not in drawn[0]


def test_counts_can_be_cut_three_ways() -> None:
    """By operation, by reason and by provider the same operations are counted."""
    workshop = Workshop(MemoryStorage())
    head = workshop.run(workshop.create(), "good")
    workshop.run(head, "bad", "error")
    cuts = {cut: breakdown(workshop.store, cut) for cut in Cut}
    assert {"good", "bad"} == set(cuts[Cut.OP])
    assert 1 == sum(row.total() for row in cuts[Cut.REASON].values())
    assert 2 == sum(row.total() for row in cuts[Cut.PROVIDER].values())


def test_without_an_index_the_packages_tell_the_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the index cannot be written, what only looks still finds every case."""
    workshop = Workshop(MemoryStorage())
    workshop.create()
    workshop.store.create("call:alice:k-1", {}, phase=CALLS_PHASE)
    assert [CASE] == list(pipeline_cases(workshop.store))

    def refused(**_options: object) -> None:
        raise StorageError("read-only")

    monkeypatch.setattr(workshop.store.index, "packages", refused)
    assert {CASE, "call:alice:k-1"} == set(every_case(workshop.store))
    assert [CASE] == list(pipeline_cases(workshop.store))
