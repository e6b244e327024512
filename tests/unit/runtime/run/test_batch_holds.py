"""What holds the line back is waited for without spinning, or ends the run, as the case may be."""

from __future__ import annotations

import asyncio

from casework.gateway.plan import AnyOperationPlan
from casework.gateway.providers.scripted import Reply
from casework.runner.operation_result import OperationResult
from casework.runtime.line.governor import Hold, HoldReason
from casework.runtime.line.work import Work
from casework.runtime.run.batch import BatchEnd, BatchOptions
from casework.runtime.run.interruption import Interruption
from casework.runtime.run.pipeline_run import PipelineRun
from tests.support.pipeline_workspace import Desk

YES = Reply('{"answer": "yes"}')


class ScriptedGovernor:
    """Answers from two lists, and lets everything go once they are used up."""

    def __init__(self, rooms: list[Hold] | None = None, reserves: list[Hold] | None = None) -> None:
        self.rooms = rooms or []
        self.reserves = reserves or []
        self.asked = 0
        self.reserved: list[str] = []
        self.ends: list[str] = []

    def room(self, running: int) -> int | Hold:
        """Return the next hold, or room."""
        del running
        self.asked += 1
        return self.rooms.pop(0) if self.rooms else 100

    def reserve(self, work: Work, plan: AnyOperationPlan) -> Hold | None:
        """Return the next hold, or none."""
        del plan
        if self.reserves:
            return self.reserves.pop(0)
        self.reserved.append(work.case_id)
        return None

    def ended(self, work: Work, result: OperationResult | None) -> None:
        """Note the end."""
        del result
        self.ends.append(work.case_id)


def governed(desk: Desk, governor: ScriptedGovernor, options: BatchOptions) -> PipelineRun:
    """Prepare a run under a governor."""
    run = PipelineRun(desk.workspace, desk.pipeline, options=options, governor=governor)
    run.prepare()
    return run


async def test_a_pause_is_waited_out_and_every_reserve_is_ended() -> None:
    """The run waits as long as it is told, asks once for each wait, and then does everything."""
    desk = Desk([YES])
    governor = ScriptedGovernor([Hold(HoldReason.PAUSED, 30.0), Hold(HoldReason.OUTAGE, 15.0)])
    run = governed(desk, governor, BatchOptions())
    report = await run.run(Interruption())
    assert (BatchEnd.SETTLED, 3) == (report.end, report.tally.calls)
    assert 45.0 == desk.clock.monotonic()
    assert governor.asked < 12
    assert ["a", "b", "c"] == sorted(governor.reserved) == sorted(governor.ends)


async def test_a_hold_of_no_time_does_not_spin() -> None:
    """A governor that says "ask again at once" is asked twenty times a second at most."""
    desk = Desk([YES])
    governor = ScriptedGovernor([Hold(HoldReason.LIMIT, 0.0)] * 20)
    await governed(desk, governor, BatchOptions()).run(Interruption())
    assert 1.0 <= desk.clock.monotonic() < 1.2


async def test_once_does_not_wait_for_a_hold() -> None:
    """A run that goes over everything once ends as such, with the work still waiting."""
    desk = Desk([YES])
    governor = ScriptedGovernor([Hold(HoldReason.PAUSED, None)] * 3)
    run = governed(desk, governor, BatchOptions(once=True))
    report = await run.run(Interruption())
    assert (BatchEnd.ONCE, 0, 3) == (report.end, report.tally.calls, run.counts().waiting)


async def test_a_held_back_request_comes_back_later() -> None:
    """What a limit holds back between request and round is tried again, and costs nothing."""
    desk = Desk([YES], texts={"a": "One."})
    governor = ScriptedGovernor(
        reserves=[Hold(HoldReason.LIMIT, 20.0), Hold(HoldReason.LIMIT, 5.0)]
    )
    report = await governed(desk, governor, BatchOptions()).run(Interruption())
    assert (BatchEnd.SETTLED, 1) == (report.end, report.tally.calls)
    assert 25.0 == desk.clock.monotonic()


async def test_a_cancelled_operation_is_left_and_others_go_on() -> None:
    """The run ends although the cancelled operation waits."""
    desk = Desk([YES])
    governor = ScriptedGovernor(reserves=[Hold(HoldReason.CANCELLED, None)])
    run = governed(desk, governor, BatchOptions(concurrency=1))
    report = await run.run(Interruption())
    assert (BatchEnd.SETTLED, 2, 1) == (report.end, report.tally.calls, run.counts().waiting)


async def test_a_budget_ends_the_run_after_what_runs() -> None:
    """Nothing more is begun once the budget holds a round back, and nothing spins."""
    desk = Desk([YES])
    governor = ScriptedGovernor()
    run = governed(desk, governor, BatchOptions(concurrency=1))
    dispatch = run._dispatch

    async def then_empty(work: Work) -> OperationResult | Hold:
        result = await dispatch(work)
        governor.reserves = [Hold(HoldReason.BUDGET, None)]
        return result

    run.batch._dispatch = then_empty
    report = await run.run(Interruption())
    assert (BatchEnd.BUDGET, 1, 2) == (report.end, report.tally.calls, run.counts().waiting)
    assert governor.asked < 5


async def test_a_process_that_stays_outlasts_an_empty_queue_and_a_budget() -> None:
    """Only a signal ends it; after the hold it goes on."""
    desk = Desk([YES])
    governor = ScriptedGovernor(reserves=[Hold(HoldReason.BUDGET, None)])
    run = governed(desk, governor, BatchOptions(stay=True, concurrency=1))
    interruption = Interruption()
    running = asyncio.create_task(run.run(interruption))
    while len(governor.ends) < 3:  # noqa: ASYNC110 - the governor has no event
        await asyncio.sleep(0)
    interruption.press()
    report = await running
    assert (BatchEnd.INTERRUPTED, 3) == (report.end, report.tally.calls)
    assert desk.clock.monotonic() >= 60.0
