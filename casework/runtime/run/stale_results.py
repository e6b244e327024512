"""Results that were made from something else than the pipeline says now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from casework.checkpoints.fold import PackageHead
from casework.checkpoints.index_pages import every_case
from casework.checkpoints.index_rows import IndexedOperation
from casework.checkpoints.names import request_path
from casework.checkpoints.records import OperationState, OperationStatus
from casework.checkpoints.store import CheckpointStore
from casework.errors import CheckpointError, FormatError, InvalidRequest
from casework.gateway.llm_gateway import LLMGateway
from casework.runner.case_answers import CaseAnswers
from casework.runner.chunk_ids import chunk_id
from casework.runner.fingerprints import OperationIdentity, differing_parts, record_request
from casework.runner.operation_ids import first_campaign, pipeline_id
from casework.runner.operation_spec import OperationSpec
from casework.runner.pipeline import Pipeline
from casework.runtime.run.case_requests import CaseRequests, NotReady
from casework.runtime.run.requests import RequestBuilder
from casework.strict_json import parse

ANSWERS: Final = "answers of other operations"
"""What differs where only the answers that an operation read have changed since."""

CHUNK: Final = "chunk"
"""What differs where a document is split otherwise now."""

SAMPLE: Final = 256
"""How many operations of a state are looked at for results of another request."""

COMPARED_MAX: Final = 3
"""How many of an id are tried until one can be compared."""

FINISHED: Final = (OperationStatus.SUCCESS, OperationStatus.ERROR, OperationStatus.BLOCKED)


@dataclass(frozen=True, slots=True)
class Stale:
    """One result, and in which parts its request or configuration differs from today's."""

    operation: IndexedOperation
    parts: tuple[str, ...]


class StaleCheck:
    """Compares stored results with what the pipeline would ask now; contacts nobody.

    Args:
        pipeline: What would be asked.
        store: Where the results lie.
        gateway: Under which configuration.

    Raises:
        ConfigurationError: The pipeline's templates cannot be used.
    """

    def __init__(self, pipeline: Pipeline, store: CheckpointStore, gateway: LLMGateway) -> None:
        self._specs = {spec.id: spec for spec in pipeline.operations}
        builder = RequestBuilder(pipeline, gateway.config.privacy_profile)
        self._requests = CaseRequests(builder, store)
        self._store = store
        self._gateway = gateway

    def is_ours(self, operation: IndexedOperation) -> bool:
        """Tell whether the pipeline has the operation, in whichever part or campaign."""
        return pipeline_id(operation.operation_id, self._specs) in self._specs

    def sampled(self) -> Iterator[Stale]:
        """Yield one stale result of each id whose results are, by a look at a few of them.

        Every run keeps the results of an id alike, so that one stands for all.

        Raises:
            ConfigurationError: No provider is eligible.
        """
        seen: Counter[str] = Counter()
        for status in FINISHED:
            for operation in self._store.index.in_status(status, limit=SAMPLE):
                name = operation.operation_id
                if seen[name] >= COMPARED_MAX or operation.verdict is not None:
                    continue  # what a person decided stands, whatever it was made from
                seen[name] += 1
                found = next(self.of([operation]), None)
                if found is not None:
                    seen[name] = COMPARED_MAX
                    yield found

    def of(
        self, operations: Iterable[IndexedOperation], *, only: str | None = None
    ) -> Iterator[Stale]:
        """Yield those of some operations that are stale; what cannot be read or told is left out.

        Args:
            operations: What to look at.
            only: Only those of this operation of the pipeline.

        Raises:
            ConfigurationError: No provider is eligible.
        """
        for operation in filter(self.is_ours, operations):
            if only not in (None, pipeline_id(operation.operation_id, self._specs)):
                continue
            try:
                parts = self.differing(operation)
            except (CheckpointError, InvalidRequest):
                continue
            if parts:
                yield Stale(operation, parts)

    def differing(self, operation: IndexedOperation) -> tuple[str, ...] | None:
        """Name what differs, nothing for a result as it would be made today.

        None where that cannot be told: no round was run yet, what the operation needs has no answer
        now, or it is a part that the document, as it is split now, does not have.

        Raises:
            ConfigurationError: No provider is eligible.
            InvalidRequest: The request of today cannot be built.
            CheckpointError: The package cannot be read.
        """
        head = self._store.open(operation.case_id)
        state = head.operations.get(operation.ophash)
        if state is None or state.request_fingerprint is None:
            return None
        prepared = self._requests.prepare(operation.case_id, operation.operation_id)
        if isinstance(prepared, NotReady):
            return (CHUNK,) if prepared.missing_parts else None
        identity = OperationIdentity(
            case_id=head.case_id,
            package_id=head.package_id,
            operation_id=operation.operation_id,
            analysis_revision=head.analysis_revision,
            phase=state.phase,
        )
        record = record_request(
            prepared.request,
            identity,
            profile=self._gateway.effective_profile(prepared.request),
            configuration=self._gateway.configuration(prepared.request),
        )
        if (state.request_fingerprint, state.config_fingerprint) == (
            record.request_fingerprint,
            record.config_fingerprint,
        ):
            return ()
        stored = parse(self._store.read_file(head.case_id, request_path(state.ophash)))
        if not isinstance(stored, dict):
            raise FormatError("a stored request is no object", where=head.case_id)
        parts = differing_parts(stored, record.body)
        spec = self._specs[pipeline_id(operation.operation_id, self._specs)]
        if "data" in parts and self._answers_moved(spec, head, state):
            return tuple(ANSWERS if part == "data" else part for part in parts)
        return parts

    def _answers_moved(self, spec: OperationSpec, head: PackageHead, state: OperationState) -> bool:
        """Tell whether an answer that the operation reads may have changed since it was run."""
        answers: CaseAnswers = self._requests.answers(head)
        since = state.last_round_at
        sources = [answers.state(output.operation) for output in spec.data.outputs]
        if spec.chunking is not None:
            sources += _current_parts(spec, head)
        for source in sources:
            if source is None or source.review is not None:
                return True
            if since is None or (source.last_round_at or since) >= since:
                return True
        return False


def _current_parts(spec: OperationSpec, head: PackageHead) -> list[OperationState | None]:
    """Return the states of the parts of a document in their newest campaigns."""
    found = (s for s in head.operations.values() if s.resumed_as is None)
    return [
        state
        for state in found
        if state.analysis_revision == head.analysis_revision
        and state.operation_id != spec.id
        and pipeline_id(state.operation_id, (spec.id,)) == spec.id
        and chunk_id(first_campaign(state.operation_id, (spec.id,))) is not None
    ]


def begun_operations(
    store: CheckpointStore, cases: Sequence[str] = ()
) -> Iterator[IndexedOperation]:
    """Yield every current operation that has a state, case by case; of some cases or of all."""
    for case_id in cases or every_case(store):
        found = store.index.operations(case_id)
        yield from (operation for operation in found if operation.status is not None)
