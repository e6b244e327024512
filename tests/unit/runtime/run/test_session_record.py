"""What all runs used adds up, also over runs that died."""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from casework.checkpoints.store import CheckpointStore
from casework.runtime.run.session_record import SessionRecord, SessionRecords, UsageRecord, recount
from tests.support.packages import Workshop

START = datetime(2026, 1, 1, 10, 0, tzinfo=UTC)


def record(name: str, calls: int, *, ended: bool) -> SessionRecord:
    usage = UsageRecord(calls=calls, calls_without_tokens=calls, cost={"EUR": Decimal("0.10")})
    return SessionRecord(
        id=name,
        pipeline="review",
        started_at=START,
        updated_at=START,
        ended_at=START if ended else None,
        reused=0,
        completions=calls,
        rounds=calls,
        running=0,
        rate_per_minute=None,
        eta_seconds=None,
        usage=usage,
        providers={},
        reasons={},
    )


@pytest.fixture
def records(tmp_path: Path) -> SessionRecords:
    return SessionRecords(CheckpointStore(tmp_path))


def test_sessions_add_up(records: SessionRecords) -> None:
    """Calls and money of every session are in the total."""
    records.write(record("s1", 2, ended=True))
    records.write(record("s2", 3, ended=True))
    total, exact = records.totals()
    assert (5, Decimal("0.20"), True) == (total.calls, total.cost["EUR"], exact)
    assert 2 == records.sessions()


def test_ended_sessions_are_folded_while_another_is_at_work(records: SessionRecords) -> None:
    """A worker that stays for days does not let the records of short runs pile up."""
    records.write(record("s1", 2, ended=True))
    records.write(record("s2", 3, ended=False))
    with records.alive("s2"):
        records.settle()
        assert ["s2"] == [kept.id for kept in records.list()]
        assert (5, 2) == (records.totals()[0].calls, records.sessions())


def test_settling_keeps_the_total_and_drops_the_records(records: SessionRecords) -> None:
    """Ended sessions are folded into one sum, as often as one likes."""
    records.write(record("s1", 2, ended=True))
    records.write(record("s2", 3, ended=True))
    records.settle()
    records.settle()
    assert ((), 5, 2) == (records.list(), records.totals()[0].calls, records.sessions())


def test_two_runs_that_settle_at_once_count_no_session_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run that waited while another one folded the records folds only what is left."""
    store, other = CheckpointStore(tmp_path), CheckpointStore(tmp_path)
    records = SessionRecords(store)
    records.write(record("s1", 2, ended=True))
    take = store.lock

    def too_late(name: str) -> AbstractContextManager[None]:
        SessionRecords(other).settle()
        return take(name)

    monkeypatch.setattr(store, "lock", too_late)
    records.settle()
    assert (2, 1) == (records.totals()[0].calls, records.sessions())


def test_a_run_that_died_makes_the_total_inexact_until_it_is_counted_anew(
    records: SessionRecords, tmp_path: Path
) -> None:
    """After a death the packages are counted, since the record may lack its last seconds."""
    workshop = Workshop(tmp_path)
    workshop.run(workshop.create(), "op", "temporary_failure")
    records.write(record("dead", 0, ended=False))
    assert not records.totals()[1]
    records.settle()
    total, exact = records.totals()
    assert (recount(workshop.store).calls, True) == (total.calls, exact)


def test_a_live_run_is_left_alone(records: SessionRecords) -> None:
    """While a run is at work its record stays, and the total counts as exact."""
    live = record("live", 4, ended=False)
    records.write(live)
    with records.alive("live"):
        assert records.is_alive(live)
        records.settle()
        assert (1, (4, True)) == (
            len(records.list()),
            (records.totals()[0].calls, records.totals()[1]),
        )
    assert not records.is_alive(live)


def test_a_torn_record_is_passed_over(records: SessionRecords, tmp_path: Path) -> None:
    """A record that is no JSON is ignored, the others count."""
    records.write(record("s1", 2, ended=True))
    (tmp_path / "sessions" / "s0.json").write_text('{"id": "s0", "pip')
    assert 2 == records.totals()[0].calls
