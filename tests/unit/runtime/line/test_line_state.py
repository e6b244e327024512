"""The state that processes share: counted together, kept, and thrown away when it is damaged."""

from __future__ import annotations

import os
import sqlite3
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from threading import Event, Thread

import pytest

from casework.config.limits import ProviderLimits
from casework.errors import StorageError
from casework.runtime.line.limit_windows import WINDOW, LimitKind
from casework.runtime.line.line_state import FILE_NAME, LineState, SetAside, Spending

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
BOOT = "this boot"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return where the state lies."""
    return tmp_path / "runtime" / FILE_NAME


@pytest.fixture
def pair(path: Path) -> Iterator[tuple[LineState, LineState]]:
    """Return two connections to one state, as two processes have them."""
    states = LineState(path, boot=BOOT), LineState(path, boot=BOOT)
    yield states
    for state in states:
        state.close()


def test_calls_of_all_processes_count_together(pair: tuple[LineState, LineState]) -> None:
    """What one process calls leaves less to the other, and a closed limit says until when."""
    limits = ProviderLimits(requests_per_minute=3)
    for number in range(3):
        assert pair[number % 2].count_call("a", limits, now=NOON + number * SECOND) is None
    for state in pair:
        closed = state.count_call("a", limits, now=NOON + 5 * SECOND)
        assert closed is not None
        assert (LimitKind.MINUTE, NOON + WINDOW) == (closed.kind, closed.opens_at)
        assert closed == state.closed("a", limits, now=NOON + 5 * SECOND)
    assert pair[0].closed("b", limits, now=NOON) is None
    assert pair[1].count_call("a", limits, now=NOON + WINDOW) is None


def test_a_file_that_goes_while_it_is_opened_is_opened_anew(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No call is counted in a file that has no name any more."""
    limits = ProviderLimits(requests_per_minute=1)
    connect, opened = LineState._connect, []

    def connect_and_lose(state: LineState) -> sqlite3.Connection:
        connection = connect(state)
        opened.append(path.exists())
        if len(opened) == 1:
            path.unlink()
        return connection

    monkeypatch.setattr(LineState, "_connect", connect_and_lose)
    assert LineState(path).count_call("a", limits, now=NOON) is None
    assert LineState(path).count_call("a", limits, now=NOON) is not None


def test_counts_survive_the_process(path: Path) -> None:
    """A day's calls are still known after the file is opened again."""
    limits = ProviderLimits(requests_per_day=2)
    for _ in range(2):
        state = LineState(path, boot=BOOT)
        assert state.count_call("a", limits, now=NOON) is None
        state.close()
    state = LineState(path, boot=BOOT)
    closed = state.count_call("a", limits, now=NOON + 7200 * SECOND)
    assert closed is not None
    assert NOON.replace(hour=0) + timedelta(days=1) == closed.opens_at
    assert state.count_call("a", limits, now=closed.opens_at) is None
    assert 1 == state.calls_today("a", limits, now=closed.opens_at)
    state.close()


def test_a_clock_that_is_set_changes_nothing_about_a_minute(path: Path) -> None:
    """What was called a moment ago counts, and opens when its minute has really passed."""
    limits = ProviderLimits(requests_per_minute=1)
    state = LineState(path, boot=BOOT)
    assert state.count_call("a", limits, now=NOON, steady=NOON) is None
    for step in (timedelta(hours=-1), timedelta(days=365)):
        now, steady = NOON + step, NOON + SECOND
        closed = state.count_call("a", limits, now=now, steady=steady)
        assert closed is not None
        assert now + WINDOW - SECOND == closed.opens_at
        assert state.closed("a", limits, now=now, steady=steady + WINDOW) is None
    state.close()


def test_a_clock_set_back_a_day_closes_nothing_for_a_day(path: Path) -> None:
    """Calls that lie far in the future are the work of a wrong clock, and do not count."""
    limits = ProviderLimits(requests_per_minute=1)
    state = LineState(path, boot=BOOT)
    state.count_call("a", limits, now=NOON + timedelta(days=1))
    assert state.count_call("a", limits, now=NOON) is None
    state.close()


@pytest.mark.parametrize("content", [b"", b"no database at all" * 100, b"SQLite format 3\0" * 300])
def test_a_damaged_file_is_thrown_away_and_said(
    path: Path, content: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever stands there, counting goes on; a file that was none is reported."""
    path.parent.mkdir()
    path.write_bytes(content)
    state = LineState(path, boot=BOOT)
    assert state.count_call("a", ProviderLimits(requests_per_day=1), now=NOON) is None
    assert frozenset() == state.counted()
    said = [getattr(record, "action", None) for record in caplog.records]
    assert said == (["line_state_thrown_away"] if content else [])
    state.close()


def test_after_a_restart_of_the_machine_nothing_is_believed(path: Path) -> None:
    """The file is not synced, so another boot begins it anew."""
    before = LineState(path, boot="earlier boot")
    before.set_counted(["", "a"])
    before.close()
    after = LineState(path, boot=BOOT)
    assert frozenset() == after.counted()
    after.close()


def test_a_deleted_file_is_begun_anew(pair: tuple[LineState, LineState], path: Path) -> None:
    """A connection to a file that is gone is not used any more."""
    pair[0].set_counted(["a"])
    path.unlink()
    assert frozenset() == pair[0].counted()
    pair[0].set_counted(["b"])
    assert frozenset({"b"}) == pair[1].counted()


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    """Where no file can be, the error says what is affected."""
    (tmp_path / FILE_NAME).mkdir()
    with pytest.raises(StorageError) as caught:
        LineState(tmp_path / FILE_NAME, boot=BOOT).counted()
    assert "line_state_unavailable" == caught.value.code


def test_a_round_is_paid_for_once(pair: tuple[LineState, LineState]) -> None:
    """The same round noted twice, by whomever, is one entry."""
    entry = Spending(b"round 1", NOON, Decimal("0.10"))
    for state in pair:
        state.in_ledger(lambda ledger: ledger.spend([entry]))
    first, second = (state.in_ledger(lambda ledger: ledger.spent_after(0)) for state in pair)
    assert [(1, entry)] == first == second
    assert [] == pair[0].in_ledger(lambda ledger: ledger.spent_after(1))


def test_money_is_set_aside_and_released(pair: tuple[LineState, LineState]) -> None:
    """Everybody sees what is set aside; an owner's can be given back by anybody."""
    one, two = SetAside("x", "c", "o", Decimal("0.5")), SetAside("y", "c", "p", Decimal("0.25"))
    pair[0].in_ledger(lambda ledger: ledger.put_aside(one))
    pair[1].in_ledger(lambda ledger: ledger.put_aside(two))
    assert [one, two] == pair[1].in_ledger(lambda ledger: ledger.set_aside())
    pair[1].in_ledger(lambda ledger: ledger.release("x"))
    assert [two] == pair[0].in_ledger(lambda ledger: ledger.set_aside())
    pair[0].in_ledger(lambda ledger: ledger.release("y", "c", "o"))
    assert [two] == pair[0].in_ledger(lambda ledger: ledger.set_aside())


def test_a_transaction_that_fails_leaves_nothing(path: Path) -> None:
    """An error inside takes everything back."""
    state = LineState(path, boot=BOOT)

    def broken() -> None:
        raise ValueError("on the way")

    def work(ledger: object) -> None:
        ledger.put_aside(SetAside("x", "c", "o", Decimal(1)))  # type: ignore[attr-defined]
        broken()

    with pytest.raises(ValueError, match="on the way"):
        state.in_ledger(work)
    assert [] == state.in_ledger(lambda ledger: ledger.set_aside())
    state.close()


def test_a_recount_lowers_nothing(path: Path) -> None:
    """What is counted already may know more than the packages."""
    limits = ProviderLimits(requests_per_day=100)
    state = LineState(path, boot=BOOT)
    for _ in range(3):
        state.count_call("a", limits, now=NOON)
    spent = Spending(b"1", NOON, Decimal(1))
    state.recount([("a", NOON), ("b", NOON), ("b", NOON)], [spent, spent])
    assert (3, 2) == (
        state.calls_today("a", limits, now=NOON),
        state.calls_today("b", limits, now=NOON),
    )
    assert [(1, spent)] == state.in_ledger(lambda ledger: ledger.spent_after(0))
    state.close()


def test_one_process_gets_the_canary(pair: tuple[LineState, LineState]) -> None:
    """Of all who want to try, one may, until its time is over or it gives the canary back."""
    assert pair[0].outage() is None
    pair[0].declare_outage(now=NOON, next_canary_at=NOON + 15 * SECOND)
    until = NOON + 60 * SECOND
    assert not pair[1].claim_canary(now=NOON + 14 * SECOND, until=until)
    assert pair[1].claim_canary(now=NOON + 15 * SECOND, until=until)
    assert not pair[0].claim_canary(now=NOON + 16 * SECOND, until=until)
    pair[1].release_canary()
    assert pair[0].claim_canary(now=NOON + 16 * SECOND, until=until)
    assert pair[1].claim_canary(now=until, until=until + 60 * SECOND)
    pair[1].declare_outage(now=until, next_canary_at=until + 30 * SECOND)
    shared = pair[0].outage()
    assert shared is not None
    assert (NOON, until + 30 * SECOND) == (shared.since, shared.next_canary_at)
    pair[0].end_outage()
    assert pair[1].outage() is None


def test_a_child_forked_while_a_thread_is_at_it_does_not_wait_for_ever(tmp_path: Path) -> None:
    """The child has a guard and a connection of its own, whoever held the parent's."""
    state = LineState(tmp_path / FILE_NAME)
    state.set_counted({"a"})
    holding, over = Event(), Event()

    def hold() -> None:
        with state._guard:
            holding.set()
            over.wait(30)

    thread = Thread(target=hold)
    thread.start()
    holding.wait(30)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons warn of just this
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if state.outage() is None else 2
        finally:
            os._exit(code)
    over.set()
    _, status = os.waitpid(pid, 0)
    thread.join()
    assert 0 == os.waitstatus_to_exitcode(status)
    assert frozenset({"a"}) == state.counted()
