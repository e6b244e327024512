"""Watching for outages together with the other processes of a project."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from casework.errors import StorageError
from casework.gateway.clock import Clock, steady_time
from casework.gateway.errors import FailureKind
from casework.runner.calls import calls_of
from casework.runner.operation import ResultStatus
from casework.runner.operation_result import OperationResult
from casework.runtime.line.line_state import LineState
from casework.runtime.line.outage import LinePhase, OutageRule, OutageWatch
from casework.runtime.line.work import WorkKey

_LOG = logging.getLogger(__name__)

POLL_SECONDS: Final = 1.0
"""How long what other processes say is believed."""

WAIT_SECONDS_MAX: Final = 5.0
"""How long a paused line waits before it asks again whether another process saw an answer."""

NOBODY_THERE: Final = frozenset(
    {
        FailureKind.TLS_ERROR.value,
        FailureKind.UNKNOWN.value,
        FailureKind.REQUEST_TOO_LARGE.value,
        FailureKind.LIMIT_REACHED.value,
    }
)
"""Errors that end a round and tell nothing of whether anybody answers."""


class OutageKeeper:
    """Keeps one process's watch in step with what all processes see.

    Args:
        rule: When a line waits.
        state: Where processes tell each other.
        clock: The time.
        chance: Returns a random number from 0 to 1.
        concurrency: Rounds at once.
    """

    def __init__(
        self,
        rule: OutageRule,
        *,
        state: LineState,
        clock: Clock,
        chance: Callable[[], float],
        concurrency: int,
    ) -> None:
        self.watch = OutageWatch(rule, concurrency=concurrency)
        self._state = state
        self._clock = clock
        self._chance = chance
        self._polled_at: float | None = None

    def start(self) -> None:
        """Let a canary go at once: whoever starts a process may have mended what was broken."""
        self._tell(lambda: self._state.hurry_canary(steady_time(self._clock)))

    def room(self, running: int) -> int:
        """Return how many more rounds may be begun, as far as outages are concerned."""
        self._poll()
        return self.watch.room(running, self._clock.monotonic())

    def seconds_until_room(self) -> float:
        """Return when to ask for room again."""
        seconds = self.watch.seconds_until_room(self._clock.monotonic())
        return WAIT_SECONDS_MAX if seconds is None else min(seconds, WAIT_SECONDS_MAX)

    def begin(self, operation: WorkKey, *, most_seconds: float) -> bool:
        """Take note that a round is about to begin; False if it must wait.

        Args:
            operation: Of which operation.
            most_seconds: How long the round can take, for a canary that nobody else may double.
        """
        self._poll()
        if not self.watch.begin(operation, self._clock.monotonic()):
            return False
        if self.watch.phase is not LinePhase.PAUSED or self._claim(most_seconds):
            return True
        self.watch.let_go(operation)
        self._polled_at = None
        self._poll()
        return False

    def let_go(self, operation: WorkKey) -> None:
        """Take note of a round that told nothing about any provider."""
        if self.watch.canary == operation:
            self._tell(self._state.release_canary)
        self.watch.let_go(operation)

    def ended(self, operation: WorkKey, result: OperationResult | None) -> None:
        """Take note of how a round ended."""
        answered = somebody_answered(result)
        if answered is None:
            self.let_go(operation)
            return
        now, chance = self._clock.monotonic(), self._chance()
        was_paused, canary = self.watch.phase is LinePhase.PAUSED, self.watch.canary
        if answered:
            self.watch.answered(operation, now=now, chance=chance)
            if was_paused:
                _LOG.warning("somebody answers again", extra={"action": "outage_ended"})
                self._tell(self._state.end_outage)
            return
        self.watch.unavailable(operation, now=now, chance=chance)
        if self.watch.phase is LinePhase.PAUSED and (not was_paused or canary == operation):
            if not was_paused:
                _LOG.warning("nobody answers: the line waits", extra={"action": "outage_declared"})
            self._tell(self._declare)

    def _declare(self) -> None:
        wait = self.watch.next_canary_at - self._clock.monotonic()
        self._state.declare_outage(
            now=self._clock.now(),
            next_canary_at=steady_time(self._clock) + timedelta(seconds=wait),
        )

    def _claim(self, most_seconds: float) -> bool:
        """Claim the canary among all processes; alone where they cannot be asked."""
        now = steady_time(self._clock)
        try:
            return self._state.claim_canary(now=now, until=now + timedelta(seconds=most_seconds))
        except StorageError:
            return True

    def _poll(self) -> None:
        """Take over what other processes have seen meanwhile."""
        now = self._clock.monotonic()
        if self._polled_at is not None and now - self._polled_at < POLL_SECONDS:
            return
        self._polled_at = now
        try:
            shared = self._state.outage()
        except StorageError:
            return
        paused = self.watch.phase is LinePhase.PAUSED
        if shared is None:
            if paused and self.watch.canary is None:
                self.watch.resume(now=now, chance=self._chance())
            return
        steady = steady_time(self._clock)
        wait = (shared.next_canary_at - steady).total_seconds()
        if shared.canary_until > steady:
            wait = max(wait, POLL_SECONDS)  # somebody's canary is out; what it finds is told soon
        self.watch.pause(now=now, chance=self._chance(), next_canary_at=now + wait)

    def _tell(self, what: Callable[[], None]) -> None:
        """Tell the other processes; where that fails, this one goes by what it sees itself."""
        try:
            what()
        except StorageError as error:
            _LOG.warning("an outage is not shared", extra={"action": error.code})


def somebody_answered(result: OperationResult | None) -> bool | None:
    """Tell whether a round shows that somebody answers, that nobody does, or neither (None)."""
    if result is None or result.outcome is None or result.reused or result.adopted:
        return None
    match result.status:
        case ResultStatus.SUCCESS:
            return True
        case ResultStatus.RETRY_PENDING | ResultStatus.BLOCKED:
            return False
        case ResultStatus.ERROR:
            calls = list(calls_of(result.outcome.body))
            asked = calls and calls[-1].sent is not False and calls[-1].code not in NOBODY_THERE
            return True if asked else None
        case ResultStatus.DEFERRED:
            return None
