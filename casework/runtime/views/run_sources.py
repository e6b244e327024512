"""What a person calls a run: an operation of the project, another project, or an exported file."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from casework.checkpoints.call_names import is_call
from casework.checkpoints.index_pages import every_case
from casework.checkpoints.records import OperationState, OperationStatus, PackageStatus
from casework.checkpoints.store import CheckpointStore
from casework.errors import CheckpointError, ConfigurationError
from casework.runner.chunk_ids import chunk_id
from casework.runner.export import ExportRow
from casework.runner.operation_ids import first_campaign, later_campaigns, pipeline_id
from casework.runner.run_diff import Answer, AnswerSpool
from casework.runtime.project import Project
from casework.runtime.views.export_rows import row_of
from casework.runtime.views.status_report import read_settings
from casework.runtime.workspace import existing_store
from casework.strict_json import InvalidJSON, JSONObject, parse

LINE_BYTES_MAX: Final = 64 * 1024 * 1024
_NAMES_SHOWN: Final = 20
_DEPTH_MAX: Final = 256
_ENDING: Final = ".jsonl"


@dataclass(frozen=True, slots=True)
class RunName:
    """A run as a person named it."""

    text: str
    place: Path | None
    """Another project's folder or an exported file; None means this project."""
    operation_id: str | None
    """Exactly this id; None means the answers that hold now."""


def read_run_name(text: str) -> RunName:
    """Tell what a person means.

    A path that exists, a name that ends in ``.jsonl`` and the folder of a project are places; such
    a place and an id behind a colon are an operation there. All else is an operation's id.
    """
    if _is_place(text):
        return RunName(text, Path(text), None)
    for at in (at for at, letter in enumerate(text) if letter == ":"):
        if _is_place(text[:at]) and Path(text[:at]).exists() and text[at + 1 :]:
            return RunName(text, Path(text[:at]), text[at + 1 :])
    return RunName(text, None, text)


def _is_place(text: str) -> bool:
    if text.endswith(_ENDING):
        return True
    path = Path(text)
    separated = text in {".", ".."} or os.sep in text or (os.altsep or os.sep) in text
    return path.exists() if separated else (path / "runtime").is_dir()


@dataclass(slots=True)
class RunReader:
    """Fills spools with the answers of runs.

    Args:
        project: Finds this project; asked only where an operation of it is meant.
        operation_id: The pipeline's operation in projects and files that are named without one.
    """

    project: Callable[[], Project]
    operation_id: str | None = None
    damaged: dict[str, CheckpointError] = field(default_factory=dict)
    """Cases whose package cannot be read, and why."""

    def fill(self, spool: AnswerSpool, name: RunName) -> None:
        """Add the answers of a run.

        Raises:
            ConfigurationError: There is no such run, or nobody said which of several operations.
        """
        seen: set[str] = set()
        for answer in self._answers(name, seen):
            spool.add(answer)
        if not spool.case_ids:
            names = ", ".join(sorted(seen)[:_NAMES_SHOWN])
            raise ConfigurationError(
                "no case has such an operation",
                code="operation_not_found",
                where=name.text,
                remedy=f"there are: {names}" if names else "nothing was run there so far",
            )

    def _answers(self, name: RunName, seen: set[str]) -> Iterator[Answer]:
        if name.place is not None and not name.place.is_dir():
            wanted = _Wanted(name, self.operation_id, (), seen)
            yield from wanted.newest_in(_file_rows(name.place))
            return
        project = Project(name.place) if name.place is not None else self.project()
        store = existing_store(project)
        wanted = _Wanted(name, self.operation_id, _pipeline_ids(project), seen)
        for case_id in every_case(store):
            try:
                row = _row(store, case_id, wanted)
            except CheckpointError as error:
                self.damaged[case_id] = error
            else:
                if row is not None:
                    yield _answer(row.to_json())


@dataclass(slots=True)
class _Wanted:
    """Decides which operations belong to a run."""

    name: RunName
    operation_id: str | None
    known: Collection[str]
    seen: set[str]
    stem: str | None = None

    def takes(self, operation_id: str) -> bool:
        self.seen.add(operation_id)
        if self.name.operation_id is not None:
            return operation_id == self.name.operation_id
        first = first_campaign(operation_id, self.known)
        if first not in self.known and chunk_id(first) is not None:
            return False  # the part of a long document is no answer of the case
        stem = pipeline_id(operation_id, self.known)
        if self.operation_id is not None:
            return stem == self.operation_id
        if self.stem not in (None, stem):
            raise ConfigurationError(
                f"holds several operations: {self.stem}, {stem}",
                code="operation_not_named",
                where=self.name.text,
                remedy="name one with --op",
            )
        self.stem = stem
        return True

    def newest_in(self, rows: Iterator[JSONObject]) -> Iterator[Answer]:
        """Yield the answers of those rows of a file that no earlier one of their case outdates."""
        newest: dict[str, tuple[int, int]] = {}
        for row in rows:
            operation_id, revision = str(row["operation_id"]), row.get("analysis_revision")
            if self.takes(operation_id):
                answer = _answer(row)
                age = (
                    revision if isinstance(revision, int) else 1,
                    later_campaigns(operation_id)[1],
                )
                if age >= newest.get(answer.case_id, age):
                    newest[answer.case_id] = age
                    yield answer


def _row(store: CheckpointStore, case_id: str, wanted: _Wanted) -> ExportRow | None:
    head = store.open(case_id)
    if head.status is PackageStatus.FORGOTTEN:
        return None
    exact = wanted.name.operation_id is not None
    states = [
        state
        for state in head.operations.values()
        if (exact or (state.resumed_as is None and not is_call(state.operation_id)))
        and wanted.takes(state.operation_id)
    ]
    if not states:
        return None
    return row_of(store, head, max(states, key=_age))


def _age(state: OperationState) -> tuple[int, int]:
    return state.analysis_revision, later_campaigns(state.operation_id)[1]


def _pipeline_ids(project: Project) -> Collection[str]:
    pipeline = read_settings(project).pipeline
    return {spec.id for spec in pipeline.operations} if pipeline else ()


def _file_rows(path: Path) -> Iterator[JSONObject]:
    try:
        with path.open("rb") as stream:
            number = 0
            while line := stream.readline(LINE_BYTES_MAX + 1):
                number += 1
                if number == 1:
                    line = line.removeprefix(codecs.BOM_UTF8)
                yield _file_row(line, f"{path}:{number}")
    except OSError as error:
        raise ConfigurationError(
            f"cannot be read ({error.strerror or type(error).__name__})",
            code="file_unreadable",
            where=str(path),
            remedy="name a file that `casework export` wrote, a project or an operation",
        ) from None


def _file_row(line: bytes, where: str) -> JSONObject:
    try:
        value = parse(line, depth_max=_DEPTH_MAX) if len(line) <= LINE_BYTES_MAX else None
    except InvalidJSON:
        value = None
    if not isinstance(value, dict) or not all(
        isinstance(value.get(name), str) for name in ("case_id", "operation_id", "status")
    ):
        raise ConfigurationError(
            "is no line of a JSON Lines export",
            code="export_line_invalid",
            where=where,
            remedy="name a file that `casework export --format jsonl` wrote",
        )
    return value


def _answer(row: JSONObject) -> Answer:
    """Return what the row of an export says of its case."""
    status, output, review = str(row["status"]), row.get("output"), row.get("review")
    error = row.get("error")
    outcome = status if error is None else f"{status} {error}"
    if isinstance(review, dict):
        outcome = f"{status} ({review.get('verdict')})"
    return Answer(
        case_id=str(row["case_id"]),
        outcome=outcome,
        answered=status == OperationStatus.SUCCESS.value or output is not None,
        output=output,
    )
