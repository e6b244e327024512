"""When the whole line waits, because nobody answers anybody.

The rule. A round that ends with every target unavailable is evidence of an outage, an answer of any
kind is evidence of none. Once ``failed_rounds`` rounds of at least ``cases`` different cases have
failed since the last answer, the line pauses: single rounds, the canaries, are let through at
growing intervals, and the first answer lets the line go on, one round first, then two, four, ...

A poisoned case is no outage. An operation that failed before an answer came, and fails again, is
suspect: its failures no longer count, until it is answered itself. So a tail of cases at which a
server breaks every time is asked at the usual pace, until each of them is blocked. What failed in
the run-up of an outage is forgiven and leaves no suspicion.

What the rule cannot tell. Where the only cases left break the server at their very first rounds,
one after another without an answer in between, that looks like an outage, and they wait as canaries
do. With fewer cases than ``cases`` nothing ever pauses. A provider that fails half of all calls is
no outage, since answers keep coming.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from casework.runtime.line.work import WorkKey

MARKS_MAX: Final = 65_536
"""Most operations whose earlier failure is remembered; the oldest is forgotten first."""


class LinePhase(StrEnum):
    """How the line stands."""

    OPEN = "open"
    PAUSED = "paused"
    """Nobody answers; only canaries are let through."""
    RECOVERING = "recovering"
    """Somebody answers again; the room grows step by step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutageRule:
    """The numbers of the rule."""

    failed_rounds: int = 3
    cases: int = 3
    canary_seconds: float = 15.0
    """Wait before the first canary; doubled after each that fails."""
    canary_seconds_max: float = 600.0
    jitter: float = 0.2
    """By how much of itself a wait may be longer, so that many lines do not ask at once."""
    step_seconds: float = 1.0
    """The usual time between two steps of the recovery."""


class OutageWatch:
    """Tell from how rounds end whether the line is to wait.

    Times are monotonic seconds, ``chance`` is a number from 0 to 1; both are handed in.

    Args:
        rule: The numbers.
        concurrency: Rounds at once; the recovery is over when its room reaches it.
    """

    def __init__(self, rule: OutageRule, *, concurrency: int) -> None:
        self.rule = rule
        self.phase = LinePhase.OPEN
        self.next_canary_at = 0.0
        """When the next canary may go, while paused."""
        self._concurrency = concurrency
        self._run_up: OrderedDict[WorkKey, int] = OrderedDict()
        self._marked: OrderedDict[WorkKey, None] = OrderedDict()
        self._canary: WorkKey | None = None
        self._interval = rule.canary_seconds
        self._allowed = concurrency
        self._answers = 0
        self._grows_at = 0.0

    @property
    def canary(self) -> WorkKey | None:
        """Return the canary that is out now."""
        return self._canary

    def room(self, running: int, now: float) -> int:
        """Return how many more rounds may be begun now, as far as outages are concerned."""
        match self.phase:
            case LinePhase.OPEN:
                return max(self._concurrency - running, 0)
            case LinePhase.PAUSED:
                return int(self._canary is None and now >= self.next_canary_at)
            case LinePhase.RECOVERING:
                self._grow(now)
                return max(self._allowed - running, 0)

    def seconds_until_room(self, now: float) -> float | None:
        """Return when time alone gives room; None if only the end of a round does."""
        if self.phase is LinePhase.PAUSED and self._canary is None:
            return max(self.next_canary_at - now, 0.0)
        if self.phase is LinePhase.RECOVERING and self._answers >= self._allowed:
            return max(self._grows_at - now, 0.0)
        return None

    def begin(self, operation: WorkKey, now: float) -> bool:
        """Take note that a round is about to begin; False if it must wait.

        While the line is paused, the round that may begin is the canary.
        """
        if self.phase is not LinePhase.PAUSED:
            return True
        if self._canary is not None or now < self.next_canary_at:
            return False
        self._canary = operation
        return True

    def let_go(self, operation: WorkKey) -> None:
        """Take note of a round that ended without telling anything about any provider."""
        if self._canary == operation:
            self._canary = None

    def answered(self, operation: WorkKey, *, now: float, chance: float) -> None:
        """Take note that a provider gave an answer, whether it could be used or not."""
        for failed in self._run_up:
            self._mark(failed)
        self._run_up.clear()
        self._marked.pop(operation, None)
        self.let_go(operation)
        if self.phase is LinePhase.PAUSED:
            self.resume(now=now, chance=chance)
        elif self.phase is LinePhase.RECOVERING:
            self._answers += 1
            if self._answers == self._allowed:
                self._grows_at = now + self.rule.step_seconds * (0.5 + chance)

    def unavailable(self, operation: WorkKey, *, now: float, chance: float) -> None:
        """Take note that every target of a round was unavailable."""
        was_canary = self._canary == operation
        self.let_go(operation)
        if self.phase is LinePhase.PAUSED:
            if was_canary:
                self._interval = min(self._interval * 2, self.rule.canary_seconds_max)
                self.next_canary_at = now + self._jittered(chance)
            return
        if self.phase is LinePhase.RECOVERING:
            self._allowed = max(self._allowed // 2, 1)
            self._answers = 0
        self._run_up[operation] = self._run_up.get(operation, 0) + 1
        if self._is_outage():
            self.pause(now=now, chance=chance)

    def pause(self, *, now: float, chance: float, next_canary_at: float | None = None) -> None:
        """Declare an outage, seen here or by another process.

        Args:
            now: The time.
            chance: From 0 to 1.
            next_canary_at: When another process lets its next canary go.
        """
        if self.phase is not LinePhase.PAUSED:
            self.phase = LinePhase.PAUSED
            self._interval = self.rule.canary_seconds
            self.next_canary_at = now + self._jittered(chance)
        if next_canary_at is not None:
            self.next_canary_at = next_canary_at
        self._run_up.clear()

    def resume(self, *, now: float, chance: float) -> None:
        """Let the line go on, one round first, because somebody answered here or elsewhere."""
        self.phase = LinePhase.RECOVERING
        self._canary = None
        self._allowed = 1
        self._answers = 1
        self._grows_at = now + self.rule.step_seconds * (0.5 + chance)

    def _grow(self, now: float) -> None:
        if self._answers >= self._allowed and now >= self._grows_at:
            self._allowed *= 2
            self._answers = 0
        if self._allowed >= self._concurrency:
            self.phase = LinePhase.OPEN

    def _is_outage(self) -> bool:
        evidence = {op: n for op, n in self._run_up.items() if op not in self._marked}
        cases = {case_id for case_id, _ in evidence}
        return sum(evidence.values()) >= self.rule.failed_rounds and len(cases) >= self.rule.cases

    def _mark(self, operation: WorkKey) -> None:
        self._marked[operation] = None
        self._marked.move_to_end(operation)
        if len(self._marked) > MARKS_MAX:
            self._marked.popitem(last=False)

    def _jittered(self, chance: float) -> float:
        return self._interval * (1 + self.rule.jitter * chance)
