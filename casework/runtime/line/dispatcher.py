"""The port behind which work is begun: what an engine promises, whichever keeps its queue.

Everything that passes is ids and times. What an operation is lies in its case's package; an engine
may lose all it knows and finds it again there. The promises, each held by a test that every engine
has to pass (``tests/contract/dispatcher``):

* Order: of what is due, the longest due is begun first.
* Due: nothing is begun before it is due, and nothing twice.
* Enqueued again changes nothing, in whatever state the operation is.
* Killed: what a dead process had begun is begun again, and only that.
* Frozen: what a process that stands still had begun is taken over once its claim has run out; when
  it goes on, its result is refused.
* Storm: thousands due at once are begun in a bounded number at a time, each once.
* Lost: an engine whose queue was deleted finds all work again in the packages.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from casework.runtime.line.governor import Hold
from casework.runtime.line.work import Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """What becomes of work that was begun."""

    again_seconds: float | None = None
    """Come back to it after so long, whatever its due time; None leaves that to the due time."""
    leave: bool = False
    """Leave it alone until it is enqueued again."""
    locked: bool = False
    """Somebody else works on the case; come back to it a little later each time."""


class Perform(Protocol):
    """Runs work."""

    async def __call__(self, work: Work) -> Ending:
        """Run the work's next round and say what becomes of it; never raises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """What one step came to."""

    begun: tuple[Work, ...] = ()
    next_seconds: float | None = None
    """When to tick next at the latest. None: only something that ends, is enqueued or is written by
    another process can bring more."""
    postponed: bool = False
    """Whether something that is due was put back for a moment."""
    elsewhere: int = 0
    """How many due operations are in the hands of other workers."""
    hold: Hold | None = None
    """What holds back work that waits."""


class Dispatcher(Protocol):
    """Begins the rounds that are due. It never loops by itself: a process drives it by ticking."""

    async def enqueue(self, work: Work) -> None:
        """Make sure that an operation is begun once it is due, even if it was cancelled.

        Due is what its package says; an operation without any state is due at once. An operation
        that is known already, runs, waits or has ended stays as it is.
        """

    async def tick(self, most: int | None = None) -> Tick:
        """Begin what is due and has room, at most so many, and say when to tick next."""

    async def cancel(self, work: Work) -> None:
        """Do not begin an operation until it is enqueued again; a round that runs is let end.

        An engine remembers this for as long as it lives. Nothing is written into the package.
        """

    async def drain(self) -> None:
        """Begin nothing any more, and return when nothing runs."""
