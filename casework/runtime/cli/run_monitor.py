"""Watching a run: its record for other processes, and its screen or its lines for people."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol

from casework.errors import StorageError
from casework.runtime.line.orders import LineOrders
from casework.runtime.run.health import Health, HealthFile, WorkerState
from casework.runtime.run.pipeline_run import PipelineRun
from casework.runtime.run.session_record import (
    ProviderRecord,
    SessionKind,
    SessionRecord,
    SessionRecords,
    UsageRecord,
)
from casework.runtime.run.state_counts import StateCounts
from casework.runtime.views.line_standing import LineStanding, line_standing
from casework.runtime.views.status_view import StatusView, with_running
from casework.runtime.views.travel import travel_sentence

TICK_SECONDS: Final = 0.5
RECORD_SECONDS: Final = 2.0


class Display(Protocol):
    """Shows a run to people."""

    def show(self, view: StatusView) -> None:
        """Take note of how the run stands now."""


@dataclass(slots=True)
class RunMonitor:
    """Watches one run."""

    run: PipelineRun
    records: SessionRecords
    session_id: str
    reused: int
    """Results that were there before."""
    started_at: datetime
    used_before: UsageRecord
    """What earlier runs used; the screen shows the sum."""
    kind: SessionKind = SessionKind.RUN
    health: HealthFile | None = None
    """Where to tell containers and timers how it stands."""
    stopping: bool = False
    """Whether a signal asked to stop."""

    async def watch(self, display: Display, done: asyncio.Event) -> None:
        """Keep record and display up to date until the run is done."""
        ticks = 0
        while not done.is_set():
            with suppress(StorageError):  # what the index refuses to a watcher, the run reports
                view = await self.view()
                display.show(view)
                if view.session is not None and ticks % round(RECORD_SECONDS / TICK_SECONDS) == 0:
                    await asyncio.to_thread(self.records.write, view.session)
                    await asyncio.to_thread(self._tell_health, view)
            ticks += 1
            with suppress(TimeoutError):
                await asyncio.wait_for(done.wait(), TICK_SECONDS)

    def close(self, counts: StateCounts) -> SessionRecord:
        """Write the run's last record and return it."""
        record = self._record(counts)
        record = record.model_copy(update={"ended_at": record.updated_at, "running": 0})
        self.records.write(record)
        if self.health is not None:
            self.health.write(self._health(WorkerState.STOPPED, None))
        return record

    async def view(self) -> StatusView:
        """Return the screen of this moment."""
        run = self.run
        counted = await asyncio.to_thread(run.counts)
        next_due_at = await asyncio.to_thread(run.next_due_at) if counted.retry else None
        counts = with_running(counted, run.batch.running)
        verdicts = run.workspace.gateway.explain()
        record = self._record(counts)
        return StatusView(
            project=run.workspace.project.name,
            profile=run.workspace.config.privacy_profile.value,
            travel=travel_sentence(verdicts),
            pipeline=run.pipeline.name,
            counts=counts,
            usage=self.used_before.plus(record.usage),
            reasons=record.reasons,
            next_due_at=next_due_at,
            session=record,
            session_alive=True,
            passed_over=tuple((v.provider.id, v.reason.value) for v in verdicts if not v.eligible),
            line=await asyncio.to_thread(self.line),
        )

    def line(self) -> LineStanding:
        """Return what holds the line back, or may do so soon."""
        workspace = self.run.workspace
        return line_standing(
            LineOrders(workspace.store.folder),
            workspace.line,
            config=workspace.config,
            clock=workspace.clock,
        )

    def _tell_health(self, view: StatusView) -> None:
        if self.health is None:
            return
        state = WorkerState.WORKING if self.run.batch.running else WorkerState.WAITING
        if self.run.batch.hold is not None and not self.run.batch.running:
            state = WorkerState.HELD
        if self.stopping:
            state = WorkerState.STOPPING
        due = view.next_due_at if view.counts.retry else None
        self.health.write(self._health(state, due))

    def _health(self, state: WorkerState, next_due_at: datetime | None) -> Health:
        batch = self.run.batch
        return Health(
            state=state,
            worker=self.session_id,
            pid=os.getpid(),
            started_at=self.started_at,
            updated_at=self.run.workspace.clock.now(),
            running=batch.running,
            next_due_at=next_due_at,
            hold=batch.hold.reason.value if batch.hold else None,
        )

    def _record(self, counts: StateCounts) -> SessionRecord:
        batch, clock = self.run.batch, self.run.workspace.clock
        tally, now = batch.report.tally, clock.monotonic()
        return SessionRecord(
            id=self.session_id,
            pipeline=self.run.pipeline.name,
            kind=self.kind,
            pid=os.getpid(),
            started_at=self.started_at,
            updated_at=clock.now(),
            reused=self.reused,
            completions=tally.completions,
            rounds=tally.rounds,
            running=batch.running,
            rate_per_minute=tally.rate_per_minute(now),
            eta_seconds=tally.eta_seconds(now, counts.unsettled),
            usage=UsageRecord.of(tally.usage),
            providers={
                name: ProviderRecord(
                    model=provider.model,
                    calls=provider.calls,
                    failures=provider.failures,
                    last_code=provider.last_code,
                    median_ms=provider.median_ms,
                )
                for name, provider in tally.providers.items()
            },
            reasons=dict(tally.reasons),
        )
