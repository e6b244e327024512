"""The answers of one case, as they stand at one generation of its package."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from casework.checkpoints.fold import PackageHead
from casework.checkpoints.index_rows import Planned
from casework.checkpoints.records import OperationState, OperationStatus, operation_hash
from casework.runner.operation_spec import OperationSpec
from casework.runner.readiness import Standing, readiness
from casework.runner.reviews import standing_answer
from casework.strict_json import JSON


class CaseAnswers:
    """What the operations of a case have come to, each in its newest campaign.

    Args:
        head: The package.
        read: Returns the bytes of one of its files.
        specs: The operations of the pipeline by id.
    """

    def __init__(
        self,
        head: PackageHead,
        read: Callable[[str], bytes],
        *,
        specs: Mapping[str, OperationSpec],
    ) -> None:
        self._head = head
        self._read = read
        self._specs = specs
        self._answers: dict[str, JSON] = {}
        self._standings: dict[str, Standing] = {}

    def state(self, operation_id: str) -> OperationState | None:
        """Return the state of an operation's newest campaign in the current revision."""
        state = self._state(operation_id)
        while state is not None and state.resumed_as is not None:
            state = self._state(state.resumed_as)
        return state

    def is_answered(self, operation_id: str) -> bool:
        """Tell whether an answer stands."""
        state = self.state(operation_id)
        return state is not None and state.standing is OperationStatus.SUCCESS

    def answer(self, operation_id: str) -> JSON:
        """Return the answer that stands, with the corrections of people in it.

        Only for operations that are answered.

        Raises:
            CheckpointError: It cannot be read.
        """
        if operation_id not in self._answers:
            state = self.state(operation_id)
            assert state is not None, "only an answered operation is asked for its answer"
            self._answers[operation_id] = standing_answer(state, self._read)[0]
        return self._answers[operation_id]

    def readiness(self, spec: OperationSpec) -> Planned:
        """Return whether an operation may run, from the needs that its pipeline gives it.

        Raises:
            CheckpointError: An answer that a condition looks at cannot be read.
        """
        standing = {need: self._standing(need) for need in spec.needs}
        return readiness(spec.needs, spec.when, standing=standing, answer=self.answer)

    def _standing(self, operation_id: str) -> Standing:
        known = self._standings.get(operation_id)
        if known is None:
            known = self._standings[operation_id] = self._judged(operation_id)
        return known

    def _judged(self, operation_id: str) -> Standing:
        if self.is_answered(operation_id):
            return Standing.ANSWERED
        if self.state(operation_id) is None:
            skipped = self.readiness(self._specs[operation_id]) is Planned.SKIPPED
            return Standing.RULED_OUT if skipped else Standing.OPEN
        return Standing.OPEN

    def _state(self, operation_id: str) -> OperationState | None:
        return self._head.operations.get(operation_hash(self._head.analysis_revision, operation_id))
