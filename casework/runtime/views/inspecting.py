"""What `inspect` shows of one package, in a folder or a ZIP, without settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from casework.checkpoints.index_rows import IndexedPackage
from casework.checkpoints.inspection import Inspection, TimelineEntry
from casework.checkpoints.names import outcome_path, request_path
from casework.checkpoints.records import OperationState
from casework.errors import PackageNotFound
from casework.runtime.views import phrases
from casework.strict_json import JSON, JSONObject

CASE_COLUMNS: Final = ("case", "status", "generation", "revision", "phase")
TIMELINE_COLUMNS: Final = ("generation", "time", "kind", "actor", "phase", "status", "operations")
OPERATION_COLUMNS: Final = (
    "operation",
    "revision",
    "status",
    "rounds",
    "reason",
    "due",
    "lives on as",
)


def only_operation(package: Inspection, operation_id: str | None) -> OperationState:
    """Return the operation that is meant; a package with a single one needs no name.

    Raises:
        PackageNotFound: There is no such operation, or nobody said which of several.
    """
    if operation_id is not None:
        return package.operation(operation_id)
    states = package.operations()
    if len(states) != 1:
        names = ", ".join(state.operation_id for state in states) or "none yet"
        raise PackageNotFound(
            "say which operation",
            code="operation_not_named",
            where=package.identity.case_id,
            remedy=f"its operations: {names}",
        )
    return states[0]


def stored_path(state: OperationState, *, outcome: bool, round_number: int | None) -> str:
    """Return the package path of an operation's request or outcome.

    Raises:
        PackageNotFound: The operation has not run so far.
    """
    number = round_number or state.rounds_completed
    if state.rounds_completed == 0 or not 0 < number <= state.rounds_completed:
        raise PackageNotFound(
            "that round has not finished",
            code="round_not_found",
            where=state.operation_id,
            remedy=f"{state.rounds_completed} rounds have",
        )
    return outcome_path(state.ophash, number) if outcome else request_path(state.ophash)


def package_to_json(package: Inspection) -> JSONObject:
    """Return the whole package in outline."""
    identity, head = package.identity, package.head
    originals: list[JSON] = [entry.to_json() for entry in package.originals()]
    operations: list[JSON] = [state.to_json() for state in package.operations()]
    return {
        "case_id": identity.case_id,
        "package_id": identity.package_id,
        "created_at": phrases.utc_time(identity.created_at),
        "generation": head.generation,
        "record_sha256": head.record_sha256,
        "analysis_revision": head.analysis_revision,
        "phase": head.phase,
        "status": head.status.value,
        "originals": originals,
        "operations": operations,
    }


def package_lines(package: Inspection) -> Iterator[str]:
    """Yield the package in outline for people, without its operations."""
    identity, head = package.identity, package.head
    yield f"case {identity.case_id}"
    yield f"package {identity.package_id}  created {phrases.local_time(identity.created_at)}"
    yield (
        f"generation {head.generation}  revision {head.analysis_revision}  phase {head.phase}  "
        f"status {head.status.value}"
    )
    for entry in package.originals():
        yield f"original {entry.name or entry.path.removeprefix('original/')}  {entry.size:,} bytes"


def operation_row(state: OperationState) -> tuple[str, ...]:
    """Return an operation under ``OPERATION_COLUMNS``."""
    return (
        state.operation_id,
        str(state.analysis_revision),
        state.status.value,
        f"{state.rounds_completed} of {state.rounds_max}",
        state.error.code if state.error else "",
        phrases.local_time(None if state.resumed_as else state.due_at),
        state.resumed_as or "",
    )


def case_to_json(package: IndexedPackage) -> JSONObject:
    """Return a case of the project as JSON output carries it."""
    return {
        "case_id": package.case_id,
        "status": package.status.value,
        "generation": package.generation,
        "analysis_revision": package.analysis_revision,
        "phase": package.phase,
    }


def case_row(package: IndexedPackage) -> tuple[str, ...]:
    """Return a case of the project under ``CASE_COLUMNS``."""
    return (
        package.case_id,
        package.status.value,
        str(package.generation),
        str(package.analysis_revision),
        package.phase,
    )


def entry_to_json(entry: TimelineEntry) -> JSONObject:
    """Return a commit as JSON output carries it."""
    return {
        "generation": entry.generation,
        "committed_at": phrases.utc_time(entry.committed_at),
        "kind": entry.kind.value,
        "actor": entry.actor,
        "phase": entry.phase,
        "status": entry.status.value,
        "operations": [
            {
                "operation_id": state.operation_id,
                "status": state.status.value,
                "verdict": state.review.verdict.value if state.review else None,
            }
            for state in entry.operations
        ],
        "files": [file.to_json() for file in entry.files],
    }


def entry_row(entry: TimelineEntry) -> tuple[str, ...]:
    """Return a commit under ``TIMELINE_COLUMNS``."""
    changed = (
        f"{state.operation_id} {state.review.verdict if state.review else state.status}"
        for state in entry.operations
    )
    return (
        str(entry.generation),
        phrases.local_time(entry.committed_at),
        entry.kind.value,
        entry.actor,
        entry.phase,
        entry.status.value,
        ", ".join(changed),
    )
