"""When operations are due by the monotonic clock, so that a set wall clock moves nothing."""

from __future__ import annotations

from collections import OrderedDict
from datetime import timedelta
from typing import Final, TypeAlias, assert_never

from casework.checkpoints.records import OperationState, OperationStatus
from casework.gateway.clock import Clock
from casework.runner.operation import Decision, Defer, Replay, RunRound, decide

DUE_MEMORY_MAX: Final = 65_536
"""Most operations whose due time is also remembered on the monotonic clock."""

CLOCK_TOLERANCE_SECONDS: Final = 1.0
"""How far wall clock and monotonic clock may disagree before the wall clock is doubted."""

Key: TypeAlias = tuple[str, str]
"""Case id and ophash."""


class DueMemory:
    """Decides about operations by the wall clock, unless this process knows that it was set.

    Args:
        clock: Both clocks.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._due: OrderedDict[Key, float] = OrderedDict()

    def decide(self, key: Key, state: OperationState | None) -> Decision:
        """Say what may happen to an operation now."""
        now, elapsed = self._clock.now(), self._clock.monotonic()
        decision = decide(state, now)
        known = self._due.get(key)
        match decision:
            case Replay():
                self._due.pop(key, None)
            case Defer(due_at):
                if known is None:
                    self._remember(key, elapsed + (due_at - now).total_seconds())
                elif known <= elapsed and state is not None:
                    return RunRound(state.rounds_completed + 1)
            case RunRound():
                if known is not None and known - elapsed > CLOCK_TOLERANCE_SECONDS:
                    return Defer(now + timedelta(seconds=known - elapsed))
            case _:
                assert_never(decision)
        return decision

    def take(self, key: Key, after: OperationState) -> None:
        """Take note of the state that a round left."""
        if after.status is OperationStatus.RETRY_PENDING and after.due_at is not None:
            wait = (after.due_at - self._clock.now()).total_seconds()
            self._remember(key, self._clock.monotonic() + wait)
        else:
            self._due.pop(key, None)

    def _remember(self, key: Key, due: float) -> None:
        self._due[key] = due
        if len(self._due) > DUE_MEMORY_MAX:
            self._due.popitem(last=False)
