"""The requests that are open, how many may be, and ending them when the service ends."""

from __future__ import annotations

import asyncio

from casework.facade.presence import Ended, Presence


class OpenRequests:
    """Counts requests, and ends those that outlast the order to shut down.

    Args:
        most: How many may be open at once.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._count = 0
        self._present: set[Presence] = set()
        self.shutting_down = False
        self._too_late = False

    @property
    def count(self) -> int:
        """Return how many requests are open."""
        return self._count

    def enter(self) -> bool:
        """Count one more; False if there is no room."""
        if self._count >= self._most:
            return False
        self._count += 1
        return True

    def leave(self) -> None:
        """Count one less."""
        self._count -= 1

    def add(self, presence: Presence) -> None:
        """Take a request's work under watch; too late, it is ended at once."""
        self._present.add(presence)
        if self._too_late:
            presence.end(Ended.SHUTTING_DOWN)

    def discard(self, presence: Presence) -> None:
        """Let a request's work go."""
        self._present.discard(presence)

    def begin_shutdown(self, seconds: float) -> None:
        """Refuse what comes from now on, and end what is still open after so many seconds.

        Must be called on the event loop. A second call does nothing.
        """
        if not self.shutting_down:
            self.shutting_down = True
            asyncio.get_running_loop().call_later(seconds, self.end_all)

    def end_all(self) -> None:
        """End what is open, and whatever is begun from now on."""
        self._too_late = True
        for presence in tuple(self._present):
            presence.end(Ended.SHUTTING_DOWN)
