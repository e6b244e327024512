"""A project on a disk whose line is governed, and a provider that does what a function says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from casework.checkpoints.index_rows import IndexedOperation
from casework.checkpoints.store import CheckpointStore
from casework.config.gateway_config import GatewayConfig
from casework.gateway.clock import Deadline
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.llm_gateway import LLMGateway
from casework.gateway.messages import Credential, Finish, ProviderCall, ProviderReply, Usage
from casework.runner.pipeline import Pipeline
from casework.runtime.line.line_gate import LineGate
from casework.runtime.line.line_governor import LineGovernor, LineParts
from casework.runtime.line.line_state import FILE_NAME, LineState
from casework.runtime.line.orders import LineOrders
from casework.runtime.project import Project
from casework.runtime.run.batch import BatchOptions, BatchReport
from casework.runtime.run.interruption import Interruption
from casework.runtime.run.pipeline_run import PipelineRun
from casework.runtime.workspace import Workspace
from tests.simulation.virtual_loop import VirtualClock, VirtualLoop

PROVIDER = """
[[providers]]
id = "{id}"
adapter = "desk"
model = "m-{id}"
class = "local"
base_url = "http://127.0.0.1:9/v1"
"""

PIPELINE = """
name = "review"
[[operations]]
id = "first"
task = "Answer."
output_schema = { type = "object", required = ["answer"] }
parameters = { max_tokens = 100 }
"""

CALL_SECONDS = 0.5

Behave: TypeAlias = Callable[[str, ProviderCall], ProviderReply]
"""What a provider, by its id, does at a call."""


def good(_provider: str = "", _call: ProviderCall | None = None) -> ProviderReply:
    """Answer soundly."""
    return ProviderReply(text='{"answer": "yes"}', finish=Finish.STOP, usage=Usage(100, 20, 120))


def down(_provider: str = "", _call: ProviderCall | None = None) -> ProviderReply:
    """Fail as a server without a model does."""
    raise ProviderFailure(FailureKind.HTTP_5XX, http_status=503)


class Desk:
    """An adapter that plays a function."""

    def __init__(self, provider: str, behave: Behave, clock: VirtualClock) -> None:
        self._clock = clock
        self._provider = provider
        self._behave = behave

    async def complete(
        self, call: ProviderCall, *, credential: Credential | None, deadline: Deadline
    ) -> ProviderReply:
        """Do what the function says, after a while."""
        assert credential is None
        assert not deadline.passed
        await self._clock.sleep(CALL_SECONDS)
        return self._behave(self._provider, call)

    async def aclose(self) -> None:
        """Nothing to let go."""


class GovernedLine:
    """One process of a project; a second one over the same folder is another process.

    Args:
        root: Folder of the project.
        behave: What the providers do.
        settings: TOML put before the providers.
        providers: TOML of the providers.
        clock: The time.
    """

    def __init__(
        self,
        root: Path,
        behave: Behave,
        *,
        settings: str = "",
        providers: str = PROVIDER.format(id="desk"),
        clock: VirtualClock | None = None,
    ) -> None:
        self.clock = clock or VirtualClock()
        self.config = GatewayConfig.parse(settings + providers)
        self.state = LineState(root / "runtime" / FILE_NAME)
        self.store = CheckpointStore(root / "runtime", now=self.clock.now)
        self.orders = LineOrders(root / "runtime")
        gateway = LLMGateway(
            self.config,
            adapters={"desk": lambda provider: Desk(provider.id, behave, self.clock)},
            clock=self.clock,
            gate=LineGate(self.state, self.clock),
        )
        self.workspace = Workspace(
            Project(root), self.config, self.clock, self.store, gateway, self.state
        )
        self.pipeline = Pipeline.parse(PIPELINE, folder=Path())

    def add(self, count: int) -> None:
        """Import so many cases, named by their numbers."""
        for number in range(count):
            self.store.create(f"{number:03}", {"text.txt": f"Text of {number:03}.".encode()})

    def governor(self, *, owner: str = "one", concurrency: int = 4) -> LineGovernor:
        """Return a governor without chance."""
        parts = LineParts(self.store, self.config, self.clock, self.state, self.orders)
        return LineGovernor(parts, owner=owner, concurrency=concurrency, chance=lambda: 0.5)

    def run(self, options: BatchOptions | None = None, *, owner: str = "one") -> BatchReport:
        """Run the pipeline to its end, in virtual time."""
        options = options or BatchOptions(concurrency=4)
        governor = self.governor(owner=owner, concurrency=options.concurrency)
        planned = PipelineRun(self.workspace, self.pipeline, options=options, governor=governor)
        planned.prepare()
        loop = VirtualLoop(self.clock)
        try:
            with governor.at_work():
                return loop.run_until_complete(planned.run(Interruption()))
        finally:
            loop.close()

    def operations(self) -> list[IndexedOperation]:
        """Return every operation as the index knows it, by case."""
        return [
            o for case_id in sorted(self.store.list()) for o in self.store.index.operations(case_id)
        ]
