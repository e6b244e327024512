"""A result beside the lines of the source that it quotes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from casework.checkpoints.names import outcome_path
from casework.checkpoints.package_files import refuse_forgotten
from casework.checkpoints.records import OperationState
from casework.checkpoints.reviews import Review
from casework.checkpoints.store import CheckpointStore
from casework.checkpoints.transitions import may_be_reviewed
from casework.errors import PackageNotFound
from casework.json_pointer import flatten
from casework.runner.data_selection import DataSelector, select_texts
from casework.runner.outcome_files import read_outcome
from casework.runner.reviews import standing_answer, view_token
from casework.runtime.views import phrases
from casework.strict_json import JSON, JSONObject

CONTINUED: Final = "\n      | "
"""Begins the further lines of what a model or a person wrote."""

QUOTE_CHARACTERS_MIN: Final = 4
"""Shorter texts stand in every document and prove nothing."""


@dataclass(frozen=True, slots=True)
class Quote:
    """A text of the answer that stands in the source, letter by letter."""

    pointer: str
    """JSON Pointer into the answer."""
    file: str
    line: int
    """Where it begins, counted from 1."""
    text: str


@dataclass(frozen=True, slots=True)
class OperationEvidence:
    """One operation with its answer and what the answer quotes."""

    state: OperationState
    output: JSON
    """What stands; after a rejection what was rejected."""
    quotes: tuple[Quote, ...]
    provider: str | None
    """Who gave the answer or the final error; None where nobody did."""
    model: str | None
    said: JSON = None
    """What the model answered, whatever a person made of it."""
    review: Review | None = None
    """The newest decision about it."""
    view: str | None = None
    """What a decision refers to; None where nothing can be decided."""

    def to_json(self) -> JSONObject:
        """Return it as JSON output carries it."""
        state = self.state
        return {
            "operation_id": state.operation_id,
            "status": state.status.value,
            "error": state.error.to_json() if state.error else None,
            "retry_at": phrases.utc_time(state.routing.retry_at),
            "rounds": state.rounds_completed,
            "provider": self.provider,
            "model": self.model,
            "output": self.output,
            "model_output": self.said,
            "review": _review_to_json(self.review),
            "view": self.view,
            "evidence": [
                {"pointer": q.pointer, "file": q.file, "line": q.line, "text": q.text}
                for q in self.quotes
            ],
        }

    def lines(self) -> Iterator[str]:
        """Yield it for people; texts of many lines are set in, so that none looks like ours."""
        return (line.replace("\n", CONTINUED) for line in self._lines())

    def _lines(self) -> Iterator[str]:
        state = self.state
        why = f"  {state.error.code}" if state.error else ""
        if state.error and state.error.http_status is not None:
            why += f" (HTTP {state.error.http_status})"
        view = f"  view {self.view}" if self.view else ""
        rounds = f"rounds {state.rounds_completed}"
        yield f"{state.operation_id}  {state.status.value}{why}  {rounds}{view}"
        if self.provider is not None:
            yield f"  answered by {self.provider} ({self.model})"
        if state.resumed_as is not None:
            yield f"  lives on as {state.resumed_as}"
        elif state.routing.retry_at is not None:
            yield f"  may go on from {phrases.local_time(state.routing.retry_at)}"
        if self.review is not None:
            yield _review_line(self.review)
        said = dict(_leaves(self.said))
        for pointer, value in _leaves(self.output):
            model = said.get(pointer)
            # True and 1 are equal and not the same; so are texts of them.
            changed = self.said is not None and (type(model), model) != (type(value), value)
            note = f"   (the model: {phrases.value(model)})" if changed and pointer in said else ""
            yield f"  {pointer or '(answer)'}: {phrases.value(value)}{note}"
        for quote in self.quotes:
            yield f"  {quote.pointer} stands in {quote.file}, line {quote.line}"


@dataclass(frozen=True, slots=True)
class CaseEvidence:
    """A case: its operations and its texts."""

    case_id: str
    operations: tuple[OperationEvidence, ...]
    texts: tuple[tuple[str, str], ...]
    """Name and text of each source."""

    def to_json(self) -> JSONObject:
        """Return it as JSON output carries it."""
        return {
            "case_id": self.case_id,
            "operations": [operation.to_json() for operation in self.operations],
            "texts": [{"name": name, "text": text} for name, text in self.texts],
        }

    def lines(self) -> Iterator[str]:
        """Yield it for people: the results, then the sources with line numbers."""
        yield f"case {self.case_id}"
        for operation in self.operations:
            yield from operation.lines()
        marked = {(q.file, q.line) for operation in self.operations for q in operation.quotes}
        for name, text in self.texts:
            yield f"--- {name}"
            for number, line in enumerate(text.split("\n"), start=1):
                mark = ">" if (name, number) in marked else " "
                yield f"{mark}{number:>5}  {line}"


def case_evidence(
    store: CheckpointStore, case_id: str, operation_id: str | None = None
) -> CaseEvidence:
    """Gather the results of a case and find in its texts what they quote.

    Raises:
        PackageNotFound: There is no such case, or it has no such operation.
        IntegrityError: The package is damaged.
    """
    head = store.open(case_id)
    refuse_forgotten(head)
    texts = tuple(
        (part.name, store.read_file(case_id, part.path).decode("utf-8", "replace"))
        for part in select_texts(DataSelector(), store.files(case_id))
    )
    states = [
        state for state in head.operations.values() if operation_id in (None, state.operation_id)
    ]
    if operation_id is not None and not states:
        raise PackageNotFound(
            "the case has no such operation",
            code="operation_not_found",
            where=case_id,
            remedy="those that have run are listed by `casework inspect CASE`",
        )
    found = []
    for state in sorted(states, key=lambda s: (s.analysis_revision, s.operation_id)):
        body: JSONObject = {}
        if state.rounds_completed:
            path = outcome_path(state.ophash, state.rounds_completed)
            body = read_outcome(store.read_file(case_id, path)).body
        said, provider, model = (body.get(name) for name in ("output", "provider", "model"))
        standing, review = standing_answer(state, lambda path: store.read_file(case_id, path))
        output = standing if review is None or review.stands else review.output
        open_to = may_be_reviewed(state, head.analysis_revision)
        found.append(
            OperationEvidence(
                state,
                output,
                tuple(_quotes(output, texts)),
                str(provider) if provider is not None else None,
                str(model) if model is not None else None,
                said,
                review,
                view_token(head.package_id, state) if open_to else None,
            )
        )
    return CaseEvidence(case_id, tuple(found), texts)


def _review_line(review: Review) -> str:
    why = f": {review.reason}" if review.reason else ""
    return (
        f"  {review.verdict.value} by {review.actor} {phrases.local_time(review.decided_at)}{why}"
    )


def _review_to_json(review: Review | None) -> JSON:
    if review is None:
        return None
    return {
        "verdict": review.verdict.value,
        "number": review.number,
        "actor": review.actor,
        "decided_at": phrases.utc_time(review.decided_at),
        "reason": review.reason,
        "corrections": [{"pointer": c.pointer, "value": c.value} for c in review.corrections],
    }


def _quotes(output: JSON, texts: tuple[tuple[str, str], ...]) -> Iterator[Quote]:
    for pointer, value in _leaves(output):
        if not isinstance(value, str) or len(value) < QUOTE_CHARACTERS_MIN:
            continue
        for name, text in texts:
            at = text.find(value)
            if at >= 0:
                yield Quote(pointer, name, text.count("\n", 0, at) + 1, value)


def _leaves(output: JSON) -> Iterator[tuple[str, JSON]]:
    """Yield the single values of an answer; where there is no answer there are none."""
    for pointer, value in flatten(output):
        if not isinstance(value, dict | list) and (pointer or value is not None):
            yield pointer, value
