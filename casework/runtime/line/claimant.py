"""A worker as other workers see it: its name, its sign of life and its claims."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from casework.checkpoints.claims import Claim, Viewer, Wanted
from casework.checkpoints.store import CheckpointStore
from casework.errors import LockBusy, StorageError

CLAIM_SECONDS: Final = 30.0
RENEW_SECONDS: Final = 10.0


@dataclass(frozen=True, slots=True)
class ClaimTimes:
    """How long claims last."""

    seconds: float = CLAIM_SECONDS
    renew_seconds: float = RENEW_SECONDS
    elapsed: Callable[[], float] = field(default=time.monotonic)
    """Seconds that all processes of the machine count alike. They stand still while it sleeps, so
    that nobody's claims have run out when it wakes."""


class Claimant:
    """Claims cases for one worker, and finds out which other workers are dead.

    Args:
        store: Its index holds the claims, its locks the signs of life.
        worker: A name that no other worker ever had.
        times: How long claims last.
    """

    def __init__(
        self, store: CheckpointStore, worker: str, times: ClaimTimes | None = None
    ) -> None:
        self.worker = worker
        self.times = times or ClaimTimes()
        self._store = store
        self._mine: set[str] = set()

    def viewer(self) -> Viewer:
        """Return who asks, and when."""
        return Viewer(self.worker, self.times.elapsed())

    def take(self, wanted: Iterable[Wanted], *, release: Sequence[str]) -> dict[str, str | None]:
        """Claim cases and let go of others; see :meth:`Claims.take`."""
        elapsed = self.times.elapsed()
        taken = self._store.index.claims.take(
            self.worker,
            wanted,
            elapsed=elapsed,
            until=elapsed + self.times.seconds,
            release=release,
        )
        self._mine.difference_update(release)
        self._mine.update(taken)
        return taken

    def release(self, case_ids: Sequence[str]) -> None:
        """Let go of cases."""
        self._mine.difference_update(case_ids)
        self._store.index.claims.release(self.worker, case_ids)

    def renew(self) -> None:
        """Push the end of all claims further away."""
        mine = tuple(self._mine)
        if mine:
            until = self.times.elapsed() + self.times.seconds
            self._store.index.claims.renew(self.worker, mine, until=until)

    def leave(self) -> None:
        """Let go of everything; what the index refuses is void with the sign of life."""
        with suppress(StorageError):
            self._store.index.claims.void(self.worker)
        self._mine.clear()

    def of_others(self) -> list[Claim]:
        """Return what other workers hold and has not run out; what dead ones held is dropped."""
        elapsed = self.times.elapsed()
        return [claim for claim in self._of_the_living()[0] if claim.until > elapsed]

    def drop_dead(self) -> bool:
        """Drop what dead workers held, and tell whether there was any."""
        return self._of_the_living()[1]

    def _of_the_living(self) -> tuple[list[Claim], bool]:
        """Return the claims of others but for those of the dead, and whether any were dropped."""
        found = self._store.index.claims.of_others(self.worker)
        dead = {worker for worker in {claim.worker for claim in found} if self._is_dead(worker)}
        return [claim for claim in found if claim.worker not in dead], bool(dead)

    def oust(self, case_id: str, worker: str) -> bool:
        """Take a case's lock from a worker that does not move, if the case is still ours."""
        if not self._store.index.claims.holds(self.worker, case_id):
            return False
        return self._store.locks.oust(case_id, worker)

    def sign_of_life(self) -> str:
        """Return the name of the lock that this worker holds as long as it lives."""
        return _sign_of_life(self.worker)

    def _is_dead(self, worker: str) -> bool:
        """Tell whether a worker is provably gone, and drop its claims if so.

        Of two that look at the same time one may take the other for the worker; it looks again.
        """
        name = _sign_of_life(worker)
        try:
            with self._store.locks.hold(name):
                self._store.index.claims.void(worker)
                self._store.locks.discard(name)
        except LockBusy:
            return False
        return True


def new_worker(now: datetime | None = None) -> str:
    """Return a name that no worker ever had, which tells people when and where it began."""
    begun = "" if now is None else f"{now:%Y%m%dT%H%M%S}-"
    return f"{begun}{os.getpid()}-{secrets.token_hex(6)}"


def _sign_of_life(worker: str) -> str:
    return f"\0worker {worker}"
