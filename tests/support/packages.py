"""Packages with sound histories, made without a gateway: every state an operation can reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from casework.checkpoints.change import Change
from casework.checkpoints.disk import Disk
from casework.checkpoints.fold import PackageHead
from casework.checkpoints.names import outcome_path, request_path
from casework.checkpoints.records import (
    CommitKind,
    FileEntry,
    OperationError,
    OperationState,
    OperationStatus,
    Routing,
    operation_hash,
)
from casework.checkpoints.storage import Storage
from casework.checkpoints.store import CheckpointStore
from casework.checkpoints.timestamps import write_time
from casework.strict_json import JSONObject, canonical, digest

START = datetime(2026, 1, 1, 10, 0, tzinfo=UTC)
CASE = "case-1"
INPUTS = {"report.txt": b"The pump failed twice."}

Result = Literal["success", "error", "temporary_failure"]

_STATUS = {
    "success": OperationStatus.SUCCESS,
    "error": OperationStatus.ERROR,
    "temporary_failure": OperationStatus.RETRY_PENDING,
}


class Workshop:
    """A store on a clock that moves when told, and rounds that need no provider.

    Args:
        root: Where packages lie.
        disk: The file system calls.
        rounds_max: Budget of every operation.
    """

    def __init__(
        self, root: Path | Storage, *, disk: Disk | None = None, rounds_max: int = 3
    ) -> None:
        self.at = START
        self.rounds_max = rounds_max
        self.store = CheckpointStore(root, now=lambda: self.at, disk=disk)

    def pass_time(self, seconds: float) -> None:
        """Let time pass."""
        self.at += timedelta(seconds=seconds)

    def create(self, case_id: str = CASE) -> PackageHead:
        """Create a case of one text."""
        return self.store.create(case_id, INPUTS)

    def run(self, head: PackageHead, operation_id: str, result: Result = "success") -> PackageHead:
        """Commit one more round of an operation and tell the index."""
        after = self.store.commit(self.change(head, operation_id, result))
        self.store.index.put(after)
        return after

    def exhaust(self, head: PackageHead, operation_id: str) -> PackageHead:
        """Fail rounds of an operation until it is blocked."""
        for _ in range(self.rounds_max):
            head = self.run(head, operation_id, "temporary_failure")
            self.pass_time(60)
        return head

    def change(self, head: PackageHead, operation_id: str, result: Result = "success") -> Change:
        """Return the commit of one more round of an operation."""
        ophash = operation_hash(head.analysis_revision, operation_id)
        before = head.operations.get(ophash) or self.fresh(operation_id, head)
        request = request_of(head, before)
        number = before.rounds_completed + 1
        before = replace(
            before,
            request_fingerprint=str(request["request_fingerprint"]),
            config_fingerprint=str(request["config_fingerprint"]),
        )
        outcome = outcome_of(before, result, self.at)
        files: tuple[tuple[str, bytes], ...] = ((outcome_path(ophash, number), canonical(outcome)),)
        if number == 1:
            files = ((request_path(ophash), canonical(request)), *files)
        return Change(
            case_id=head.case_id,
            package_id=head.package_id,
            expected_generation=head.generation,
            kind=CommitKind.LLM_ROUND,
            at=self.at,
            operations={ophash: finished(before, result, self.at, files)},
            files=files,
        )

    def fresh(self, operation_id: str, head: PackageHead) -> OperationState:
        """Return the state of an operation before its first round."""
        return OperationState(
            operation_id=operation_id,
            analysis_revision=head.analysis_revision,
            status=OperationStatus.RETRY_PENDING,
            phase=head.phase,
            rounds_completed=0,
            rounds_max=self.rounds_max,
            retry_delay_seconds=60.0,
            blocked_retry_seconds=3600.0,
        )

    def full_history(self) -> PackageHead:
        """Create a case and lead its operations through every state and link."""
        head = self.run(self.create(), "answers")
        head = self.run(head, "fails", "error")
        head = self.run(head, "waits", "temporary_failure")
        head = self.exhaust(head, "blocked")
        self.pass_time(3600)
        head = self.store.resume(CASE, head.package_id, "blocked", new_operation_id="again")
        head = self.run(head, "again", "temporary_failure")
        return self.store.resume(CASE, head.package_id, "fails", new_operation_id="asked anew")


def request_of(head: PackageHead, state: OperationState) -> JSONObject:
    """Return a request record whose fingerprints are right."""
    body: JSONObject = {
        "schema": "llm-request/1",
        "operation_id": state.operation_id,
        "analysis_revision": state.analysis_revision,
        "case_id": head.case_id,
        "package_id": head.package_id,
        "messages": [{"role": "user", "content": "The pump failed twice."}],
        "output_schema": {"type": "object", "required": ["answer"], "maxProperties": 3},
        "phase": state.phase,
    }
    configuration: JSONObject = {"providers": ["local"], "max_attempts": state.rounds_max}
    return {
        **body,
        "request_fingerprint": digest(body),
        "config_fingerprint": digest(configuration),
        "configuration": configuration,
    }


def outcome_of(before: OperationState, result: Result, at: datetime) -> JSONObject:
    """Return the outcome of an operation's next round."""
    output: JSONObject | None = {"answer": "yes"} if result == "success" else None
    return {
        "schema": "llm-outcome/1",
        "round": before.rounds_completed + 1,
        "result": result,
        "request_fingerprint": before.request_fingerprint,
        "config_fingerprint": before.config_fingerprint,
        "started_at": write_time(at),
        "elapsed_ms": 0,
        "attempts": [],
        "output": output,
        "output_sha256": digest(output) if output else None,
        "error": "auth_error" if result == "error" else None,
        "http_status": 401 if result == "error" else None,
    }


def finished(
    before: OperationState,
    result: Result,
    at: datetime,
    files: Sequence[tuple[str, bytes]],
) -> OperationState:
    """Return the state that a round leads to."""
    number = before.rounds_completed + 1
    after = replace(
        before,
        status=_STATUS[result],
        rounds_completed=number,
        last_round_at=at,
        due_at=None,
        artifacts=(*before.artifacts, *(FileEntry.of(path, data) for path, data in files)),
        error=OperationError("auth_error", 401) if result == "error" else None,
    )
    if result != "temporary_failure":
        return after
    if number < before.rounds_max:
        return replace(after, due_at=at + timedelta(seconds=before.retry_delay_seconds))
    retry_at = at + timedelta(seconds=before.blocked_retry_seconds)
    return replace(
        after,
        status=OperationStatus.BLOCKED,
        due_at=retry_at,
        error=OperationError("LLM_UNAVAILABLE"),
        routing=Routing("LLM_UNAVAILABLE", "inbox", retry_at, automatic_retry=False),
    )


def files_below(folder: Path) -> dict[str, bytes]:
    """Return every file below a folder with its bytes."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }
