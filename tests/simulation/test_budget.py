"""Random providers, clocks and restarts: the budget holds and every history is possible."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from casework.gateway.clock import ManualClock
from casework.gateway.providers.scripted import Reply, Step
from casework.runner.operation import ResultStatus
from tests.support.scripted_line import DOWN, GOOD, Line

STEPS = st.sampled_from([DOWN, DOWN, DOWN, GOOD, Reply("nonsense")])
MOVES = st.sampled_from(
    ["run", "run", "run", "restart", "wait", "back", "a little back", "forward", "cancel"]
)


TIME: dict[str, Callable[[ManualClock], None]] = {
    "wait": lambda clock: clock.advance(60),
    "a little back": lambda clock: clock.set_back(30),
    "back": lambda clock: clock.set_back(86_400),
    "forward": lambda clock: clock.set_back(-31_536_000),
}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rounds_max=st.integers(1, 4),
    scripts=st.lists(st.lists(STEPS, min_size=1, max_size=8), min_size=1, max_size=3),
    moves=st.lists(MOVES, max_size=25),
)
def test_no_history_exceeds_rounds_times_targets(
    rounds_max: int, scripts: list[list[Step]], moves: list[str]
) -> None:
    """Calls stay within the budget plus one round per interruption; generations have no gap."""
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(check_history(Path(folder), rounds_max, scripts, moves))


async def check_history(
    root: Path, rounds_max: int, scripts: list[list[Step]], moves: list[str]
) -> None:
    providers: dict[str, list[Step]] = {f"p{n}": steps for n, steps in enumerate(scripts)}
    budget = f"[retry]\nmax_attempts = {rounds_max}"
    line = Line(root, providers, settings=budget)
    head = line.add()
    interruptions = 0
    final: ResultStatus | None = None
    for move in moves:
        match move:
            case "run":
                result = await line.run(head)
                if final is not None:
                    assert (final, True) == (result.status, result.reused)
                if result.status not in (ResultStatus.DEFERRED, ResultStatus.RETRY_PENDING):
                    final = result.status
            case "restart":
                played = line.providers
                line = Line(root, providers, settings=budget, clock=line.clock)
                line.providers.update(played)
            case "wait" | "a little back" | "back" | "forward":
                TIME[move](line.clock)
            case "cancel":
                interruptions += 1
                task = asyncio.create_task(line.run(head))
                await asyncio.sleep(0)
                task.cancel()
                await asyncio.wait({task})
    assert sum(line.calls()) <= (rounds_max + interruptions) * len(scripts)
    assert list(range(1, len(line.commits()) + 1)) == [c["generation"] for c in line.commits()]
    assert len(line.outcomes()) <= rounds_max
    line.assert_verifies()
