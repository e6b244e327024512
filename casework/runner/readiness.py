"""When an operation that needs others may be run: one rule, for the dispatch and for the index."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from casework.checkpoints.index_rows import Planned
from casework.runner.conditions import Condition
from casework.strict_json import JSON


class Standing(StrEnum):
    """What an operation's need of another one has come to."""

    ANSWERED = "answered"
    """An answer stands: validated, or a person's own."""
    OPEN = "open"
    """There is none yet: not begun, pending, blocked, failed or rejected. It may still come."""
    RULED_OUT = "ruled_out"
    """There will be none: the operation was skipped."""


def readiness(
    needs: Sequence[str],
    when: Sequence[Condition],
    *,
    standing: Mapping[str, Standing],
    answer: Callable[[str], JSON],
) -> Planned:
    """Return whether an operation is ready, held or skipped.

    It is skipped as soon as one that it needs was skipped, and held until all of them have answers.
    Only then its conditions are looked at, so that the order in which answers come is all one.

    Args:
        needs: The operations that it needs.
        when: What must hold of their answers.
        standing: What each of them has come to.
        answer: Returns the answer of one that is answered.
    """
    found = [standing[need] for need in needs]
    if Standing.RULED_OUT in found:
        return Planned.SKIPPED
    if Standing.OPEN in found:
        return Planned.HELD
    holds = all(condition.holds_of(answer(condition.operation)) for condition in when)
    return Planned.READY if holds else Planned.SKIPPED
