"""One operation's lifecycle as two pure functions: what may happen now, and what follows a round.

No clock is read here and nothing is written; the table of ``docs/architecture.md`` is this file.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Final, TypeAlias, assert_never

from casework.checkpoints.records import (
    LLM_UNAVAILABLE,
    FileEntry,
    OperationError,
    OperationState,
    OperationStatus,
    Routing,
)
from casework.gateway.outcomes import RoundErred, RoundOutcome, RoundSucceeded, RoundUnavailable

INBOX: Final = "inbox"


class ResultStatus(StrEnum):
    """What a call of ``run`` came to."""

    SUCCESS = "SUCCESS"
    """A validated answer is committed; it is never asked for again."""
    ERROR = "ERROR"
    """A controlled failure is committed; it is final under this operation id."""
    RETRY_PENDING = "RETRY_PENDING"
    """A round found every target unavailable; the next one is due later."""
    BLOCKED = "BLOCKED"
    """All rounds are used up; a person decides."""
    DEFERRED = "DEFERRED"
    """The next round is not due yet; nothing was called or written."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The round budget and delays, frozen into the operation at its first commit."""

    rounds_max: int
    retry_delay_seconds: float
    blocked_retry_seconds: float
    retry_after_max_seconds: float
    """Longest wait that a server's Retry-After may impose; 0 ignores it."""


@dataclass(frozen=True, slots=True)
class Replay:
    """The operation is finished or lives on under another id; return what is stored."""

    state: OperationState


@dataclass(frozen=True, slots=True)
class Defer:
    """The next round is not due before this time."""

    due_at: datetime


@dataclass(frozen=True, slots=True)
class RunRound:
    """Run this round now; rounds count from 1."""

    round: int


Decision: TypeAlias = Replay | Defer | RunRound


def decide(state: OperationState | None, now: datetime) -> Decision:
    """Say what may happen to an operation at this moment.

    A wall clock that stands before the last round has been set back; the stored due time means
    nothing on it, so the operation is due one delay from now at the latest.
    """
    if state is None:
        return RunRound(1)
    if state.resumed_as is not None:
        return Replay(state)
    match state.status:
        case OperationStatus.SUCCESS | OperationStatus.ERROR | OperationStatus.BLOCKED:
            return Replay(state)
        case OperationStatus.RETRY_PENDING:
            due_at = state.due_at
            if due_at is not None and state.last_round_at is not None and now < state.last_round_at:
                due_at = min(due_at, now + timedelta(seconds=state.retry_delay_seconds))
            if due_at is not None and now < due_at:
                return Defer(due_at)
            return RunRound(state.rounds_completed + 1)
        case _:
            assert_never(state.status)


def begin(
    *, operation_id: str, analysis_revision: int, phase: str, settings: Settings
) -> OperationState:
    """Return the state of an operation before its first round, never stored as such."""
    return OperationState(
        operation_id=operation_id,
        analysis_revision=analysis_revision,
        status=OperationStatus.RETRY_PENDING,
        phase=phase,
        request_fingerprint=None,
        config_fingerprint=None,
        rounds_completed=0,
        rounds_max=settings.rounds_max,
        retry_delay_seconds=settings.retry_delay_seconds,
        blocked_retry_seconds=settings.blocked_retry_seconds,
        due_at=None,
        last_round_at=None,
        artifacts=(),
        error=None,
        routing=Routing(),
        resumed_as=None,
        resumed_from=None,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundResult:
    """What the lifecycle needs to know of a finished round."""

    status: OperationStatus
    """SUCCESS, ERROR, or RETRY_PENDING for a round in which every target was unavailable."""
    error: OperationError | None = None
    retry_after_seconds: float | None = None

    @classmethod
    def of(cls, outcome: RoundOutcome) -> RoundResult:
        """Reduce a round's outcome to its effect on the operation."""
        match outcome:
            case RoundSucceeded():
                return cls(status=OperationStatus.SUCCESS)
            case RoundErred(final=final):
                error = OperationError(code=final.kind.value, http_status=final.http_status)
                return cls(status=OperationStatus.ERROR, error=error)
            case RoundUnavailable(retry_after_seconds=wait):
                return cls(status=OperationStatus.RETRY_PENDING, retry_after_seconds=wait)
            case _:
                assert_never(outcome)


def advance(
    state: OperationState,
    result: RoundResult,
    *,
    ended_at: datetime,
    artifacts: tuple[FileEntry, ...],
    settings: Settings,
) -> OperationState:
    """Return the state after one more finished round.

    ``Retry-After`` may lengthen the delay up to the configured cap, and never shortens it.
    """
    after = replace(
        state,
        rounds_completed=state.rounds_completed + 1,
        last_round_at=ended_at,
        artifacts=(*state.artifacts, *artifacts),
        due_at=None,
    )
    if result.status is not OperationStatus.RETRY_PENDING:
        return replace(after, status=result.status, error=result.error)
    if after.rounds_completed >= after.rounds_max:
        retry_at = ended_at + timedelta(seconds=after.blocked_retry_seconds)
        return replace(
            after,
            status=OperationStatus.BLOCKED,
            due_at=retry_at,
            error=OperationError(code=LLM_UNAVAILABLE, http_status=None),
            routing=Routing(
                reason=LLM_UNAVAILABLE, destination=INBOX, retry_at=retry_at, automatic_retry=False
            ),
        )
    asked = min(result.retry_after_seconds or 0.0, settings.retry_after_max_seconds)
    delay = max(after.retry_delay_seconds, asked)
    return replace(
        after,
        status=OperationStatus.RETRY_PENDING,
        due_at=ended_at + timedelta(seconds=delay),
    )
