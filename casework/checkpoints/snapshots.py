"""Snapshots: the folded state at every 64th generation, derived from commits and disposable.

A snapshot holds the states changed since an earlier one (``after``), chosen as in a binary counter:
the one at 64 * m reaches back over as many blocks of 64 as the lowest set bit of m is worth. So a
commit's share of the writing grows with the logarithm of the history only, and a reader needs few
files and at most 63 records. A snapshot that is missing, torn or edited is passed over.

The file is one JSON object with a line per state, so that a reader can leave states undecoded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from casework.checkpoints.fields import Fields
from casework.checkpoints.fold import (
    RECENT_MAX,
    Encoded,
    PackageHead,
    Tally,
    Waiting,
)
from casework.checkpoints.records import OperationStatus, PackageStatus, Routing, seal, unseal
from casework.errors import CheckpointError, FormatError, IntegrityError
from casework.strict_json import JSONObject, canonical, sha256_hex

SNAPSHOT_SCHEMA: Final = "casework-snapshot/1"
INTERVAL: Final = RECENT_MAX
"""Generations between two snapshots: as many as a head keeps in its upper layer."""

_OPENING: Final = b'{"header":'
_STATES: Final = b',"operations":{'
_CLOSING: Final = b"}}"
_DIGITS: Final = 64


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One snapshot as read: what it says of the head, and the states it holds, undecoded."""

    generation: int
    after: int
    """The states of earlier generations than this lie in earlier snapshots."""
    record_sha256: str
    analysis_revision: int
    phase: str
    status: PackageStatus
    routing: Routing
    tally: Tally
    waiting: tuple[str, ...]
    """Blocked operations, the latest first."""
    states: dict[str, Encoded]


def reach(generation: int) -> int:
    """Return the generation after which the snapshot of this generation should begin."""
    blocks = generation // INTERVAL
    return generation - INTERVAL * (blocks & -blocks)


def encode_snapshot(head: PackageHead, after: int, states: Mapping[str, Encoded]) -> bytes:
    """Write the snapshot of a head, with the states changed since ``after``."""
    lines = [
        b'"%s":%s' % (ophash.encode("ascii"), _stored(states[ophash])) for ophash in sorted(states)
    ]
    body = b",\n".join(lines) + b"\n" + _CLOSING
    header = seal(
        {
            "schema": SNAPSHOT_SCHEMA,
            "generation": head.generation,
            "after": after,
            "record_sha256": head.record_sha256,
            "analysis_revision": head.analysis_revision,
            "phase": head.phase,
            "status": head.status.value,
            "routing": head.routing.to_json(),
            "tally": {
                "pending": head.tally.pending,
                "blocked": head.tally.blocked,
                "failed": head.tally.failed,
                "succeeded": head.tally.succeeded,
            },
            "waiting": list(waiting_operations(head)),
            "body_sha256": sha256_hex(body),
        }
    )
    return b"".join((_OPENING, header, _STATES, b"\n", body))


def decode_snapshot(content: bytes, where: str) -> Snapshot:
    """Read a snapshot's bytes; its states stay undecoded.

    Raises:
        FormatError: They are not a snapshot that this version reads.
        IntegrityError: They are not the bytes that were written.
    """
    first, _, body = content.partition(b"\n")
    if not (first.startswith(_OPENING) and first.endswith(_STATES) and body.endswith(_CLOSING)):
        raise FormatError("not a snapshot", where=where)
    fields = Fields(unseal(first[len(_OPENING) : -len(_STATES)], where), where)
    fields.constant("schema", SNAPSHOT_SCHEMA)
    if fields.sha256("body_sha256") != sha256_hex(body):
        raise IntegrityError("the states differ from what was written", where=where)
    status = fields.text("status")
    if status not in PackageStatus.__members__:
        raise fields.refuse("status", "a status of a package")
    snapshot = Snapshot(
        generation=fields.integer("generation", INTERVAL),
        after=fields.integer("after", 0),
        record_sha256=fields.sha256("record_sha256"),
        analysis_revision=fields.integer("analysis_revision", 1),
        phase=fields.text("phase"),
        status=PackageStatus(status),
        routing=Routing.from_json(fields.value("routing"), where),
        tally=_tally(fields.members("tally"), where),
        waiting=tuple(_texts(fields, "waiting")),
        states={
            line[1 : 1 + _DIGITS].decode("ascii"): line[_DIGITS + 3 :] for line in _lines(body)
        },
    )
    fields.done()
    return snapshot


def restore(head: PackageHead, snapshot: Snapshot) -> PackageHead:
    """Return the head at a snapshot, given the head at its ``after``."""
    waiting: Waiting = None
    for ophash in reversed(snapshot.waiting):
        waiting = (ophash, waiting)
    return replace(
        head,
        generation=snapshot.generation,
        record_sha256=snapshot.record_sha256,
        analysis_revision=snapshot.analysis_revision,
        phase=snapshot.phase,
        status=snapshot.status,
        routing=snapshot.routing,
        operations=head.operations.settled(snapshot.states),
        tally=snapshot.tally,
        waiting=waiting,
        changed=None,
    )


def waiting_operations(head: PackageHead) -> tuple[str, ...]:
    """Return the ophashes of the operations that wait for a person, the latest first."""
    found: dict[str, None] = {}
    link = head.waiting
    while link is not None:
        ophash, link = link
        state = head.operations[ophash]
        if state.standing is OperationStatus.BLOCKED and state.resumed_as is None:
            found[ophash] = None
    return tuple(found)


def read_or_none(content: bytes, where: str, generation: int) -> Snapshot | None:
    """Read a snapshot if it is whole and is the one that its name says; None otherwise."""
    try:
        snapshot = decode_snapshot(content, where)
    except CheckpointError:
        return None
    fits = snapshot.generation == generation and snapshot.after in range(0, generation, INTERVAL)
    return snapshot if fits else None


def _stored(state: Encoded) -> bytes:
    return state if isinstance(state, bytes) else canonical(state.to_json())


def _lines(body: bytes) -> list[bytes]:
    states = body[: -len(_CLOSING) - 1]
    return [line.removesuffix(b",") for line in states.split(b"\n")] if states else []


def _tally(members: JSONObject, where: str) -> Tally:
    fields = Fields(members, where)
    tally = Tally(
        pending=fields.integer("pending", 0),
        blocked=fields.integer("blocked", 0),
        failed=fields.integer("failed", 0),
        succeeded=fields.integer("succeeded", 0),
    )
    fields.done()
    return tally


def _texts(fields: Fields, name: str) -> list[str]:
    texts: list[str] = []
    for item in fields.items(name):
        if not isinstance(item, str):
            raise fields.refuse(name, "an array of strings")
        texts.append(item)
    return texts
