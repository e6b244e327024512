"""Wiring: from a project's files to a store, a gateway and a runner that belong together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from random import random

from casework.checkpoints.store import CheckpointStore
from casework.config.gateway_config import GatewayConfig
from casework.errors import ConfigurationError, PackageNotFound
from casework.gateway.clock import Clock, SystemClock
from casework.gateway.llm_gateway import LLMGateway
from casework.gateway.providers.provider import ProviderFactory
from casework.runner.case_runner import CaseLLMRunner
from casework.runner.pipeline import Pipeline
from casework.runtime.line.line_gate import LineGate
from casework.runtime.line.line_governor import LineGovernor, LineParts
from casework.runtime.line.line_state import FILE_NAME, LineState
from casework.runtime.line.orders import LineOrders
from casework.runtime.project import Project


def open_store(project: Project, clock: Clock) -> CheckpointStore:
    """Return the project's store; nothing is read or written yet."""
    return CheckpointStore(project.runtime, now=clock.now)


@dataclass(frozen=True, slots=True)
class Workspace:
    """A project with its settings read and its store and gateway made."""

    project: Project
    config: GatewayConfig
    clock: Clock
    store: CheckpointStore
    gateway: LLMGateway
    line: LineState = field(default_factory=lambda: LineState(None))
    """What the processes of the project share of their line."""

    @classmethod
    def open(
        cls,
        project: Project,
        *,
        config_file: Path | None = None,
        clock: Clock | None = None,
        adapters: Mapping[str, ProviderFactory] | None = None,
    ) -> Workspace:
        """Read the project's settings and wire what they describe; nobody is contacted.

        Args:
            project: Where.
            config_file: Other settings than the project's own.
            clock: The time; the machine's by default.
            adapters: Factories for adapters that Casework does not ship.

        Raises:
            ConfigurationError: The settings cannot be used.
        """
        config = GatewayConfig.load(config_file or project.config_file)
        ticking = clock or SystemClock()
        line = LineState(project.runtime / FILE_NAME)
        gate = LineGate(line, ticking)
        return cls(
            project,
            config,
            ticking,
            open_store(project, ticking),
            LLMGateway(config, adapters=adapters, clock=ticking, gate=gate),
            line,
        )

    def pipeline(self, given: Path | None = None) -> Pipeline:
        """Read the project's pipeline.

        Raises:
            ConfigurationError: There is none, or it cannot be used.
        """
        engine = self.config.validation.engine
        return Pipeline.load(self.project.pipeline_file(given), engine=engine)

    def governor(
        self, owner: str, *, concurrency: int, run_budget: Decimal | None = None
    ) -> LineGovernor:
        """Return what holds the line of one process back; see :class:`LineGovernor`."""
        orders = LineOrders(self.store.folder)
        return LineGovernor(
            LineParts(self.store, self.config, self.clock, self.line, orders),
            owner=owner,
            concurrency=concurrency,
            chance=random,
            run_budget=run_budget,
        )

    def runner(self, executor: Executor, opening: Executor | None = None) -> CaseLLMRunner:
        """Return a runner whose work on the disk is done by these threads."""
        return CaseLLMRunner(self.store, self.gateway, executor=executor, opening=opening)


def require_cases(store: CheckpointStore, case_ids: Iterable[str]) -> None:
    """Make sure that there are cases of these ids.

    Raises:
        PackageNotFound: There is none of one of them.
    """
    for case_id in case_ids:
        try:
            store.open(case_id)
        except PackageNotFound:
            raise PackageNotFound(
                "there is no such case",
                where=case_id,
                remedy="`casework inspect --all` names the cases",
            ) from None


def existing_store(project: Project, clock: Clock | None = None) -> CheckpointStore:
    """Return the store of a project that has cases; settings are not needed.

    Raises:
        ConfigurationError: Nothing was ever imported there.
    """
    if not project.runtime.is_dir():
        raise ConfigurationError(
            "there are no cases here",
            code="no_cases",
            where=str(project.folder),
            remedy="import some with `casework import PATH`, or name the project with --project",
        )
    return open_store(project, clock or SystemClock())
