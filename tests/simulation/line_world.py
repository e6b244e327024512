"""A world made of a seed: cases that arrive, providers that fail, and the processes of a line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Final, NoReturn

from casework.checkpoints.disk import DiskCall, ObservedDisk
from casework.checkpoints.locks import FileLocks
from casework.checkpoints.store import CheckpointStore
from casework.config.gateway_config import GatewayConfig
from casework.config.providers import ProviderConfig
from casework.errors import CaseworkError, StorageError
from casework.gateway.clock import Deadline
from casework.gateway.errors import FailureKind
from casework.gateway.llm_gateway import LLMGateway
from casework.gateway.messages import Credential, ProviderCall, ProviderReply, Usage
from casework.gateway.providers.scripted import Delay, Fail, Hang, Reply, ScriptedProvider, Step
from casework.runner.pipeline import Pipeline
from casework.runtime.line.claimant import ClaimTimes
from casework.runtime.line.line_gate import LineGate
from casework.runtime.line.line_governor import LineGovernor, LineParts
from casework.runtime.line.line_state import FILE_NAME, LineState
from casework.runtime.line.orders import LineOrders
from casework.runtime.project import Project
from casework.runtime.run.batch import BatchOptions
from casework.runtime.run.interruption import Interruption
from casework.runtime.run.pipeline_run import PipelineRun
from casework.runtime.run.state_counts import StateCounts
from casework.runtime.workspace import Workspace
from tests.simulation.virtual_loop import CURRENT, VirtualClock

HORIZON_SECONDS: Final = 600.0
"""After so long nothing befalls the line any more."""

TARGETS_MAX: Final = 2

SETTINGS: Final = """
[retry]
max_attempts = {rounds}
retry_delay_seconds = {delay}

[outage]
enabled = {outage}
"""
ENTRY: Final = """
[[providers]]
id = "{name}"
adapter = "double"
class = "local"
base_url = "http://127.0.0.1:9/v1"
model = "m-{name}"
timeout_seconds = 30.0
{limits}
"""
OPERATION: Final = """
[[operations]]
id = "op-{number}"
task = "Answer."
output_schema = {{ type = "object", required = ["answer"] }}
{needs}
"""
CLAIM_SECONDS: Final = 30.0
ANSWERS: Final = tuple(
    Reply(f'{{"answer": "{word}"}}', usage=Usage(10, 5, 15)) for word in ("yes", "yes", "no")
)


class Killed(BaseException):
    """A process ends here, and nothing of it goes on."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call that reached a provider."""

    provider: str
    document: str


class World:
    """Everything that one seed decides.

    Args:
        seed: Decides it.
        root: Folder of the project.
    """

    def __init__(self, seed: int, root: Path) -> None:
        self.chance = Random(seed)
        self.root = root
        self.clock = VirtualClock()
        self.calls: list[Call] = []
        self.story: list[str] = []
        """What happened, in order; two plays of a seed tell the same."""
        self.calm = False
        self.interruptions = 0
        chance = self.chance
        self.providers = [f"p{n}" for n in range(chance.randint(1, TARGETS_MAX))]
        self.rounds_max = chance.randint(2, 6)
        self.concurrency = chance.randint(1, 3)
        self.outages = [self._stretch(240) for _ in range(chance.randint(0, 2))]
        self.fault_rate = chance.choice((0.0, 0.1, 0.4))
        toml = SETTINGS.format(
            rounds=self.rounds_max,
            delay=chance.choice((5.0, 60.0)),
            outage=chance.choice(("true", "false")),
        )
        limits = chance.choice(
            ("", "", f"limits = {{ requests_per_minute = {chance.randint(1, 9)} }}")
        )
        toml += "".join(ENTRY.format(name=name, limits=limits) for name in self.providers)
        self.config = GatewayConfig.parse(toml)
        self.needs: dict[str, list[str]] = {}
        """Operations by id with those that they need; the first of these has to say yes."""
        operations = "".join(self._operation(n) for n in range(chance.randint(1, 4)))
        self.pipeline = Pipeline.parse(f'name = "sim"\n{operations}', folder=root)
        self.cases = [f"case-{n}" for n in range(chance.randint(2, 7))]
        self.later = self.cases[chance.randint(1, 3) :]
        """Cases that arrive while the line works."""
        self.poisoned = {case for case in self.cases if chance.random() < 0.1}
        self.workers: list[Worker] = []
        self.counts: StateCounts | None = None
        """How everything stands at the end."""

    def _operation(self, number: int) -> str:
        needed = [earlier for earlier in self.needs if self.chance.random() < 0.3]
        self.needs[f"op-{number}"] = needed
        lines = f"needs = {json.dumps(needed)}\n"
        if needed:
            lines += f'when = {{ operation = "{needed[0]}", pointer = "/answer", equals = "yes" }}'
        return OPERATION.format(number=number, needs=lines)

    def _stretch(self, longest: float) -> tuple[float, float]:
        begun = self.chance.uniform(0, HORIZON_SECONDS)
        return begun, begun + self.chance.uniform(1, longest)

    def tell(self, text: str) -> None:
        """Note what happened."""
        self.story.append(f"{self.clock.monotonic():.6f} {text}")

    def step(self, document: str) -> Step:
        """Decide what a provider does with a call."""
        if any(case in document for case in self.poisoned):
            return Fail(FailureKind.HTTP_5XX, http_status=500)
        now = self.clock.monotonic()
        if not self.calm and any(begin <= now < end for begin, end in self.outages):
            return Fail(FailureKind.CONNECT_ERROR, sent=False)
        if self.calm or self.chance.random() >= self.fault_rate:
            return Delay(self.chance.expovariate(1 / 5), self.chance.choice(ANSWERS))
        return self.chance.choice(
            (
                Fail(FailureKind.HTTP_5XX, http_status=503),
                Fail(FailureKind.HTTP_429, http_status=429, retry_after_seconds=90.0),
                Fail(FailureKind.REFUSAL, http_status=400),
                Reply("not json"),
                Delay(40.0, ANSWERS[0]),
                Hang(),
            )
        )

    def add(self, *cases: str) -> None:
        """Create cases, as an import in another process would."""
        store = CheckpointStore(self.root / "runtime", now=self.clock.now)
        for case in cases:
            store.create(case, {"text.txt": f"About {case}.".encode()})
            self.tell(f"{case} arrived")
        store.index.close()


class Double:
    """A provider of the world, as one process sees it."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self._name = name

    async def complete(
        self, call: ProviderCall, *, credential: Credential | None, deadline: Deadline
    ) -> ProviderReply:
        """Do what the world decides; a frozen process sees the answer when it moves again."""
        world = self._world
        document = next(case for case in world.cases if case in call.messages[-1].content)
        step = world.step(document)
        world.calls.append(Call(self._name, document))
        world.tell(f"{self._name} asked about {document}")
        provider = ScriptedProvider([step], clock=world.clock)
        try:
            return await provider.complete(call, credential=credential, deadline=deadline)
        finally:
            whose = CURRENT.get()
            if isinstance(whose, Worker) and whose.frozen:
                await whose.thawed.wait()

    async def aclose(self) -> None:
        """Have nothing to let go of."""


class SimulatedHeartbeat:
    """The heartbeat of a worker in virtual time."""

    def __init__(self, beat: Callable[[], None], seconds: float) -> None:
        self._beat = beat
        self._seconds = seconds
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to beat."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def stop(self) -> None:
        """Beat no more."""
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            whose = CURRENT.get()
            assert isinstance(whose, Worker)
            await whose.world.clock.sleep(self._seconds)
            if whose.frozen:
                await whose.thawed.wait()
            with suppress(StorageError):
                self._beat()


@dataclass(eq=False)
class Worker:
    """One process: it has a disk, an index, locks and a memory of its own."""

    world: World
    name: str
    stays: bool = False
    frozen: bool = False
    dead: bool = False
    disk_calls_left: int | None = None
    """The process dies at this disk call; None lets it live."""
    thawed: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None
    _waiting: list[Callable[[], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        world = self.world
        self.store = CheckpointStore(
            world.root / "runtime", now=world.clock.now, disk=ObservedDisk(self._observe)
        )
        self.line = LineState(world.root / "runtime" / FILE_NAME)
        gateway = LLMGateway(
            world.config,
            adapters={"double": self._double},
            clock=world.clock,
            environ={},
            gate=LineGate(self.line, world.clock),
        )
        workspace = Workspace(
            Project(world.root), world.config, world.clock, self.store, gateway, self.line
        )
        parts = LineParts(
            self.store, world.config, world.clock, self.line, LineOrders(self.store.folder)
        )
        self.governor = LineGovernor(
            parts,
            owner=self.name,
            concurrency=world.concurrency,
            chance=Random(self.name).random,
        )
        options = BatchOptions(
            concurrency=world.concurrency,
            stay=self.stays,
            worker=self.name,
            claims=ClaimTimes(CLAIM_SECONDS, 10.0, world.clock.monotonic),
        )
        self.run = PipelineRun(workspace, world.pipeline, options=options, governor=self.governor)
        self.interruption = Interruption()

    def _double(self, config: ProviderConfig) -> Double:
        return Double(self.world, config.id)

    def _observe(self, _call: DiskCall, _moment: str) -> None:
        if self.dead:
            raise Killed
        if self.disk_calls_left is not None:
            self.disk_calls_left -= 1
            if self.disk_calls_left <= 0:
                self.die()
                raise Killed

    def start(self) -> None:
        """Begin to work."""
        self.task = asyncio.get_running_loop().create_task(self._live())

    async def _live(self) -> None:
        CURRENT.set(self)
        with suppress(Killed):
            try:
                with self.governor.at_work():
                    self.run.prepare()
                    await self.run.run(self.interruption)
            except CaseworkError as error:
                if not self.dead:
                    self.world.tell(f"{self.name} stopped: {error.code}")
                    raise
        self.world.tell(f"{self.name} ended")

    def die(self) -> None:
        """End as after kill -9: the system lets go of locks, and nothing else is tidied up."""
        if self.dead:
            return
        self.dead = True
        self.world.interruptions += 1
        self.world.tell(f"{self.name} killed")
        assert isinstance(self.store.locks, FileLocks)
        for held in self.store.locks._open.values():
            object.__setattr__(held, "signed", False)  # a dead process takes no signature off
        self.store.index.close()
        self.store.index._guarded = _never  # type: ignore[method-assign]
        self.line.close()
        self.line._do = _never  # type: ignore[method-assign]
        if self.task is not None:
            self.task.cancel()
        self.thaw()

    def freeze(self) -> None:
        """Stand still as after SIGSTOP."""
        if not self.frozen and not self.dead:
            self.frozen = True
            self.world.interruptions += 1
            self.thawed.clear()
            self.world.tell(f"{self.name} frozen")

    def thaw(self) -> None:
        """Go on as after SIGCONT."""
        if self.frozen:
            self.frozen = False
            self.thawed.set()
            self.world.tell(f"{self.name} thawed")
            waiting, self._waiting = self._waiting, []
            for call in waiting:
                call()

    def when_thawed(self, call: Callable[[], None]) -> None:
        """Call something as soon as the process moves again."""
        self._waiting.append(call)

    @property
    def alive(self) -> bool:
        """Tell whether the process still works."""
        return self.task is not None and not self.task.done()


def _never(*_: object, **__: object) -> NoReturn:
    raise Killed
