"""What a process that stays looks for now and then: new cases, arrived packages, dead workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from casework.checkpoints.inflight import Intent
from casework.errors import CaseworkError, LockBusy
from casework.runner.inbox import Arrival, InboxEvent
from casework.runtime.line.clock_ticks import ticking
from casework.runtime.receiving import arrivals, inbox_processor
from casework.runtime.run.batch import Batch
from casework.runtime.workspace import Workspace

SWEEP_SECONDS: Final = 2.0
RECOVERY_SWEEPS: Final = 15
"""Every so many sweeps the announcements of rounds are compared with what is committed."""

TOLD_MAX: Final = 10_000
"""Most lines that are remembered so as not to be told again; the oldest is forgotten first."""


class Sweeper:
    """Keeps one run informed of what other processes have done.

    Args:
        workspace: Where.
        batch: Whose engine is told.
        tell: Writes a line for people.
    """

    def __init__(self, workspace: Workspace, batch: Batch, tell: Callable[[str], None]) -> None:
        self._store = workspace.store
        self._batch = batch
        self._tell = tell
        self._told: dict[tuple[str, ...], None] = {}
        self._sweeps = 0
        self._inbox = (
            None
            if self._store.folder is None
            else inbox_processor(self._store, workspace.clock.now)
        )

    async def keep(self, seconds: float = SWEEP_SECONDS) -> None:
        """Sweep now and then until cancelled."""
        due = asyncio.Event()
        with ticking(due.set, seconds):
            while True:
                await due.wait()
                due.clear()
                await self.sweep()

    async def sweep(self) -> None:
        """Look once; what fails is told once and tried again with the next sweep."""
        self._sweeps += 1
        try:
            await asyncio.to_thread(self._receive)
            if self._sweeps % RECOVERY_SWEEPS == 0:
                await asyncio.to_thread(self._recover)
            await self._batch.engine.look_around()
        except LockBusy:
            return  # another worker sweeps at this moment
        except CaseworkError as error:
            self._tell_once(("error", error.code), f"casework: {error}")

    def _receive(self) -> None:
        if self._inbox is not None:
            for event in arrivals(self._inbox):
                self._tell_arrival(event)

    def _recover(self) -> None:
        for intent in self._store.recover():
            self._tell_once(
                ("interrupted", intent.case_id, intent.ophash, intent.started_at),
                interrupted_line(intent),
            )

    def _tell_arrival(self, event: InboxEvent) -> None:
        what = event.file or event.operation_id or ""
        line = f"inbox: {what} {event.arrival.value}"
        if event.code is not None:
            line += f" [{event.code}]"
        if event.arrival is Arrival.LEFT:
            self._tell_once(("left", what, event.code or ""), line)
        else:
            self._tell(line)

    def _tell_once(self, key: tuple[str, ...], line: str) -> None:
        if key not in self._told:
            if len(self._told) >= TOLD_MAX:
                del self._told[next(iter(self._told))]
            self._told[key] = None
            self._tell(line)


def interrupted_line(intent: Intent) -> str:
    """Say that a round was cut off, and what that may have cost."""
    return (
        f"interrupted: case {intent.case_id}, {intent.operation_id} round {intent.round} "
        "was cut off before its outcome was known; its call may have been paid twice"
    )
