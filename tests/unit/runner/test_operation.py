"""The lifecycle's two pure functions keep every promise of their table."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.checkpoints.records import OperationState, OperationStatus, Routing
from casework.runner.operation import (
    Defer,
    Replay,
    RoundResult,
    RunRound,
    Settings,
    advance,
    begin,
    decide,
)

START = datetime(2026, 1, 1, 10, 0, tzinfo=UTC)
SETTINGS = Settings(
    rounds_max=10,
    retry_delay_seconds=60.0,
    blocked_retry_seconds=3600.0,
    retry_after_max_seconds=3600.0,
)
UNAVAILABLE = RoundResult(status=OperationStatus.RETRY_PENDING)


def fresh(settings: Settings = SETTINGS) -> OperationState:
    """Return an operation before its first round."""
    return begin(operation_id="op", analysis_revision=1, phase="BUILDING_CASE", settings=settings)


def after_failure(
    state: OperationState, at: datetime, *, retry_after: float | None = None
) -> OperationState:
    """Return the state after one more round in which nobody answered."""
    result = RoundResult(status=OperationStatus.RETRY_PENDING, retry_after_seconds=retry_after)
    return advance(state, result, ended_at=at, artifacts=(), settings=SETTINGS)


def test_an_absent_operation_runs_its_first_round() -> None:
    """Nothing stored means round one, now."""
    assert RunRound(1) == decide(None, START)


@pytest.mark.parametrize(
    "status", [OperationStatus.SUCCESS, OperationStatus.ERROR, OperationStatus.BLOCKED]
)
def test_a_finished_operation_is_replayed_for_ever(status: OperationStatus) -> None:
    """No time that passes makes a finished operation run again."""
    state = replace(fresh(), status=status, due_at=START, rounds_completed=1)
    assert Replay(state) == decide(state, START + timedelta(days=3650))


def test_a_pending_operation_waits_for_its_due_time_and_not_longer() -> None:
    """At 59.9 s it is deferred, at 60 s it runs."""
    state = after_failure(fresh(), START)
    due = START + timedelta(seconds=60)
    assert Defer(due) == decide(state, due - timedelta(seconds=0.1))
    assert RunRound(2) == decide(state, due)


def test_a_clock_set_back_costs_at_most_one_delay() -> None:
    """On a clock that stands before the last round the operation is due one delay from now."""
    state = after_failure(fresh(), START)
    yesterday = START - timedelta(days=1)
    assert Defer(yesterday + timedelta(seconds=60)) == decide(state, yesterday)


def test_the_last_round_blocks_with_the_exact_routing() -> None:
    """After the tenth failed round a person decides, an hour later at the earliest."""
    state = fresh()
    for number in range(10):
        assert OperationStatus.RETRY_PENDING is state.status
        state = after_failure(state, START + timedelta(minutes=number))
    retry_at = START + timedelta(minutes=9, hours=1)
    assert OperationStatus.BLOCKED is state.status
    assert Routing("LLM_UNAVAILABLE", "inbox", retry_at, automatic_retry=False) == state.routing
    assert retry_at == state.due_at
    assert state.error is not None
    assert "LLM_UNAVAILABLE" == state.error.code


@pytest.mark.parametrize(
    ("asked", "delay"),
    [(None, 60), (0.0, 60), (5.0, 60), (61.0, 61), (3600.0, 3600), (1e9, 3600)],
)
def test_retry_after_lengthens_a_delay_up_to_its_cap(asked: float | None, delay: int) -> None:
    """A server may ask for more patience than configured, never for less."""
    state = after_failure(fresh(), START, retry_after=asked)
    assert START + timedelta(seconds=delay) == state.due_at


@given(
    rounds_max=st.integers(1, 12),
    script=st.lists(st.sampled_from(["down", "ok", "error"]), max_size=15),
    jumps=st.lists(st.integers(-100_000, 100_000), min_size=15, max_size=15),
)
def test_no_script_of_failures_and_clock_jumps_exceeds_the_budget(
    rounds_max: int, script: list[str], jumps: list[int]
) -> None:
    """Rounds never exceed the budget, count up by one, and nothing follows a final state."""
    settings = replace(SETTINGS, rounds_max=rounds_max)
    state: OperationState | None = None
    now, rounds, played = START, 0, set[str]()
    for step, jump in zip(script, jumps, strict=False):
        now += timedelta(seconds=jump)
        decision = decide(state, now)
        if not isinstance(decision, RunRound):
            continue
        assert decision.round == rounds + 1
        status = {
            "down": OperationStatus.RETRY_PENDING,
            "ok": OperationStatus.SUCCESS,
            "error": OperationStatus.ERROR,
        }[step]
        played.add(step)
        before = state or fresh(settings)
        state = advance(
            before, RoundResult(status=status), ended_at=now, artifacts=(), settings=settings
        )
        rounds += 1
        assert rounds == state.rounds_completed
    assert rounds <= rounds_max
    if rounds == rounds_max and played == {"down"} and state is not None:
        assert OperationStatus.BLOCKED is state.status


@given(st.integers(-10_000_000, 10_000_000))
def test_whatever_the_clock_says_a_pending_operation_is_due_within_one_delay(jump: int) -> None:
    """A deferred operation is due at most one delay after the moment of asking."""
    state = after_failure(fresh(), START)
    now = START + timedelta(seconds=jump)
    decision = decide(state, now)
    wait = decision.due_at - now if isinstance(decision, Defer) else timedelta(0)
    assert timedelta(0) <= wait <= timedelta(seconds=60)
