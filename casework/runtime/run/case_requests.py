"""From one piece of work to its request, as the newest generation of its case allows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from casework.checkpoints.fold import PackageHead
from casework.checkpoints.index_rows import Planned
from casework.checkpoints.store import CheckpointStore
from casework.gateway.errors import FailureKind
from casework.json_pointer import lookup
from casework.runner.case_answers import CaseAnswers
from casework.runner.chunk_ids import ChunkId, chunk_id
from casework.runner.chunking import split_text
from casework.runner.data_selection import OutputSelector, join_texts, output_text, select
from casework.runner.documents.coverage import measure
from casework.runner.operation_ids import first_campaign, pipeline_id
from casework.runner.operation_spec import Chunking, OperationSpec
from casework.runtime.run.requests import NamedText, PreparedRequest, RequestBuilder, read_text

PARTS_MAX: Final = 1000
"""Most parts of one document; a longer one is ``context_too_long``."""


@dataclass(frozen=True, slots=True)
class NotReady:
    """Nobody may be asked now, and why."""

    planned: Planned | None
    """HELD or SKIPPED; None for a part that the document does not have."""
    missing_parts: tuple[str, ...] = ()
    """Parts of the document that were not begun."""


class CaseRequests:
    """Prepares the work of one pipeline.

    Args:
        builder: Builds the requests.
        store: Where the packages lie.
    """

    def __init__(self, builder: RequestBuilder, store: CheckpointStore) -> None:
        self._builder = builder
        self._store = store
        self._specs = {spec.id: spec for spec in builder.pipeline.operations}

    def answers(self, head: PackageHead) -> CaseAnswers:
        """Return what the operations of a case have come to."""
        return CaseAnswers(
            head, lambda path: self._store.read_file(head.case_id, path), specs=self._specs
        )

    def prepare(self, case_id: str, operation_id: str) -> PreparedRequest | NotReady:
        """Return the request of an operation or part, or why it may not run.

        What it rests on is judged anew from the package; the request says for which generation
        that holds.

        Raises:
            InvalidRequest: A selected file is no text.
            CheckpointError: The package cannot be read.
        """
        head = self._store.open(case_id)
        spec = self._specs[pipeline_id(operation_id, self._specs)]
        first = first_campaign(operation_id, self._specs)
        part = None if first in self._specs else chunk_id(first)
        answers = self.answers(head)
        if spec.needs:
            planned = answers.readiness(spec)
            if planned is not Planned.READY:
                return NotReady(planned)
        texts = self._texts(spec, case_id, answers)
        if texts is None:
            return self._builder.refused(spec, FailureKind.DATA_MISSING)
        prepared = self._part_or_whole(spec, texts, part, answers=answers)
        if isinstance(prepared, NotReady) or not (spec.needs or spec.chunking):
            return prepared
        return replace(prepared, generation=head.generation)

    def _texts(
        self, spec: OperationSpec, case_id: str, answers: CaseAnswers
    ) -> list[NamedText] | None:
        """Return what the operation reads; None where an answer has nothing at its place."""
        texts: list[NamedText] = []
        for entry in select(spec.data, self._store.files(case_id)):
            if not isinstance(entry, OutputSelector):
                texts.append(read_text(self._store, case_id, entry))
                continue
            found, value = lookup(answers.answer(entry.operation), entry.pointer)
            if not found:
                return None
            texts.append(NamedText(entry.name, output_text(value)))
        return texts

    def _part_or_whole(
        self,
        spec: OperationSpec,
        texts: Sequence[NamedText],
        part: ChunkId | None,
        *,
        answers: CaseAnswers,
    ) -> PreparedRequest | NotReady:
        whole = join_texts([(text.name, text.text) for text in texts])
        chunking = spec.chunking
        if chunking is None or len(whole.encode("utf-8")) <= chunking.bytes_max:
            return self._builder.build(spec, texts) if part is None else NotReady(None)
        parts = parts_of(whole, chunking)
        if self._builder.build(spec, texts).rejection is FailureKind.EMPTY_INPUT:
            return self._builder.refused(spec, FailureKind.EMPTY_INPUT)
        if len(parts) > PARTS_MAX:
            return self._builder.refused(spec, FailureKind.CONTEXT_TOO_LONG)
        if part is None:
            return self._merge(spec, chunking, total=len(parts), answers=answers)
        if part.total != len(parts) or part.number > len(parts):
            return NotReady(None)
        text = NamedText(f"part {part.number} of {part.total}", parts[part.number - 1])
        return self._builder.build(spec, [text], is_part=True)

    def _merge(
        self, spec: OperationSpec, chunking: Chunking, *, total: int, answers: CaseAnswers
    ) -> PreparedRequest | NotReady:
        """Return the request over the answers of all parts, or which of them are missing."""
        ids = [str(ChunkId(spec.id, number, total)) for number in range(1, total + 1)]
        if not all(map(answers.is_answered, ids)):
            missing = tuple(name for name in ids if answers.state(name) is None)
            return NotReady(Planned.HELD, missing)
        joined = [
            NamedText(f"part {number} of {total}", output_text(answers.answer(name)))
            for number, name in enumerate(ids, start=1)
        ]
        return self._builder.build(replace(spec, task=chunking.merge_task), joined)


def parts_of(text: str, chunking: Chunking) -> tuple[str, ...]:
    """Return the parts of a text that hold anything to read, in order."""
    chunks = split_text(text, chunk_bytes=chunking.bytes_max, overlap_bytes=chunking.overlap_bytes)
    return tuple(chunk.text for chunk in chunks if measure(chunk.text).characters)
