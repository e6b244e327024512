"""The shapes that a package stores: commit records, operation states, file entries.

Pure data: nothing here touches a disk. Reading is strict; an unknown, missing or ill-typed member
is a ``FormatError``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Final, assert_never

from casework.checkpoints.fields import Fields, parse_object
from casework.checkpoints.reviews import ReviewMark, ReviewVerdict
from casework.checkpoints.storage import is_safe_path
from casework.checkpoints.timestamps import write_time
from casework.checkpoints.tombstone import Tombstone
from casework.errors import FormatError, IntegrityError
from casework.strict_json import JSON, JSONObject, canonical, digest, is_sha256_hex, sha256_hex

PACKAGE_FORMAT: Final = "casework-package/1"
COMMIT_SCHEMA: Final = "casework-commit/1"
OPERATION_SCHEMA: Final = "llm-operation/1"
OPERATION_HASHES_KEPT: Final = 4096
"""A round asks for the same one many times, and a pipeline has few operations."""
REQUEST_SCHEMA: Final = "llm-request/1"
OUTCOME_SCHEMA: Final = "llm-outcome/1"

LLM_UNAVAILABLE: Final = "LLM_UNAVAILABLE"
"""Why an operation is blocked whose every round found every provider unavailable."""

_SELF: Final = "self_sha256"


class OperationStatus(StrEnum):
    """Where an operation stands after its last commit."""

    RETRY_PENDING = "RETRY_PENDING"
    """A round may be run from ``due_at`` on."""
    BLOCKED = "BLOCKED"
    """Every round of its budget failed; only an explicit resumption continues."""
    SUCCESS = "SUCCESS"
    """A validated answer is stored."""
    ERROR = "ERROR"
    """A controlled failure ended it; only a new id asks again."""


class PackageStatus(StrEnum):
    """What a package waits for, folded from its current operations."""

    ACTIVE = "ACTIVE"
    """No operation has a state yet."""
    RETRY_PENDING = "RETRY_PENDING"
    """Some operation waits for its next round."""
    BLOCKED = "BLOCKED"
    """None is pending, and some wait for a person."""
    ERROR = "ERROR"
    """None is pending or blocked, and some failed for good."""
    SUCCESS = "SUCCESS"
    """Every operation succeeded or lives on under a new id."""
    FORGOTTEN = "FORGOTTEN"
    """Its content was removed; nothing can follow."""


class CommitKind(StrEnum):
    """Why a generation was committed."""

    CREATED = "created"
    LLM_ROUND = "llm_round"
    RESUMED = "resumed"
    RECEIVED = "received"
    PHASE_CHANGED = "phase_changed"
    REVISION_RAISED = "revision_raised"
    REVIEWED = "reviewed"
    FORGOTTEN = "forgotten"


@lru_cache(maxsize=OPERATION_HASHES_KEPT, typed=True)
def operation_hash(analysis_revision: int, operation_id: str) -> str:
    """Return the folder name of an operation, its id hidden behind a digest."""
    return digest([OPERATION_SCHEMA, analysis_revision, operation_id])


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One immutable file of a package, as a commit names it."""

    path: str
    sha256: str
    size: int
    name: str | None = None
    """The user's own relative name, kept word for word where the path could not keep it."""

    @classmethod
    def of(cls, path: str, content: bytes, *, name: str | None = None) -> FileEntry:
        """Describe bytes that are about to be stored."""
        return cls(path, sha256_hex(content), len(content), name)

    def to_json(self) -> JSONObject:
        """Return the entry as it is stored."""
        entry: JSONObject = {"path": self.path, "sha256": self.sha256, "size": self.size}
        if self.name is not None:
            entry["name"] = self.name
        return entry

    @classmethod
    def from_json(cls, value: JSON, where: str) -> FileEntry:
        """Read a stored entry.

        Raises:
            FormatError: It is not one, or its path is not safe.
        """
        fields = Fields(value, where)
        path = fields.text("path")
        if not is_safe_path(path):
            raise FormatError("a file's path is not a plain relative path", where=where)
        sha256, size = fields.sha256("sha256"), fields.integer("size", 0)
        name = fields.text("name") if fields.has("name") else None
        fields.done()
        return cls(path, sha256, size, name)


@dataclass(frozen=True, slots=True)
class OperationError:
    """Why an operation ended in ERROR or BLOCKED, as a code."""

    code: str
    http_status: int | None = None

    def to_json(self) -> JSONObject:
        """Return the error as it is stored."""
        return {"code": self.code, "http_status": self.http_status}

    @classmethod
    def from_json(cls, value: JSON, where: str) -> OperationError | None:
        """Read a stored error or null; records of old may leave ``http_status`` out."""
        if value is None:
            return None
        fields = Fields(value, where)
        code = fields.text("code")
        status = fields.optional_integer("http_status", 100) if fields.has("http_status") else None
        fields.done()
        return cls(code, status)


@dataclass(frozen=True, slots=True)
class Routing:
    """Who should look at a blocked operation, and when it may go on; all None means nobody."""

    reason: str | None = None
    destination: str | None = None
    retry_at: datetime | None = None
    automatic_retry: bool | None = None

    def to_json(self) -> JSON:
        """Return the routing as it is stored; none at all is null."""
        if self == NO_ROUTING:
            return None
        return {
            "reason": self.reason,
            "destination": self.destination,
            "retry_at": _time(self.retry_at),
            "automatic_retry": self.automatic_retry,
        }

    @classmethod
    def from_json(cls, value: JSON, where: str) -> Routing:
        """Read a stored routing or null."""
        if value is None:
            return NO_ROUTING
        fields = Fields(value, where)
        routing = cls(
            reason=fields.optional_text("reason"),
            destination=fields.optional_text("destination"),
            retry_at=fields.optional_time("retry_at"),
            automatic_retry=fields.optional_flag("automatic_retry"),
        )
        fields.done()
        return routing


NO_ROUTING: Final = Routing()


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationState:
    """Everything known about one operation after its last commit."""

    operation_id: str
    analysis_revision: int
    status: OperationStatus
    phase: str
    request_fingerprint: str | None = None
    """None only between a resumption and the first round after it."""
    config_fingerprint: str | None = None
    rounds_completed: int
    rounds_max: int
    """The budget, frozen at the first commit; stored as ``max_attempts``."""
    retry_delay_seconds: float
    blocked_retry_seconds: float
    due_at: datetime | None = None
    """When the next round may run or, when BLOCKED, from when it may be resumed."""
    last_round_at: datetime | None = None
    artifacts: tuple[FileEntry, ...] = ()
    """The request and the outcomes, in the order of their making."""
    error: OperationError | None = None
    routing: Routing = NO_ROUTING
    resumed_as: str | None = None
    """The id under which it lives on; set, it is history."""
    resumed_from: str | None = None
    review: ReviewMark | None = None
    """A person's newest decision about it."""

    @property
    def ophash(self) -> str:
        """Return the name of its folder."""
        return operation_hash(self.analysis_revision, self.operation_id)

    @property
    def standing(self) -> OperationStatus:
        """Return what it counts as: its status, unless a person decided otherwise."""
        return standing_of(self.status, self.review.verdict if self.review else None)

    def to_json(self) -> JSONObject:
        """Return the state as commits and snapshots store it."""
        # Absent where there is none, so that states of before have the bytes that they had.
        review: JSONObject = {} if self.review is None else {"review": self.review.to_json()}
        return {
            **review,
            "operation_id": self.operation_id,
            "analysis_revision": self.analysis_revision,
            "status": self.status.value,
            "phase": self.phase,
            "request_fingerprint": self.request_fingerprint,
            "config_fingerprint": self.config_fingerprint,
            "rounds_completed": self.rounds_completed,
            "max_attempts": self.rounds_max,
            "retry_delay_seconds": float(self.retry_delay_seconds),
            "blocked_retry_seconds": float(self.blocked_retry_seconds),
            "due_at": _time(self.due_at),
            "last_round_at": _time(self.last_round_at),
            "artifacts": [entry.to_json() for entry in self.artifacts],
            "error": None if self.error is None else self.error.to_json(),
            "routing": self.routing.to_json(),
            "resumed_as": self.resumed_as,
            "resumed_from": self.resumed_from,
        }

    @classmethod
    def from_json(cls, value: JSON, where: str) -> OperationState:
        """Read a stored state.

        Raises:
            FormatError: It is not one.
        """
        fields = Fields(value, where)
        status = fields.text("status")
        if status not in OperationStatus.__members__:
            raise fields.refuse("status", "a status of an operation")
        state = cls(
            operation_id=fields.text("operation_id"),
            analysis_revision=fields.integer("analysis_revision", 1),
            status=OperationStatus(status),
            phase=fields.text("phase"),
            request_fingerprint=fields.optional_sha256("request_fingerprint"),
            config_fingerprint=fields.optional_sha256("config_fingerprint"),
            rounds_completed=fields.integer("rounds_completed", 0),
            rounds_max=fields.integer("max_attempts", 1),
            retry_delay_seconds=fields.seconds("retry_delay_seconds"),
            blocked_retry_seconds=fields.seconds("blocked_retry_seconds"),
            due_at=fields.optional_time("due_at"),
            last_round_at=fields.optional_time("last_round_at"),
            artifacts=tuple(FileEntry.from_json(item, where) for item in fields.items("artifacts")),
            error=OperationError.from_json(fields.value("error"), where),
            routing=Routing.from_json(fields.value("routing"), where),
            resumed_as=fields.optional_text("resumed_as"),
            resumed_from=fields.optional_text("resumed_from"),
            review=ReviewMark.from_json(fields.value("review"), where)
            if fields.has("review")
            else None,
        )
        fields.done()
        return state


def standing_of(status: OperationStatus, verdict: ReviewVerdict | None) -> OperationStatus:
    """Return what an operation counts as, given what a person decided about it."""
    match verdict:
        case None:
            return status
        case ReviewVerdict.APPROVED | ReviewVerdict.CORRECTED:
            return OperationStatus.SUCCESS
        case ReviewVerdict.REJECTED:
            return OperationStatus.ERROR
        case _:
            assert_never(verdict)


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageIdentity:
    """Which case a package is of: the content of ``package.json``."""

    case_id: str
    package_id: str
    created_at: datetime

    def encode(self) -> bytes:
        """Return the bytes of ``package.json``."""
        return canonical(
            {
                "format": PACKAGE_FORMAT,
                "case_id": self.case_id,
                "package_id": self.package_id,
                "created_at": write_time(self.created_at),
            }
        )

    @classmethod
    def decode(cls, content: bytes, where: str) -> PackageIdentity:
        """Read ``package.json``.

        Raises:
            FormatError: It is of another format or version, or not canonical.
        """
        fields = Fields(parse_object(content, where), where)
        fields.constant("format", PACKAGE_FORMAT)
        identity = cls(
            case_id=fields.text("case_id"),
            package_id=fields.sha256("package_id"),
            created_at=fields.time("created_at"),
        )
        fields.done()
        if identity.encode() != content:
            raise FormatError("the bytes are not canonical JSON", where=where)
        return identity


def package_identifier(case_id: str, originals: Mapping[str, str]) -> str:
    """Derive a package's id from its case and its inputs (path to SHA-256)."""
    return digest([PACKAGE_FORMAT, case_id, sorted(originals.items())])


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitRecord:
    """One generation: what it adds, and the digest of the record before it."""

    generation: int
    previous_sha256: str | None
    """Digest of the previous record's bytes; None for the first."""
    committed_at: datetime
    actor: str
    kind: CommitKind
    analysis_revision: int
    phase: str
    status: PackageStatus
    routing: Routing
    operations: Mapping[str, OperationState]
    """Only the states that this commit adds or changes, by ophash."""
    files: tuple[FileEntry, ...]
    """Only the files that this commit adds."""
    forgotten: Tombstone | None = None
    """What the last commit of a forgotten case says."""

    def encode(self) -> bytes:
        """Return the record's bytes: canonical JSON with a digest of itself inside.

        Later records vouch for earlier ones; ``self_sha256`` lets damage to the newest be seen too.
        """
        members: JSONObject = {
            "schema": COMMIT_SCHEMA,
            "generation": self.generation,
            "previous_sha256": self.previous_sha256,
            "committed_at": write_time(self.committed_at),
            "actor": self.actor,
            "kind": self.kind.value,
            "analysis_revision": self.analysis_revision,
            "phase": self.phase,
            "status": self.status.value,
            "routing": self.routing.to_json(),
            "operations": {name: state.to_json() for name, state in self.operations.items()},
            "files": [entry.to_json() for entry in self.files],
        }
        if self.forgotten is not None:
            members["forgotten"] = self.forgotten.to_json()
        return seal(members)

    @classmethod
    def decode(cls, content: bytes, where: str) -> CommitRecord:
        """Read a record's bytes.

        Raises:
            FormatError: They are not a record that this version reads.
            IntegrityError: They are not the bytes that were sealed.
        """
        fields = Fields(unseal(content, where), where)
        fields.constant("schema", COMMIT_SCHEMA)
        kind, status = fields.text("kind"), fields.text("status")
        if kind not in _KINDS:
            raise fields.refuse("kind", "a kind of commit")
        if status not in PackageStatus.__members__:
            raise fields.refuse("status", "a status of a package")
        record = cls(
            generation=fields.integer("generation", 1),
            previous_sha256=fields.optional_sha256("previous_sha256"),
            committed_at=fields.time("committed_at"),
            actor=fields.text("actor"),
            kind=CommitKind(kind),
            analysis_revision=fields.integer("analysis_revision", 1),
            phase=fields.text("phase"),
            status=PackageStatus(status),
            routing=Routing.from_json(fields.value("routing"), where),
            operations=_states(fields.members("operations"), where),
            files=tuple(FileEntry.from_json(item, where) for item in fields.items("files")),
            forgotten=Tombstone.from_json(fields.value("forgotten"), where)
            if fields.has("forgotten")
            else None,
        )
        fields.done()
        return record


_KINDS: Final = frozenset(kind.value for kind in CommitKind)


def _states(members: JSONObject, where: str) -> dict[str, OperationState]:
    states: dict[str, OperationState] = {}
    for ophash, value in members.items():
        state = OperationState.from_json(value, where)
        if state.ophash != ophash:
            raise FormatError(
                "an operation stands under a digest that is not its own",
                code="ophash_mismatch",
                where=where,
            )
        states[ophash] = state
    return states


def seal(members: JSONObject) -> bytes:
    """Write an object canonically with ``self_sha256``, the digest of the object without it.

    It must have members that sort before that name and after it.
    """
    # Members that sort before it and after it are written apart, so that nothing is written twice.
    before = canonical({name: value for name, value in members.items() if name < _SELF})[:-1]
    after = canonical({name: value for name, value in members.items() if name > _SELF})[1:]
    own = sha256_hex(b"%s,%s" % (before, after))
    return b'%s,"%s":"%s",%s' % (before, _SELF.encode(), own.encode(), after)


def unseal(content: bytes, where: str) -> JSONObject:
    """Read an object that :func:`seal` wrote, and return it without its digest.

    Raises:
        FormatError: The bytes are not a sealed object.
        IntegrityError: A byte has changed since it was sealed.
    """
    members = parse_object(content, where)
    own = members.pop(_SELF, None)
    if not is_sha256_hex(own):
        raise FormatError(f"member {_SELF} is missing", where=where)
    # Quotes inside strings are escaped, so this text can only be the member itself.
    rest = content.replace(f',"{_SELF}":"{own}"'.encode("ascii"), b"", 1)
    if sha256_hex(rest) != own:
        raise IntegrityError(
            "the bytes differ from what was written",
            code="self_digest",
            where=where,
            remedy="run `casework verify` on the package",
        )
    return members


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else write_time(moment)
