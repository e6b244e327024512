"""One run of a pipeline: checked before anything is paid for, then driven to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Final, TypeVar

from casework.checkpoints.index_pages import every_operation
from casework.checkpoints.index_rows import IndexedOperation
from casework.checkpoints.inflight import Intent
from casework.errors import LimitReached
from casework.gateway.plan import AnyOperationPlan
from casework.runner.operation import ResultStatus
from casework.runner.operation_ids import pipeline_id
from casework.runner.operation_result import OperationResult
from casework.runner.pipeline import Pipeline
from casework.runtime.line.claimant import Claimant, new_worker
from casework.runtime.line.due_queue import DueQueue
from casework.runtime.line.governor import Governor, Hold, HoldReason, OpenLine
from casework.runtime.line.local_engine import EngineParts
from casework.runtime.line.work import Work
from casework.runtime.run.batch import Batch, BatchOptions, BatchReport
from casework.runtime.run.case_requests import CaseRequests, NotReady
from casework.runtime.run.disk_threads import DiskThreads
from casework.runtime.run.held_work import HeldWork
from casework.runtime.run.interruption import Interruption
from casework.runtime.run.mixed_results import refuse_mixed_results
from casework.runtime.run.requests import NamedText, PreparedRequest, RequestBuilder
from casework.runtime.run.stale_results import StaleCheck
from casework.runtime.run.state_counts import StateCounts, of_index, of_operations
from casework.runtime.workspace import Workspace, require_cases

ALONE_SECONDS: Final = 30.0
"""How long it is believed that no other pipeline has operations here, or that one has."""

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Ready:
    """What is known before the first call."""

    interrupted: tuple[Intent, ...]
    """Rounds that a crash cut off: their calls may have been made, and paid for, in vain."""
    counts: StateCounts


class PipelineRun:
    """Drive a pipeline over the cases of a workspace.

    Args:
        workspace: Where.
        pipeline: What.
        options: How far and how fast.
        cases: Only these; none means all.
        governor: What may hold the line back; nothing does by default.

    Raises:
        ConfigurationError: The pipeline's templates cannot be used.
    """

    def __init__(
        self,
        workspace: Workspace,
        pipeline: Pipeline,
        *,
        options: BatchOptions,
        cases: Sequence[str] = (),
        governor: Governor | None = None,
    ) -> None:
        self.workspace = workspace
        self.pipeline = pipeline
        self.governor: Governor = governor or OpenLine()
        self.cases = tuple(dict.fromkeys(cases))
        self._specs = {spec.id: spec for spec in pipeline.operations}
        self._builder = RequestBuilder(pipeline, workspace.config.privacy_profile)
        self._requests = CaseRequests(self._builder, workspace.store)
        self._stale = StaleCheck(pipeline, workspace.store, workspace.gateway)
        self._threads = DiskThreads(workspace.store.disk_threads(options.concurrency))
        self._runner = workspace.runner(self._threads.ending, self._threads.beginning)
        self._index = workspace.store.index
        self._alone: tuple[float, bool] | None = None
        claimant = Claimant(workspace.store, options.worker or new_worker(), options.claims)
        queue = DueQueue(
            self._index,
            workspace.clock,
            claimant=claimant,
            operations=self._specs,
            cases=self.cases,
            replan=self._plan,
        )
        self._held = HeldWork(
            pipeline, workspace.store, requests=self._requests, wake=queue.want_again
        )
        self.batch = Batch(
            workspace.store,
            EngineParts(workspace.store, queue, claimant, workspace.clock, self.governor),
            dispatch=self._dispatch,
            clock=workspace.clock,
            options=options,
        )

    def prepare(self) -> Ready:
        """Check the configuration and the disk, and plan what is missing; nobody is called.

        Raises:
            ConfigurationError: No provider is eligible, or a key is missing.
            StorageError: The disk does not keep what packages rest on.
            PackageNotFound: A case that was named does not exist.
        """
        for spec in self.pipeline.operations:
            probe = self._builder.build(spec, [NamedText("probe", "probe")])
            self.workspace.gateway.plan(probe.request)
        store = self.workspace.store
        store.prove()
        interrupted = store.recover()
        require_cases(store, self.cases)
        self._held.plan()
        return Ready(interrupted, self.counts())

    async def run(self, interruption: Interruption) -> BatchReport:
        """Run what is due until nothing selected is left to do.

        Raises:
            OperationConflict: Results stand under an operation's id for another request or
                configuration; nothing was called.
            CaseworkError: As :meth:`Batch.run` does.
        """
        try:
            await self._in_thread(self._refuse_mixed)
            return await self.batch.run(interruption)
        finally:
            await self.workspace.gateway.aclose()
            self._threads.shutdown(wait=not interruption.leaving.is_set())

    def counts(self) -> StateCounts:
        """Return how many of the selected operations are in which state, as the index knows."""
        if self.cases:
            chosen = chain.from_iterable(map(self._index.operations, self.cases))
            return of_operations(len(self.cases), filter(self._is_ours, chosen))
        counted = self._index.counts()
        counts = of_index(counted, len(self._specs))
        if counts.total == counts.cases * len(self._specs) or self._is_alone():
            return counts
        # Another pipeline has operations here too; only a look at each tells them apart.
        return of_operations(counted.cases, filter(self._is_ours, every_operation(self._index)))

    def _is_alone(self) -> bool:
        """Tell whether every operation is the pipeline's, though some are parts of documents."""
        now = self.workspace.clock.monotonic()
        if self._alone is None or now - self._alone[0] > ALONE_SECONDS:
            ids = self._index.operation_ids()
            ours = all(pipeline_id(one, self._specs) in self._specs for one in ids)
            self._alone = now, ours
        return self._alone[1]

    def _plan(self) -> None:
        self._held.plan()

    def _refuse_mixed(self) -> None:
        refuse_mixed_results(self.pipeline, self._index, self._stale, cases=self.cases)

    async def _dispatch(self, work: Work) -> OperationResult | Hold:
        """Build the request from the case's texts and run its round, or refuse it unasked."""
        prepared = await self._in_thread(
            lambda: self._requests.prepare(work.case_id, work.operation_id)
        )
        if isinstance(prepared, NotReady):
            return await self._in_thread(lambda: self._held.put_back(work, prepared))
        result = await self._ask(work, prepared)
        if isinstance(result, OperationResult) and result.status is ResultStatus.SUCCESS:
            await self._in_thread(lambda: self._held.settle(work.case_id))
        return result

    async def _ask(self, work: Work, prepared: PreparedRequest) -> OperationResult | Hold:
        """Run the round of a request, unless the governor holds it back, or refuse it unasked."""
        plan = self.workspace.gateway.plan(prepared.request)
        if prepared.rejection is not None:
            plan = replace(plan, targets=())
        hold = self.governor.reserve(work, plan)
        if hold is not None:
            return hold
        result: OperationResult | None = None
        try:
            result = await self._round(work, prepared, plan)
        except LimitReached as reached:
            return Hold(HoldReason.LIMIT, reached.seconds)
        finally:
            self.governor.ended(work, result)
        return result

    async def _round(
        self, work: Work, prepared: PreparedRequest, plan: AnyOperationPlan
    ) -> OperationResult:
        names = (work.case_id, work.package_id)
        if prepared.rejection is not None:
            return await self._runner.reject(
                *names,
                operation_id=work.operation_id,
                request=prepared.request,
                kind=prepared.rejection,
                generation=prepared.generation,
            )
        return await self._runner.run(
            *names,
            operation_id=work.operation_id,
            request=prepared.request,
            plan=plan,
            generation=prepared.generation,
        )

    def _is_ours(self, operation: IndexedOperation) -> bool:
        return pipeline_id(operation.operation_id, self._specs) in self._specs

    def next_due_at(self) -> datetime | None:
        """Return when the next of the selected operations that were begun may run."""
        if not self.cases:
            return self._index.next_due_at()
        chosen = filter(self._is_ours, chain.from_iterable(map(self._index.operations, self.cases)))
        return min((o.due_at for o in chosen if o.due_at and o.status), default=None)

    async def _in_thread(self, call: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads.beginning, call)
