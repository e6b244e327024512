"""Playing a world to its end, and judging what is left of it.

Play a seed again with ``python -m tests.simulation.line_play SEED``.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from unittest.mock import patch

from casework.checkpoints.verify import verify
from casework.runtime.line.orders import LineOrders
from casework.runtime.run.state_counts import StateCounts
from tests.simulation.line_world import HORIZON_SECONDS, SimulatedHeartbeat, Worker, World
from tests.simulation.virtual_loop import VirtualLoop

WORKERS_MAX: Final = 2
CLOCK_STEPS: Final = (-86_400.0, -3600.0, -30.0, 30.0, 3600.0, 31_536_000.0)


def start_worker(world: World) -> None:
    """Let another process begin; some of them will die at one of their disk calls."""
    name = f"w{len(world.workers)}"
    worker = Worker(world, name, stays=world.chance.random() < 0.5)
    if world.chance.random() < 0.3:
        worker.disk_calls_left = world.chance.randint(1, 200)
    world.workers.append(worker)
    world.tell(f"{name} started")
    worker.start()


def set_clock(world: World) -> None:
    """Set the wall clock back or forward; no time passes."""
    step = world.chance.choice(CLOCK_STEPS)
    world.clock.set_back(-step)
    world.tell(f"clock set by {step:.0f} s")


def delete_index(world: World) -> None:
    """Delete the index under everybody's feet."""
    with suppress(FileNotFoundError):
        (world.root / "runtime" / "index.sqlite3").unlink()
    world.tell("index deleted")


def order(world: World) -> None:
    """Pause the line as a person does, or let it go on."""
    orders = LineOrders(world.root / "runtime")
    if orders.resume():
        world.tell("line resumed")
    else:
        orders.pause(at=world.clock.now(), reason="")
        world.tell("line paused")


def let_a_case_arrive(world: World) -> None:
    """Create the next case, if there is one."""
    if world.later:
        world.add(world.later.pop(0))


def stop(worker: Worker) -> None:
    """Send SIGTERM; a frozen process gets it when it moves."""
    worker.interruption.press()
    worker.thaw()


WORLDLY: Final[Mapping[str, Callable[[World], None]]] = {
    "clock": set_clock,
    "index": delete_index,
    "arrival": let_a_case_arrive,
    "another arrival": let_a_case_arrive,
    "order": order,
}
PERSONAL: Final[Mapping[str, Callable[[Worker], None]]] = {
    "kill": Worker.die,
    "freeze": Worker.freeze,
    "thaw": Worker.thaw,
    "stop": stop,
}
FATES: Final = (*WORLDLY, *PERSONAL)


async def misfortune(world: World) -> None:
    """Let things happen to the line until the horizon."""
    chance = world.chance
    while world.clock.monotonic() < HORIZON_SECONDS:
        await world.clock.sleep(chance.expovariate(1 / 10))
        alive = [worker for worker in world.workers if worker.alive]
        if len(alive) < WORKERS_MAX and chance.random() < 0.7:
            start_worker(world)
            continue
        fate = chance.choice(FATES)
        if fate in WORLDLY:
            WORLDLY[fate](world)
        elif alive:
            PERSONAL[fate](chance.choice(alive))


async def play(world: World) -> None:
    """Play a world to its end: misfortune, then calm until nothing is left to do."""
    world.add(*(case for case in world.cases if case not in world.later))
    await misfortune(world)
    world.calm = True
    world.tell("calm")
    LineOrders(world.root / "runtime").resume()
    world.add(*world.later)
    for worker in world.workers:
        worker.thaw()
        if worker.stays:
            worker.interruption.press()
    last = Worker(world, "last")
    world.workers.append(last)
    last.start()
    for worker in world.workers:
        if worker.task is not None:
            await asyncio.wait({worker.task})
            if not worker.task.cancelled():
                worker.task.result()
    # From the packages alone the next process has to find that nothing is left to do.
    calls = len(world.calls)
    delete_index(world)
    final = Worker(world, "final")
    final.start()
    assert final.task is not None
    await final.task
    assert calls == len(world.calls)
    world.counts = final.run.counts()
    final.store.index.close()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is true of a world at its end."""

    counts: StateCounts
    calls: int
    recorded: int
    """Attempts that outcomes tell of."""
    interruptions: int
    concurrency: int
    story: tuple[str, ...]


def judge_order(world: World, folder: Path) -> None:
    """Demand of a package that nothing began before what it needs had its answer."""
    answers: dict[str, str] = {}
    for path in sorted(folder.glob("commits/*.json")):
        for ophash, state in json.loads(path.read_bytes())["operations"].items():
            needed = world.needs[state["operation_id"]]
            assert all(need in answers for need in needed), (path, needed)
            assert not needed or answers[needed[0]] == "yes", (path, needed)
            if state["status"] == "SUCCESS":
                number = state["rounds_completed"]
                outcome = folder / "llm" / "operations" / ophash / f"outcome-{number:04}.json"
                answers[state["operation_id"]] = json.loads(outcome.read_bytes())["output"][
                    "answer"
                ]


def judge(world: World) -> Verdict:
    """Check every package with the oracle, count, and compare calls with records."""
    recorded = 0
    rounds: Counter[str] = Counter()
    for folder in sorted((world.root / "runtime" / "cases").glob("*/*")):
        report = verify(folder)
        assert report.ok, report.findings
        judge_order(world, folder)
        for path in sorted(folder.glob("llm/operations/*/outcome-*.json")):
            outcome = json.loads(path.read_bytes())
            rounds[path.parent.as_posix()] += 1
            made = [a for a in outcome["attempts"] if a["code"] != "limit_reached"]
            recorded += len(made) + (outcome["provider"] is not None)
    assert all(count <= world.rounds_max for count in rounds.values())
    assert world.counts is not None
    return Verdict(
        world.counts,
        len(world.calls),
        recorded,
        world.interruptions,
        world.concurrency,
        tuple(world.story),
    )


@contextmanager
def _in_virtual_time(world: World) -> Iterator[VirtualLoop]:
    loop = VirtualLoop(world.clock)
    logging.disable(logging.CRITICAL)
    try:
        with patch("casework.runtime.line.local_engine.Heartbeat", SimulatedHeartbeat):
            yield loop
    finally:
        logging.disable(logging.NOTSET)
        for task in asyncio.all_tasks(loop):
            task.cancel()
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


def play_seed(seed: int) -> Verdict:
    """Play a seed and return the verdict."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        world = World(seed, Path(folder))
        with _in_virtual_time(world) as loop:
            loop.run_until_complete(play(world))
        return judge(world)


def main() -> None:
    """Play one seed and tell its story."""
    verdict = play_seed(int(sys.argv[1]))
    sys.stdout.write("\n".join((*verdict.story, repr(verdict.counts), "")))


if __name__ == "__main__":
    main()
