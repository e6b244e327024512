"""Planning a pipeline's work, and letting go what waited for other operations of its case."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from casework.checkpoints.index_plans import HeldRule
from casework.checkpoints.index_rows import IndexedOperation, Planned
from casework.checkpoints.records import OperationStatus, operation_hash
from casework.checkpoints.store import CheckpointStore
from casework.errors import OperationConflict
from casework.runner.chunk_ids import chunk_id
from casework.runner.operation_ids import first_campaign, pipeline_id
from casework.runner.operation_spec import OperationSpec
from casework.runner.pipeline import Pipeline
from casework.runtime.line.governor import Hold, HoldReason
from casework.runtime.line.work import Work
from casework.runtime.run.case_requests import CaseRequests, NotReady
from casework.strict_json import JSON, digest

_LEFT: Final = Hold(HoldReason.NEEDS, None)


class HeldWork:
    """Keeps the index in step with what a pipeline's operations need of each other.

    The index only caches: whatever it says, work is judged anew from its package before anybody is
    asked.

    Args:
        pipeline: Whose work it is.
        store: Where the packages lie.
        requests: Judges a piece of work from its package.
        wake: Takes up work that was put back and may run now.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        store: CheckpointStore,
        *,
        requests: CaseRequests,
        wake: Callable[[Work], None],
    ) -> None:
        self._specs = {spec.id: spec for spec in pipeline.operations}
        self._held = {s.id: s for s in pipeline.operations if s.needs or s.chunking}
        self._rules = _rules(self._held)
        self._store = store
        self._requests = requests
        self._wake = wake

    def plan(self) -> None:
        """Plan what is missing in every case; what needs others waits until they have answers."""
        index = self._store.index
        index.plan(list(self._specs), held=self._held, keep=self._is_part)
        if self._rules:
            index.let_go(self._rules)

    def put_back(self, work: Work, reason: NotReady) -> Hold:
        """Note why work may not run, and plan the parts that it waits for.

        Raises:
            OperationConflict: A part was begun that the document, as it is split now, does not
                have.
        """
        index, revision = self._store.index, self._store.open(work.case_id).analysis_revision
        ophash = operation_hash(revision, work.operation_id)
        if reason.planned is None:
            if any(o.ophash == ophash and o.status for o in index.operations(work.case_id)):
                raise OperationConflict(
                    f"operation {work.operation_id!r} was begun with other parts",
                    where=work.case_id,
                    remedy="restore what was changed in the pipeline, or begin the case anew with "
                    "casework revise",
                )
            index.drop_planned(work.case_id, ophash)
            return _LEFT
        if reason.missing_parts:
            index.plan(reason.missing_parts, case_id=work.case_id)
        index.set_planned(work.case_id, ophash, reason.planned)
        if reason.planned is Planned.SKIPPED:
            self.settle(work.case_id)
        return _LEFT

    def settle(self, case_id: str) -> None:
        """Let go, or skip, what waited in a case for an answer that is there now.

        Raises:
            CheckpointError: The package or the index cannot be read.
        """
        if not self._held:
            return
        rows = self._store.index.operations(case_id)
        waiting = [row for row in rows if _waits(row)]
        if not waiting:
            return
        answers = self._requests.answers(self._store.open(case_id))
        for row in waiting:
            spec = self._held.get(pipeline_id(row.operation_id, self._specs))
            if spec is None:
                continue
            planned = answers.readiness(spec)
            if planned is Planned.READY and self._waits_for_parts(spec, row, rows):
                continue
            if planned is not row.planned:
                self._store.index.set_planned(case_id, row.ophash, planned)
            if planned is Planned.READY:
                self._wake(Work(case_id, row.package_id, row.operation_id))

    def _waits_for_parts(
        self, spec: OperationSpec, row: IndexedOperation, rows: list[IndexedOperation]
    ) -> bool:
        """Tell whether an operation, itself no part, has parts without an answer."""
        if row.planned is None or spec.chunking is None or self._is_part(row.operation_id):
            return False
        return any(
            other.standing is not OperationStatus.SUCCESS
            for other in rows
            if self._is_part(other.operation_id)
            and pipeline_id(other.operation_id, self._specs) == spec.id
        )

    def _is_part(self, operation_id: str) -> bool:
        """Tell whether this is a part of a document that an operation of ours splits."""
        part = chunk_id(first_campaign(operation_id, self._specs))
        spec = self._specs.get(part.base) if part else None
        return spec is not None and spec.chunking is not None


def _waits(row: IndexedOperation) -> bool:
    """Tell whether work may be waiting for others: held, or asked again before they were."""
    begun_anew = row.status is OperationStatus.RETRY_PENDING and row.rounds_completed == 0
    return row.planned is Planned.HELD or begun_anew


def _rules(held: Mapping[str, OperationSpec]) -> tuple[HeldRule, ...]:
    """Return what each operation waits for; its digest covers the rules of those it needs too."""
    rules: dict[str, HeldRule] = {}
    for spec in held.values():
        conditions: list[JSON] = [
            [one.operation, one.pointer, one.kind.value, one.value] for one in spec.when
        ]
        below: list[JSON] = [[need, rules[need].digest] for need in spec.needs if need in rules]
        rules[spec.id] = HeldRule(
            operation_id=spec.id,
            needs=spec.needs,
            has_parts=spec.chunking is not None,
            digest=digest(["held/1", list(spec.needs), conditions, below]),
        )
    return tuple(rules.values())
