"""Folding commit records into what is known now: the package's head.

Pure, and of constant cost per commit: a head shares almost everything with the one before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from casework.checkpoints.records import (
    NO_ROUTING,
    CommitKind,
    CommitRecord,
    OperationState,
    OperationStatus,
    PackageIdentity,
    PackageStatus,
    Routing,
)
from casework.strict_json import parse

RECENT_MAX: Final = 64
"""Generations whose changed states are kept in the small upper layer."""

Encoded: TypeAlias = "OperationState | bytes"
"""A state, or its stored form that nobody has looked at yet."""


class OperationStates(Mapping[str, OperationState]):
    """The states of a package by ophash, immutable, with cheap successors.

    Two layers: a large one shared by many heads, and the few states changed since the last
    multiple of 64 generations. States that came from a snapshot are decoded when asked for.
    """

    __slots__ = ("_added", "_base", "recent")

    def __init__(
        self,
        base: dict[str, Encoded] | None = None,
        recent: dict[str, OperationState] | None = None,
        *,
        added: int = 0,
    ) -> None:
        self._base: dict[str, Encoded] = {} if base is None else base
        self.recent: dict[str, OperationState] = {} if recent is None else recent
        self._added = added
        """How many names the upper layer has that the lower one lacks."""

    def __getitem__(self, ophash: str) -> OperationState:
        """Return one state."""
        state = self.recent.get(ophash)
        if state is not None:
            return state
        stored = self._base[ophash]
        if isinstance(stored, bytes):
            # Two threads may decode at once; they store equal values, so either may win.
            stored = self._base[ophash] = OperationState.from_json(parse(stored), "snapshot")
        return stored

    def __len__(self) -> int:
        """Return the number of states."""
        return len(self._base) + self._added

    def __iter__(self) -> Iterator[str]:
        """Iterate over the ophashes."""
        yield from list(self._base)
        yield from (name for name in self.recent if name not in self._base)

    def __contains__(self, ophash: object) -> bool:
        """Tell whether an operation has a state."""
        return ophash in self.recent or ophash in self._base

    def changed(self, states: Mapping[str, OperationState]) -> OperationStates:
        """Return the successor in which some states are new."""
        fresh = sum(1 for name in states if name not in self)
        return OperationStates(self._base, {**self.recent, **states}, added=self._added + fresh)

    def settled(self, block: Mapping[str, Encoded] | None = None) -> OperationStates:
        """Return the successor whose upper layer is empty, with a snapshot's states put in."""
        base = {**self._base, **self.recent}
        if block:
            base.update(block)
        return OperationStates(base)

    def stored(self) -> Iterator[tuple[str, Encoded]]:
        """Iterate over all states as they are held, without decoding any."""
        yield from {**self._base, **self.recent}.items()


@dataclass(frozen=True, slots=True)
class Tally:
    """How many current operations (not resumed, of the current revision) are in which state.

    What a person decided about counts as decided.
    """

    pending: int = 0
    blocked: int = 0
    failed: int = 0
    succeeded: int = 0

    @property
    def status(self) -> PackageStatus:
        """Return what the package as a whole waits for."""
        if self.pending:
            return PackageStatus.RETRY_PENDING
        if self.blocked:
            return PackageStatus.BLOCKED
        if self.failed:
            return PackageStatus.ERROR
        return PackageStatus.SUCCESS if self.succeeded else PackageStatus.ACTIVE

    def moved(self, status: OperationStatus, by: int) -> Tally:
        """Return the tally with one state counted in or out."""
        return Tally(
            self.pending + by * (status is OperationStatus.RETRY_PENDING),
            self.blocked + by * (status is OperationStatus.BLOCKED),
            self.failed + by * (status is OperationStatus.ERROR),
            self.succeeded + by * (status is OperationStatus.SUCCESS),
        )


Waiting: TypeAlias = "tuple[str, Waiting] | None"
"""Operations that wait for a person as a linked list, the latest first; shared between heads,
cleaned lazily."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageHead:
    """What is known of a package after its newest commit."""

    case_id: str
    package_id: str
    generation: int
    record_sha256: str
    """Digest of the newest record's bytes."""
    analysis_revision: int
    phase: str
    status: PackageStatus
    routing: Routing
    """That of the latest operation which is blocked, not resumed and not decided about."""
    operations: OperationStates
    tally: Tally = Tally()
    waiting: Waiting = None
    changed: tuple[str, ...] | None = None
    """The operations that the newest commit changed; None where that was not looked at."""


def unborn(identity: PackageIdentity, phase: str = "") -> PackageHead:
    """Return the head of generation 0, from which everything is folded."""
    return PackageHead(
        case_id=identity.case_id,
        package_id=identity.package_id,
        generation=0,
        record_sha256="",
        analysis_revision=1,
        phase=phase,
        status=PackageStatus.ACTIVE,
        routing=NO_ROUTING,
        operations=OperationStates(),
    )


def advance(
    head: PackageHead,
    operations: Mapping[str, OperationState],
    *,
    analysis_revision: int,
    phase: str,
    forgotten: bool = False,
) -> PackageHead:
    """Return the next generation's head, but for the digest of its record."""
    tally, waiting = head.tally, head.waiting
    if forgotten or analysis_revision != head.analysis_revision:
        # The operations of an older revision, or of a forgotten case, are history.
        tally, waiting = Tally(), None
    states = head.operations.changed(operations)
    for ophash, state in operations.items():
        before = head.operations.get(ophash)
        if before is not None and _is_current(before, analysis_revision):
            tally = tally.moved(before.standing, -1)
        if _is_current(state, analysis_revision):
            tally = tally.moved(state.standing, +1)
            if state.standing is OperationStatus.BLOCKED:
                waiting = (ophash, waiting)
    while waiting is not None and not _waits(states[waiting[0]], analysis_revision):
        waiting = waiting[1]
    generation = head.generation + 1
    return PackageHead(
        case_id=head.case_id,
        package_id=head.package_id,
        generation=generation,
        record_sha256="",
        analysis_revision=analysis_revision,
        phase=phase,
        status=PackageStatus.FORGOTTEN if forgotten else tally.status,
        routing=NO_ROUTING if waiting is None else states[waiting[0]].routing,
        operations=states.settled() if generation % RECENT_MAX == 0 else states,
        tally=tally,
        waiting=waiting,
        changed=tuple(operations),
    )


def apply(head: PackageHead, record: CommitRecord, record_sha256: str) -> PackageHead:
    """Return the head after a stored record."""
    after = advance(
        head,
        record.operations,
        analysis_revision=record.analysis_revision,
        phase=record.phase,
        forgotten=record.kind is CommitKind.FORGOTTEN,
    )
    return replace(after, record_sha256=record_sha256)


def _is_current(state: OperationState, analysis_revision: int) -> bool:
    return state.resumed_as is None and state.analysis_revision == analysis_revision


def _waits(state: OperationState, analysis_revision: int) -> bool:
    return state.standing is OperationStatus.BLOCKED and _is_current(state, analysis_revision)
