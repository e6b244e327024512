"""A workspace in memory, whose time moves when told and whose provider plays a script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from casework.checkpoints.memory_storage import MemoryStorage
from casework.checkpoints.store import CheckpointStore
from casework.config.gateway_config import GatewayConfig
from casework.gateway.clock import Clock, ManualClock
from casework.gateway.llm_gateway import LLMGateway
from casework.gateway.providers.scripted import ScriptedProvider, Step
from casework.runner.pipeline import Pipeline
from casework.runtime.project import Project
from casework.runtime.run.batch import BatchOptions
from casework.runtime.run.pipeline_run import PipelineRun
from casework.runtime.workspace import Workspace

SETTINGS = """
[[providers]]
id = "desk"
adapter = "desk"
model = "m-1"
class = "local"
base_url = "http://127.0.0.1:9/v1"

[retry]
max_attempts = {rounds}
retry_delay_seconds = 60.0
blocked_retry_seconds = 3600.0
"""

PIPELINE = """
name = "review"
[[operations]]
id = "first"
task = "Answer."
output_schema = { type = "object", required = ["answer"] }
"""

SECOND = """
[[operations]]
id = "second"
task = "Answer again."
output_schema = { type = "object", required = ["answer"] }
"""


class Desk:
    """A workspace with cases, one provider and one pipeline.

    Args:
        steps: What the provider does, call by call; the last step is repeated.
        texts: The text of each case.
        pipeline: The pipeline file.
        rounds: Budget of every operation.
        clock: The time; one that moves when told by default.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        *,
        texts: Mapping[str, str] | None = None,
        pipeline: str = PIPELINE,
        rounds: int = 3,
        clock: Clock | None = None,
    ) -> None:
        self.clock = clock or ManualClock()
        self.provider = ScriptedProvider(steps, clock=self.clock, repeat_last=True)
        config = GatewayConfig.parse(SETTINGS.format(rounds=rounds))
        self.store = CheckpointStore(MemoryStorage(), now=self.clock.now)
        gateway = LLMGateway(
            config, adapters={"desk": lambda _config: self.provider}, clock=self.clock
        )
        self.workspace = Workspace(Project(Path("desk")), config, self.clock, self.store, gateway)
        self.pipeline = Pipeline.parse(pipeline, folder=Path())
        for case_id, text in (texts or {"a": "One.", "b": "Two.", "c": "Three."}).items():
            self.store.create(case_id, {"text.txt": text.encode()})

    def run(self, options: BatchOptions | None = None, *, cases: Sequence[str] = ()) -> PipelineRun:
        """Prepare a run of the pipeline."""
        planned = PipelineRun(
            self.workspace, self.pipeline, options=options or BatchOptions(), cases=cases
        )
        planned.prepare()
        return planned
