"""One run of a pipeline: checked before anything is paid for, then driven to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Final

from casework.checkpoints.index_pages import every_operation
from casework.checkpoints.index_rows import IndexedOperation, Planned
from casework.checkpoints.inflight import Intent
from casework.checkpoints.records import OperationStatus
from casework.errors import CheckpointError, InvalidRequest, LimitReached, OperationConflict
from casework.gateway.round import Plan
from casework.runner.case_runner import OperationResult
from casework.runner.operation import ResultStatus
from casework.runner.operation_ids import first_campaign, pipeline_id
from casework.runner.pipeline import Pipeline
from casework.runtime.line.claimant import Claimant, new_worker
from casework.runtime.line.due_queue import DueQueue
from casework.runtime.line.governor import Governor, Hold, HoldReason, OpenLine
from casework.runtime.line.local_engine import EngineParts
from casework.runtime.line.work import Work
from casework.runtime.run.batch import Batch, BatchOptions, BatchReport
from casework.runtime.run.case_requests import CaseRequests, NotReady
from casework.runtime.run.held_work import HeldWork
from casework.runtime.run.interruption import Interruption
from casework.runtime.run.requests import NamedText, PreparedRequest, RequestBuilder
from casework.runtime.run.stale_results import ANSWERS, COMPARED_MAX, FINISHED, SAMPLE, StaleCheck
from casework.runtime.run.state_counts import StateCounts, of_index, of_operations
from casework.runtime.workspace import Workspace, require_cases

ALONE_SECONDS: Final = 30.0
"""How long it is believed that no other pipeline has operations here, or that one has."""

_TO_RUN: Final = (Planned.READY, OperationStatus.RETRY_PENDING)


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
        threads = workspace.store.disk_threads(options.concurrency)
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="casework")
        self._runner = workspace.runner(self._executor)
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
            self._refuse_mixed_results()
            return await self.batch.run(interruption)
        finally:
            await self.workspace.gateway.aclose()
            self._executor.shutdown(wait=not interruption.leaving.is_set(), cancel_futures=True)

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

    async def _dispatch(self, work: Work) -> OperationResult | Hold:
        """Run an operation's round, unless the governor holds it back."""
        return await self._run_round(work, self.governor)

    async def _run_round(self, work: Work, governor: Governor) -> OperationResult | Hold:
        """Build the request from the case's texts and run its round, or refuse it unasked."""
        in_thread = partial(asyncio.get_running_loop().run_in_executor, self._executor)
        prepared = await in_thread(self._requests.prepare, work.case_id, work.operation_id)
        if isinstance(prepared, NotReady):
            return await in_thread(self._held.put_back, work, prepared)
        result = await self._ask(work, prepared, governor)
        if isinstance(result, OperationResult) and result.status is ResultStatus.SUCCESS:
            await in_thread(self._held.settle, work.case_id)
        return result

    async def _ask(
        self, work: Work, prepared: PreparedRequest, governor: Governor
    ) -> OperationResult | Hold:
        """Run the round of a request, or refuse it unasked."""
        plan = self.workspace.gateway.plan(prepared.request)
        if prepared.rejection is not None:
            plan = replace(plan, targets=())
        hold = governor.reserve(work, plan)
        if hold is not None:
            return hold
        result: OperationResult | None = None
        try:
            result = await self._round(work, prepared, plan)
        except LimitReached as reached:
            return Hold(HoldReason.LIMIT, reached.seconds)
        finally:
            governor.ended(work, result)
        return result

    async def _round(self, work: Work, prepared: PreparedRequest, plan: Plan) -> OperationResult:
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

    def _refuse_mixed_results(self) -> None:
        """Refuse to go on where finished results stand under the same id for another request.

        One finished operation is compared for each id, without calling anybody, since every run
        before this one has kept its ids pure. An id is refused while it has work to run; where
        nothing is left to run, its newest campaign with answers is, so that an edited prompt is
        never answered with old results in silence.
        """
        to_run = {operation.operation_id for operation in self._sample(_TO_RUN)}
        active = {pipeline_id(operation_id, self._specs) for operation_id in to_run}
        samples: dict[str, list[IndexedOperation]] = {}
        for operation in self._sample(FINISHED):
            samples.setdefault(operation.operation_id, []).append(operation)
        for base in self._specs:
            campaigns = [i for i in samples if pipeline_id(i, self._specs) == base]
            answered = [i for i in campaigns if samples[i][0].status is OperationStatus.SUCCESS]
            compared = {i for i in campaigns if i in to_run}
            if base not in active and answered:
                compared.add(max(answered, key=lambda i: (not self._is_part(i), len(i), i)))
            for operation_id in sorted(compared):
                self._compare_one_of(samples[operation_id])

    def _compare_one_of(self, operations: Sequence[IndexedOperation]) -> None:
        """Compare the first of some finished operations that can be compared.

        One whose only difference are the answers that it read is not what the pipeline changed.
        """
        for operation in operations[:COMPARED_MAX]:
            try:
                parts = self._stale.differing(operation)
            except (CheckpointError, InvalidRequest):
                continue  # locked or damaged: the run itself will tell
            if parts is None or ANSWERS in parts:
                continue
            if parts:
                raise OperationConflict(
                    f"operation {operation.operation_id!r} was begun with other "
                    f"{', '.join(parts)}; its results are kept and not mixed with others",
                    where=f"pipeline {self.pipeline.name!r}",
                    remedy="casework retry --stale asks anew under a later id; or give the "
                    "operation a new id in the pipeline, or restore what changed",
                )
            return

    def _sample(self, statuses: Sequence[OperationStatus | Planned]) -> Iterator[IndexedOperation]:
        """Yield some of the selected operations that are in one of these states."""
        for status in statuses:
            found: Sequence[IndexedOperation]
            if self.cases:
                chosen = chain.from_iterable(map(self._index.operations, self.cases))
                found = [
                    operation
                    for operation in chosen
                    if status in (operation.status, operation.planned)
                ]
            else:
                found = self._index.in_status(status, limit=SAMPLE)
            yield from filter(self._is_ours, found)

    def _is_part(self, operation_id: str) -> bool:
        return first_campaign(operation_id, self._specs) not in self._specs

    def _is_ours(self, operation: IndexedOperation) -> bool:
        return pipeline_id(operation.operation_id, self._specs) in self._specs
