"""Gathering the status of a project from its index, its runs and its settings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from casework.checkpoints.call_names import is_call
from casework.checkpoints.inflight import Intent
from casework.checkpoints.records import OperationStatus
from casework.checkpoints.store import CheckpointStore
from casework.config.gateway_config import GatewayConfig
from casework.errors import CaseworkError, ConfigurationError, StorageError
from casework.gateway.clock import SystemClock
from casework.gateway.llm_gateway import LLMGateway
from casework.gateway.privacy import Eligibility, judge
from casework.runner.inbox_items import reasons
from casework.runner.pipeline import Pipeline
from casework.runtime.line.line_state import FILE_NAME, LineState
from casework.runtime.line.orders import LineOrders
from casework.runtime.project import Project
from casework.runtime.run.session_record import SessionRecords
from casework.runtime.run.stale_results import Stale, StaleCheck
from casework.runtime.run.state_counts import of_index
from casework.runtime.views.line_standing import LineStanding, line_standing
from casework.runtime.views.status_view import StatusView
from casework.runtime.views.travel import travel_sentence


@dataclass(frozen=True, slots=True)
class ProjectSettings:
    """What could be read of a project's settings; a look back needs none of them."""

    config: GatewayConfig | None
    pipeline: Pipeline | None
    problem: CaseworkError | None
    """Why something is missing here."""

    @property
    def verdicts(self) -> tuple[Eligibility, ...]:
        """Return who may be asked."""
        return judge(self.config, None) if self.config else ()


def read_settings(project: Project, pipeline_file: Path | None = None) -> ProjectSettings:
    """Read settings and pipeline as far as they can be read."""
    config: GatewayConfig | None = None
    try:
        config = GatewayConfig.load(project.config_file)
        pipeline = Pipeline.load(project.pipeline_file(pipeline_file))
    except ConfigurationError as error:
        return ProjectSettings(config, None, error)
    return ProjectSettings(config, pipeline, None)


def project_status(
    project: Project, store: CheckpointStore, settings: ProjectSettings
) -> StatusView:
    """Gather the status; cheap, however many cases there are, unless many of them failed."""
    index, records = store.index, SessionRecords(store)
    interrupted = _interrupted(store)
    cut_off = {(intent.case_id, intent.ophash) for intent in interrupted}
    at_work = [
        intent
        for intent in store.inflight.list()
        if (intent.case_id, intent.ophash) not in cut_off and not is_call(intent.operation_id)
    ]
    sessions = records.list()
    usage, exact = records.totals()
    found, waiting = reasons(index)
    alive = tuple(filter(records.is_alive, sessions))
    newest = next(reversed(alive or sessions), None)
    return StatusView(
        project=project.name,
        profile=settings.config.privacy_profile.value if settings.config else None,
        travel=travel_sentence(settings.verdicts),
        pipeline=settings.pipeline.name if settings.pipeline else None,
        counts=of_index(
            index.counts(),
            len(settings.pipeline.operations) if settings.pipeline else 0,
            running=[_status_of(store, intent) for intent in at_work],
        ),
        usage=usage,
        reasons=found,
        next_due_at=index.next_due_at(),
        session=newest,
        session_alive=newest in alive,
        at_work=alive,
        sessions=records.sessions(),
        usage_exact=exact,
        passed_over=tuple(
            (verdict.provider.id, verdict.reason.value)
            for verdict in settings.verdicts
            if not verdict.eligible
        ),
        interrupted=interrupted,
        inbox=waiting,
        line=_line(store, settings),
    )


def _line(store: CheckpointStore, settings: ProjectSettings) -> LineStanding:
    """Return how the line stands; where nothing was ever shared, nothing is written either."""
    folder = store.folder
    state = None
    if folder is not None and (folder / FILE_NAME).exists():
        state = LineState(folder / FILE_NAME)
    orders, clock = LineOrders(folder), SystemClock()
    try:
        return line_standing(orders, state, config=settings.config, clock=clock)
    finally:
        if state is not None:
            state.close()


def stale_samples(store: CheckpointStore, settings: ProjectSettings) -> Iterator[Stale]:
    """Yield one stale result of each operation whose results are; nothing without settings."""
    if settings.config is None or settings.pipeline is None:
        return
    with suppress(CaseworkError):
        yield from StaleCheck(settings.pipeline, store, LLMGateway(settings.config)).sampled()


def _interrupted(store: CheckpointStore) -> tuple[Intent, ...]:
    """Return the rounds that a crash cut off; a folder that may not be written tells them too."""
    with suppress(StorageError):
        return store.recover()
    return store.inflight.list()


def _status_of(store: CheckpointStore, intent: Intent) -> OperationStatus | None:
    for operation in store.index.operations(intent.case_id):
        if operation.ophash == intent.ophash:
            return operation.status
    return None
