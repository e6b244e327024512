"""The seam between the dispatcher, which begins work, and what may hold the whole line back."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from casework.gateway.plan import AnyOperationPlan
from casework.runner.operation_result import OperationResult
from casework.runtime.line.work import Work

UNBOUNDED: Final = 1_000_000
"""More room than any process has."""


class HoldReason(StrEnum):
    """Why nothing, or not this, is begun now."""

    PAUSED = "paused"
    """A person paused the line."""
    OUTAGE = "outage"
    """No provider answers; single rounds find out when one does again."""
    LIMIT = "limit"
    """Every provider that may be asked has reached a limit of calls."""
    BUDGET = "budget"
    """The next round could cross the budget."""
    CANCELLED = "cancelled"
    """A person cancelled the operation."""
    NEEDS = "needs"
    """It waits for other operations of its case; whoever ends the last of them takes it up."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Begin nothing, or not this piece of work, for a while."""

    reason: HoldReason
    seconds: float | None
    """When to ask again; None if time alone will not change the answer."""
    detail: str = ""
    """One sentence for people, where the reason alone does not tell enough."""


class Governor(Protocol):
    """Says what may be begun. Every answer is quick and calls nobody.

    It may read and write a few rows of what the processes of a project share. Not promised: where
    that was lost under a running process, one answer takes as long as a look at every package.
    """

    def room(self, running: int) -> int | Hold:
        """Return how many more rounds may be begun at this moment, at least one, or why none."""

    def reserve(self, work: Work, plan: AnyOperationPlan) -> Hold | None:
        """Set aside what a round may cost and use, or return why it may not run now.

        Asked once the request is built, before the first call. Without a hold, exactly one
        :meth:`ended` follows.
        """

    def ended(self, work: Work, result: OperationResult | None) -> None:
        """Take note of a round that was reserved; None if it left no result."""


class OpenLine:
    """A governor that never holds anything back."""

    def room(self, running: int) -> int | Hold:  # noqa: ARG002 - the seam's signature
        """Return more room than anybody has."""
        return UNBOUNDED

    def reserve(self, work: Work, plan: AnyOperationPlan) -> Hold | None:  # noqa: ARG002 - the seam's signature
        """Hold nothing."""
        return None

    def ended(self, work: Work, result: OperationResult | None) -> None:
        """Take no note."""
