"""Keeping the results under an id of one kind: made from one request and configuration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Final

from casework.checkpoints.index import PackageIndex
from casework.checkpoints.index_rows import IndexedOperation, Planned
from casework.checkpoints.records import OperationStatus
from casework.errors import CheckpointError, InvalidRequest, OperationConflict
from casework.runner.operation_ids import first_campaign, pipeline_id
from casework.runner.pipeline import Pipeline
from casework.runtime.run.stale_results import ANSWERS, COMPARED_MAX, FINISHED, SAMPLE, StaleCheck

_TO_RUN: Final = (Planned.READY, OperationStatus.RETRY_PENDING)


def refuse_mixed_results(
    pipeline: Pipeline, index: PackageIndex, stale: StaleCheck, *, cases: Sequence[str]
) -> None:
    """Refuse to go on where finished results stand under the same id for another request.

    One finished operation is compared for each id, without calling anybody, since every run before
    this one has kept its ids pure. An id is refused while it has work to run; where nothing is left
    to run, its newest campaign with answers is, so that an edited prompt is never answered with old
    results in silence.

    Args:
        pipeline: What would be asked.
        index: Knows what is finished and what is to be run.
        stale: Compares a result with what would be asked.
        cases: Only these; none means all.

    Raises:
        OperationConflict: There is such an id.
        ConfigurationError: No provider is eligible.
    """
    ids = [spec.id for spec in pipeline.operations]
    to_run = {o.operation_id for o in _sample(index, _TO_RUN, cases) if stale.is_ours(o)}
    active = {pipeline_id(operation_id, ids) for operation_id in to_run}
    samples: dict[str, list[IndexedOperation]] = {}
    for operation in filter(stale.is_ours, _sample(index, FINISHED, cases)):
        samples.setdefault(operation.operation_id, []).append(operation)
    for base in ids:
        campaigns = [i for i in samples if pipeline_id(i, ids) == base]
        answered = [i for i in campaigns if samples[i][0].status is OperationStatus.SUCCESS]
        compared = {i for i in campaigns if i in to_run}
        if base not in active and answered:
            compared.add(max(answered, key=lambda i: (first_campaign(i, ids) in ids, len(i), i)))
        for operation_id in sorted(compared):
            _compare_one_of(samples[operation_id], pipeline, stale)


def _compare_one_of(
    operations: Sequence[IndexedOperation], pipeline: Pipeline, stale: StaleCheck
) -> None:
    """Compare the first of some finished operations that can be compared.

    One whose only difference are the answers that it read is not what the pipeline changed.
    """
    for operation in operations[:COMPARED_MAX]:
        try:
            parts = stale.differing(operation)
        except (CheckpointError, InvalidRequest):
            continue  # locked or damaged: the run itself will tell
        if parts is None or ANSWERS in parts:
            continue
        if parts:
            raise OperationConflict(
                f"operation {operation.operation_id!r} was begun with other "
                f"{', '.join(parts)}; its results are kept and not mixed with others",
                where=f"pipeline {pipeline.name!r}",
                remedy="casework retry --stale asks anew under a later id; or give the "
                "operation a new id in the pipeline, or restore what changed",
            )
        return


def _sample(
    index: PackageIndex, statuses: Sequence[OperationStatus | Planned], cases: Sequence[str]
) -> Iterator[IndexedOperation]:
    """Yield some of the selected operations that are in one of these states."""
    for status in statuses:
        if cases:
            chosen = chain.from_iterable(map(index.operations, cases))
            yield from (o for o in chosen if status in (o.status, o.planned))
        else:
            yield from index.in_status(status, limit=SAMPLE)
