"""One judgement of a package: its records in order, then everything that lies beside them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

from casework.checkpoints.findings import Finding, Severity, VerifyReport
from casework.checkpoints.fold import PackageHead, apply, unborn
from casework.checkpoints.names import (
    PACKAGE_FILE,
    commit_path,
    outcome_path,
    review_path,
    safe_relative_path,
    snapshot_path,
)
from casework.checkpoints.package_reader import PackageReader
from casework.checkpoints.records import (
    CommitKind,
    CommitRecord,
    FileEntry,
    OperationState,
    PackageIdentity,
    package_identifier,
)
from casework.checkpoints.snapshots import (
    INTERVAL,
    Snapshot,
    decode_snapshot,
    waiting_operations,
)
from casework.checkpoints.storage import NotFound, is_safe_path, join
from casework.checkpoints.tombstone import RemovedFile
from casework.checkpoints.transitions import Step, objection
from casework.checkpoints.verify_operations import (
    outcome_objections,
    request_objections,
    review_objections,
)
from casework.errors import CheckpointError, PackageNotFound
from casework.strict_json import canonical, sha256_hex

_NUMBERED: Final = re.compile(r"([0-9]{10})\.json", re.ASCII)


class Verification:
    """Judge one package.

    Args:
        reader: The package, in a folder, a ZIP or memory.
    """

    def __init__(self, reader: PackageReader) -> None:
        self._reader = reader
        self._findings: list[Finding] = []
        self._named: dict[str, FileEntry] = {}
        self._changed_at: dict[str, int] = {}
        """The generation that last changed each operation, up to where the judgement stands."""
        self._identity: PackageIdentity | None = None
        self._generation = 0
        self._forgotten = False
        """Whether the last commit says that the content was removed."""

    def report(self) -> VerifyReport:
        """Judge everything."""
        self._identity = self._read_identity()
        snapshots, commits = self._numbered("snapshots"), self._numbered("commits")
        self._forgotten = bool(commits) and self._forgets(commits[-1])
        self._judge_commits(commits, frozenset(snapshots))
        for generation in snapshots:
            if generation > self._generation:
                self._find(
                    "commit_missing",
                    commit_path(generation),
                    f"there is a snapshot of generation {generation} and no commit",
                )
        self._judge_leftovers("")
        identity = self._identity
        return VerifyReport(
            tuple(self._findings),
            identity.case_id if identity else None,
            identity.package_id if identity else None,
            self._generation,
            self._forgotten,
        )

    def _forgets(self, generation: int) -> bool:
        with suppress(CheckpointError):
            path = commit_path(generation)
            record = CommitRecord.decode(self._reader.read(path), path)
            return record.kind is CommitKind.FORGOTTEN
        return False

    def _find(self, code: str, path: str, detail: str) -> None:
        self._findings.append(Finding(code, path, detail))

    def _note(self, code: str, path: str, detail: str) -> None:
        self._findings.append(Finding(code, path, detail, Severity.NOTE))

    def _read_identity(self) -> PackageIdentity | None:
        try:
            return self._reader.identity()
        except PackageNotFound:
            self._find("identity_missing", PACKAGE_FILE, "the package has no identity")
        except CheckpointError as error:
            self._find("identity_damaged", PACKAGE_FILE, error.message)
        return None

    def _numbered(self, folder: str) -> list[int]:
        """Return the generations that have a file in a folder, and report files of other names."""
        found = []
        for name in self._reader.storage.list(self._reader.path(folder)):
            match = _NUMBERED.fullmatch(name)
            if match is None or int(match[1]) == 0:
                self._note("leftover", f"{folder}/{name.rstrip('/')}", "no commit names this file")
            else:
                found.append(int(match[1]))
        return sorted(found)

    def _judge_commits(self, generations: list[int], snapshots: frozenset[int]) -> None:
        if not generations:
            self._find("no_commits", "commits", "the package was never committed")
            return
        self._generation = generations[-1]
        head = unborn(self._identity) if self._identity else None
        previous: str | None = None
        expected = 1
        for generation in generations:
            path = commit_path(generation)
            if generation > expected:
                self._judge_gap(expected, generation - 1)
                head, previous = None, None
            expected = generation + 1
            try:
                content = self._reader.read(path)
            except CheckpointError as error:
                self._find("commit_damaged", path, error.message)
                head, previous = None, None
                continue
            record = self._decoded(path, content, generation)
            if record is not None:
                self._judge_chain(record, previous if generation > 1 else "")
                head = self._judge_record(record, head, content)
            else:
                head = None
            previous = sha256_hex(content)
            if generation in snapshots:
                self._judge_snapshot(generation, head)

    def _judge_gap(self, first: int, last: int) -> None:
        """Report missing generations, one finding for however many: a number may be anything."""
        many = f"generations {first} to {last} are missing"
        detail = many if last > first else f"generation {first} is missing"
        self._find("commit_missing", commit_path(first), detail)

    def _decoded(self, path: str, content: bytes, generation: int) -> CommitRecord | None:
        try:
            record = CommitRecord.decode(content, path)
        except CheckpointError as error:
            self._find("commit_damaged", path, error.message)
            return None
        if record.generation != generation:
            self._find(
                "commit_renumbered", path, f"the record is that of generation {record.generation}"
            )
            return None
        if record.encode() != content:
            self._find("commit_damaged", path, "the bytes are not canonical JSON")
        return record

    def _judge_chain(self, record: CommitRecord, previous: str | None) -> None:
        """Compare a record's link with the digest of the record before it ("" for none at all)."""
        if previous is None or (record.previous_sha256 or "") == previous:
            return
        if record.generation == 1:
            self._find("chain_broken", commit_path(1), "the first commit follows another one")
            return
        self._find(
            "chain_broken",
            commit_path(record.generation - 1),
            f"generation {record.generation} was committed after other bytes than these",
        )

    def _judge_record(
        self, record: CommitRecord, head: PackageHead | None, content: bytes
    ) -> PackageHead | None:
        path = commit_path(record.generation)
        if record.generation == 1:
            self._judge_origin(record)
        contents = dict(self._judge_files(record))
        self._changed_at.update(dict.fromkeys(record.operations, record.generation))
        if head is None:
            return None
        step = Step(
            kind=record.kind,
            at=record.committed_at,
            analysis_revision=record.analysis_revision,
            phase=record.phase,
            operations=record.operations,
            files=record.files,
            forgotten=record.forgotten,
        )
        reason = objection(head, step)
        if reason is not None:
            self._find("impossible_commit", path, reason)
            return None
        if record.kind is CommitKind.LLM_ROUND:
            self._judge_round(record, head, contents)
        elif record.kind is CommitKind.REVIEWED:
            self._judge_review(record, head, contents)
        elif record.forgotten is not None:
            self._judge_tombstone(path, record.forgotten.removed)
        after = apply(head, record, sha256_hex(content))
        if (after.status, after.routing) != (record.status, record.routing):
            self._find("status_mismatch", path, "the operations add up to another status")
        return after

    def _judge_origin(self, record: CommitRecord) -> None:
        originals = {e.path: e.sha256 for e in record.files if e.path.startswith("original/")}
        if PACKAGE_FILE not in {entry.path for entry in record.files}:
            self._find("identity_unnamed", commit_path(1), "the first commit names no identity")
        if self._identity is None:
            return
        expected = package_identifier(self._identity.case_id, originals)
        if self._identity.package_id != expected:
            self._find("package_id", PACKAGE_FILE, "the id is not that of the case and its inputs")

    def _judge_files(self, record: CommitRecord) -> Iterator[tuple[str, bytes]]:
        """Judge the files that a record names, and yield those that are as named."""
        for entry in record.files:
            if entry.path in self._named or entry.path.startswith(("commits/", "snapshots/")):
                self._find("file_not_new", entry.path, "a commit names it as new, and it is not")
                continue
            if entry.path.startswith("original/") and record.generation > 1:
                self._find("original_added", entry.path, "inputs come with the first commit only")
            self._judge_name(entry)
            self._named[entry.path] = entry
            try:
                content = self._reader.read(entry.path)
            except NotFound:
                if not self._forgotten or entry.path == PACKAGE_FILE:
                    self._find(
                        "file_missing", entry.path, f"generation {record.generation} names it"
                    )
                continue
            except CheckpointError as error:
                self._find("file_damaged", entry.path, error.message)
                continue
            if len(content) != entry.size or sha256_hex(content) != entry.sha256:
                self._find(
                    "file_damaged",
                    entry.path,
                    f"the bytes are not those that generation {record.generation} names",
                )
                continue
            yield entry.path, content

    def _judge_name(self, entry: FileEntry) -> None:
        if entry.name is not None:
            folder = entry.path.split("/", 1)[0]
            if f"{folder}/{safe_relative_path(entry.name)}" != entry.path:
                self._find("name_mismatch", entry.path, "the user's name leads to another path")

    def _judge_round(
        self, record: CommitRecord, head: PackageHead, contents: dict[str, bytes]
    ) -> None:
        assert self._identity is not None
        ((ophash, after),) = record.operations.items()
        for entry in record.files:
            content = contents.get(entry.path)
            if content is None:
                continue
            if entry.path.endswith("/request.json"):
                for reason in request_objections(content, after, self._identity):
                    self._find("request_mismatch", entry.path, reason)
            else:
                for reason in outcome_objections(content, head.operations.get(ophash), after):
                    self._find("outcome_mismatch", entry.path, reason)

    def _judge_review(
        self, record: CommitRecord, head: PackageHead, contents: dict[str, bytes]
    ) -> None:
        ((ophash, after),) = record.operations.items()
        for path, content in contents.items():
            before = head.operations[ophash]
            for reason in review_objections(content, after, self._reviewed_file(before)):
                self._find("review_mismatch", path, reason)

    def _reviewed_file(self, before: OperationState) -> bytes | None:
        """Return the file with the answer that a review decides about, None if it is damaged."""
        path = outcome_path(before.ophash, before.rounds_completed)
        if before.review is not None:
            path = review_path(before.ophash, before.review.number)
        try:
            content = self._reader.read(path)
        except CheckpointError:
            return None
        named = self._named.get(path)
        return content if named and sha256_hex(content) == named.sha256 else None

    def _judge_tombstone(self, path: str, removed: tuple[RemovedFile, ...]) -> None:
        named = sorted(
            (entry.path, entry.sha256)
            for entry in self._named.values()
            if entry.path != PACKAGE_FILE
        )
        if [(file.path, file.sha256) for file in removed] != named:
            self._find("impossible_commit", path, "it names other files than were committed")

    def _judge_snapshot(self, generation: int, head: PackageHead | None) -> None:
        path = snapshot_path(generation)
        try:
            snapshot = decode_snapshot(self._reader.read(path), path)
            reason = _snapshot_objection(
                snapshot, generation, head=head, changed_at=self._changed_at
            )
        except CheckpointError as error:
            reason = error.message
        if reason is not None:
            self._find("snapshot_damaged", path, f"{reason}; it may be deleted")

    def _judge_leftovers(self, folder: str) -> None:
        for name in self._reader.storage.list(self._reader.path(folder) if folder else self._root):
            path = join(folder, name.rstrip("/"))
            if folder == "" and name == "commits/":
                continue
            if folder == "" and name == "snapshots/" and not self._forgotten:
                continue
            if not is_safe_path(path):
                shown = path.encode("utf-8", "backslashreplace").decode("utf-8")
                self._note("leftover", shown, "no commit could name this")
            elif name.endswith("/"):
                self._judge_leftovers(path)
            elif self._forgotten and path != PACKAGE_FILE:
                self._find("not_forgotten", path, "the case was forgotten, and this file is there")
            elif path not in self._named and path != PACKAGE_FILE:
                self._note("leftover", path, "no commit names this file")

    @property
    def _root(self) -> str:
        return self._reader.folder


def _snapshot_objection(
    snapshot: Snapshot,
    generation: int,
    *,
    head: PackageHead | None,
    changed_at: Mapping[str, int],
) -> str | None:
    if snapshot.generation != generation or generation % INTERVAL:
        return "it is of another generation"
    if head is None:
        return None
    members = ("record_sha256", "analysis_revision", "phase", "status", "routing", "tally")
    if any(getattr(snapshot, name) != getattr(head, name) for name in members) or (
        snapshot.waiting != waiting_operations(head)
    ):
        return "it contradicts the commits"
    expected = {name for name, changed in changed_at.items() if changed > snapshot.after}
    if snapshot.states.keys() != expected:
        return "it holds other operations than were changed"
    for ophash, stored in snapshot.states.items():
        if stored != canonical(head.operations[ophash].to_json()):
            return "a state in it is not that of the commits"
    return None
