"""One run from the first check to the last line, with people watching."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from casework.errors import OperationConflict
from casework.runtime.cli.exit_codes import ExitCode
from casework.runtime.cli.failures import exit_code_of
from casework.runtime.cli.run_display import display
from casework.runtime.cli.run_monitor import RunMonitor
from casework.runtime.cli.terminal import Terminal
from casework.runtime.run.batch import BatchEnd, BatchReport
from casework.runtime.run.health import HealthFile
from casework.runtime.run.interruption import Interruption
from casework.runtime.run.pipeline_run import PipelineRun
from casework.runtime.run.session_record import (
    SessionKind,
    SessionRecord,
    SessionRecords,
    UsageRecord,
)
from casework.runtime.run.state_counts import StateCounts
from casework.runtime.run.sweeping import Sweeper, interrupted_line
from casework.runtime.views import phrases
from casework.runtime.views.explanation import explain
from casework.runtime.views.line_standing import hold_lines
from casework.runtime.views.status_view import counts_line, usage_line, usage_to_json
from casework.runtime.views.travel import asked_in_order, travel_sentence
from casework.strict_json import JSON, JSONObject

PROBLEMS_SHOWN: Final = 10

_BY_END: Final = {
    BatchEnd.INTERRUPTED: ExitCode.INTERRUPTED,
    BatchEnd.BUDGET: ExitCode.BUDGET,
}
_GRAVEST: Final = (ExitCode.INTEGRITY, ExitCode.INTERNAL, ExitCode.USAGE)


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a run came to."""

    report: BatchReport
    counts: StateCounts
    record: SessionRecord
    usage: UsageRecord
    """What all runs of the project used together."""
    usage_exact: bool
    left_locked: int
    """Unfinished operations that another worker held when they were last tried."""
    left_at_once: bool
    next_due_at: datetime | None
    holds: tuple[str, ...] = ()
    """What holds the line back, in words."""

    def exit_code(self) -> ExitCode:
        """Return the code that tells how the run ended; the gravest fact decides."""
        counts, report = self.counts, self.report
        if report.end in _BY_END:
            return _BY_END[report.end]
        found = {exit_code_of(problem.error) for problem in report.problems}
        if found:
            return next((code for code in _GRAVEST if code in found), ExitCode.INTERNAL)
        if self.left_locked and self.left_locked == counts.unsettled:
            return ExitCode.LOCKED
        if counts.unsettled:
            return ExitCode.UNFINISHED
        if counts.error:
            return ExitCode.SOME_ERROR
        return ExitCode.SOME_WAITING if counts.blocked else ExitCode.SUCCESS


class RunSession:
    """Runs a pipeline in front of people.

    Args:
        run: What to run.
        terminal: Where to tell of it.
        stays: Whether it waits for new work until a signal comes.
        kind: What it is called in the status.
        health: The file in which a worker tells how it is.
    """

    def __init__(
        self,
        run: PipelineRun,
        terminal: Terminal,
        *,
        stays: bool = False,
        kind: SessionKind = SessionKind.RUN,
        health: HealthFile | None = None,
    ) -> None:
        self._run = run
        self._terminal = terminal
        self._stays = stays
        self._kind = kind
        self._health = health
        self._interruption = Interruption()

    def execute(self) -> RunResult:
        """Check, announce, run and count.

        Raises:
            CaseworkError: The run could not begin, or could not go on.
        """
        run, workspace = self._run, self._run.workspace
        ready = run.prepare()
        self._announce()
        for intent in ready.interrupted:
            self._terminal.note(interrupted_line(intent))
        records = SessionRecords(workspace.store)
        records.settle()
        started_at = workspace.clock.now()
        session_id = run.batch.worker
        monitor = RunMonitor(
            run,
            records,
            session_id,
            reused=ready.counts.settled,
            started_at=started_at,
            used_before=records.totals()[0],
            kind=self._kind,
            health=self._health,
        )
        with records.alive(session_id):
            try:
                asyncio.run(self._drive(monitor))
            finally:
                counts = run.counts()
                record = monitor.close(counts)
        usage, exact = records.totals()
        return RunResult(
            report=run.batch.report,
            counts=counts,
            record=record,
            usage=usage,
            usage_exact=exact,
            left_locked=min(run.batch.left_locked, counts.unsettled),
            left_at_once=self._interruption.leaving.is_set(),
            next_due_at=run.next_due_at(),
            holds=tuple(hold_lines(monitor.line())),
        )

    async def _drive(self, monitor: RunMonitor) -> None:
        done = asyncio.Event()
        with (
            self._interruption.listening(),
            display(
                self._terminal,
                self._run.workspace.clock.monotonic,
                lines=self._kind is SessionKind.WORKER,
            ) as shown,
        ):
            watching = asyncio.create_task(monitor.watch(shown, done))
            beside = [asyncio.create_task(self._say_when_stopping(monitor))]
            if self._stays:
                beside.append(asyncio.create_task(self._sweep()))
            try:
                await self._run.run(self._interruption)
            finally:
                done.set()
                for task in beside:
                    task.cancel()
                ends = await asyncio.gather(*beside, watching, return_exceptions=True)
            for end in ends:
                if isinstance(end, Exception):
                    raise end

    async def _sweep(self) -> None:
        """Look now and then for what other processes have brought; a defect here ends the run."""
        try:
            run = self._run
            await Sweeper(run.workspace, run.batch, self._terminal.note).keep()
        except Exception:
            self._interruption.stopping.set()
            raise

    async def _say_when_stopping(self, monitor: RunMonitor) -> None:
        await self._interruption.stopping.wait()
        monitor.stopping = True
        self._terminal.note("stopping: running calls are let end; press again to leave at once")

    def _announce(self) -> None:
        for explained in explain(self._run.workspace, self._run.pipeline.operations)[1:]:
            self._terminal.note(
                f"{explained.operation_id}: profile {explained.profile.value}, "
                f"{travel_sentence(explained.verdicts)}; "
                f"asked in order: {asked_in_order(explained.verdicts)}"
            )


def show_result(result: RunResult, terminal: Terminal) -> None:
    """Tell what a run came to: one JSON document, or the counts that reconcile."""
    if terminal.as_json:
        terminal.document(result_to_json(result))
        return
    terminal.text(counts_line(result.counts))
    terminal.text(usage_line(result.usage, exact=result.usage_exact))
    if result.report.adopted:
        terminal.text(
            f"{phrases.plural(result.report.adopted, 'round')} finished by an earlier run "
            "and committed now, without a new call"
        )
    terminal.text(calls_line(result))
    if result.report.discarded:
        terminal.text(
            f"{phrases.plural(result.report.discarded, 'result')} discarded, because another "
            "worker had taken the case over or committed first: casework logs"
        )
    _show_problems(result, terminal)
    _show_way_on(result, terminal)


def _show_problems(result: RunResult, terminal: Terminal) -> None:
    """Tell on standard error which cases could not be worked on at all."""
    seen: set[tuple[str, str]] = set()
    for problem in result.report.problems:
        kind = (problem.error.code, problem.error.message)
        if kind not in seen and len(seen) < PROBLEMS_SHOWN:
            seen.add(kind)
            terminal.warn(
                f"casework: case {problem.case_id}, {problem.operation_id}: {problem.error}"
            )
    more = sum(result.report.problem_codes.values()) - len(seen)
    if more > 0:
        terminal.warn(f"casework: {phrases.plural(more, 'more case')} could not be worked on")
    if OperationConflict.default_code in result.report.problem_codes:
        terminal.note(
            "what waits for its next round under other settings begins anew with "
            "casework retry --pending"
        )


def _show_way_on(result: RunResult, terminal: Terminal) -> None:
    """Name the next command, on standard error."""
    counts = result.counts
    if not counts.cases:
        terminal.note("there are no cases yet: casework import PATH")
    if result.report.end is BatchEnd.BUDGET:
        terminal.note(f"stopped: {result.report.held_by}")
        terminal.note("everything finished is kept; raise the budget and casework run goes on")
    elif result.report.end is BatchEnd.INTERRUPTED:
        terminal.note("interrupted; everything finished is kept: casework run goes on")
    elif counts.retry:
        due = phrases.local_time(result.next_due_at)
        terminal.note(f"{phrases.plural(counts.retry, 'operation')} to be asked again from {due}")
    elif counts.waiting and not result.holds:
        terminal.note("not finished: casework run goes on")
    if counts.retry or counts.waiting:
        for hold in result.holds:
            terminal.note(hold)
    if counts.error:
        terminal.note("failed: casework status --by reason, then casework retry or casework inbox")
    if counts.blocked:
        terminal.note("blocked: casework inbox list, casework inbox release --all")


def calls_line(result: RunResult) -> str:
    """Say how many calls this run made and how many results it found."""
    calls = phrases.plural(result.report.tally.calls, "call")
    return f"{calls}, {phrases.plural(result.record.reused, 'result')} reused"


def result_to_json(result: RunResult) -> JSONObject:
    """Return a run's result as JSON output carries it."""
    report = result.report
    problems: list[JSON] = [
        {
            "case_id": problem.case_id,
            "operation_id": problem.operation_id,
            "code": problem.error.code,
            "message": str(problem.error),
        }
        for problem in report.problems
    ]
    return {
        "ended": report.end.value,
        "held_by": report.held_by or None,
        "exit_code": int(result.exit_code()),
        "calls": report.tally.calls,
        "rounds": report.tally.rounds,
        "reused": result.record.reused,
        "adopted": report.adopted,
        "discarded": report.discarded,
        "counts": result.counts.to_json(),
        "session_usage": usage_to_json(result.record.usage),
        "usage": usage_to_json(result.usage, exact=result.usage_exact),
        "reasons": dict(report.tally.reasons),
        "left_locked": result.left_locked,
        "problems": problems,
        "problem_codes": dict(report.problem_codes),
    }


def leave(code: ExitCode) -> None:
    """End the process at once, whatever its threads still do."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
