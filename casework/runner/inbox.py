"""Packages that arrive from elsewhere, and blocked operations that may go on by themselves."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Final

from casework.checkpoints.index_rows import IndexedOperation
from casework.checkpoints.package_reader import PackageReader
from casework.checkpoints.receiving import Receipt, Received
from casework.checkpoints.records import OperationState, OperationStatus
from casework.checkpoints.store import CheckpointStore
from casework.checkpoints.zip_storage import ZipLimits, ZipStorage
from casework.errors import (
    CaseworkError,
    CheckpointError,
    LockBusy,
    OperationConflict,
    RunnerError,
    StorageError,
)
from casework.runner.inbox_folder import InboxFolder, Note, age_seconds, is_regular
from casework.runner.operation_ids import later_ids

FILES_MAX: Final = 100
"""Files taken up in one step; the rest waits for the next one."""

RESUMED_MAX: Final = 100
"""Operations that go on in one step."""

ARRIVING_SECONDS: Final = 60.0
"""How long a file that is no ZIP yet may still be on its way before it is rejected."""

_PROCESSOR: Final = "\0inbox"
"""The lock of the inbox; no case has this id."""


class Arrival(StrEnum):
    """What became of a file in the inbox, or of a blocked operation."""

    IMPORTED = "imported"
    """The case was unknown; it has its sender's identity and generation now."""
    EXTENDED = "extended"
    """The case was known; it has the later generations now."""
    DUPLICATE = "duplicate"
    """Everything in it was known; the file was archived with a note."""
    REJECTED = "rejected"
    """It was set aside with the reason; nothing of it was taken in."""
    LEFT = "left"
    """It stays where it is; the next step tries again."""
    RESUMED = "resumed"
    """A blocked operation lives on under a new id, due at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxEvent:
    """One thing that one step did."""

    arrival: Arrival
    file: str | None = None
    """The name of the file; None for a resumption."""
    case_id: str | None = None
    generation: int | None = None
    operation_id: str | None = None
    new_operation_id: str | None = None
    waiting: tuple[str, ...] = ()
    """Operations of the case that wait for an explicit resumption."""
    code: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class InboxReport:
    """What one step did, in order."""

    events: tuple[InboxEvent, ...]
    more: bool
    """Whether it stopped at a limit, so that another step would find work."""


class InboxProcessor:
    """Takes packages in and lets operations go on; one step at a time, whoever calls it.

    A package is judged whole before anything is written, and taken in unchanged. Nothing that says
    ``automatic_retry: false`` is ever resumed here, whoever sent it.

    Args:
        store: Where the packages go.
        folder: Where files arrive.
        now: The clock.
        limits: How large a package may be, counted while it is read.
    """

    def __init__(
        self,
        store: CheckpointStore,
        folder: InboxFolder,
        *,
        now: Callable[[], datetime],
        limits: ZipLimits | None = None,
    ) -> None:
        self._store = store
        self._folder = folder
        self._now = now
        self._limits = limits

    def process_once(self) -> InboxReport:
        """Take up what lies in the inbox, then what may go on by itself; never waits.

        Raises:
            LockBusy: Another process is doing this now.
            StorageError: The lock, the folder or the index cannot be used.
        """
        with self._store.lock(_PROCESSOR):
            files = list(islice(self._folder.arrived(), FILES_MAX + 1))
            events = [self._handle(path) for path in files[:FILES_MAX]]
            resumable = self._store.index.resumable(self._now(), RESUMED_MAX)
            events += filter(None, map(self._resume, resumable))
        moved = sum(event.arrival is not Arrival.LEFT for event in events)
        full = len(files) > FILES_MAX or len(resumable) == RESUMED_MAX
        return InboxReport(tuple(events), full and moved > 0)

    def _handle(self, path: Path) -> InboxEvent:
        """Take a file in or set it aside; where that cannot be done now, leave it."""
        try:
            return self._take(path)
        except (LockBusy, StorageError) as error:
            return _left(path, error)

    def _take(self, path: Path) -> InboxEvent:
        if not is_regular(path):
            return self._reject(path, "special_file", "a link or device lies in the inbox")
        try:
            received = self._store.receive(path, limits=self._limits)
        except (LockBusy, StorageError):
            raise
        except CheckpointError as error:
            age = age_seconds(path, self._now())
            if error.code == "bad_zip" and 0 <= age < ARRIVING_SECONDS:
                return _left(path, error)
            return self._reject(path, error.code, error.message, where=error.where)
        return self._taken(path, received)

    def _taken(self, path: Path, received: Received) -> InboxEvent:
        """End a file whose package is in the store."""
        head = received.head
        if received.receipt is Receipt.DUPLICATE:
            note = Note(
                result="duplicate",
                code="duplicate",
                message=f"generation {head.generation} is here already",
                case_id=head.case_id,
                generation=head.generation,
            )
            self._folder.set_aside(path, note)
        else:
            self._folder.remove(path)
        return InboxEvent(
            arrival=Arrival(received.receipt.value),
            file=path.name,
            case_id=head.case_id,
            generation=head.generation,
            waiting=tuple(
                state.operation_id
                for state in head.operations.values()
                if waits_for_resumption(state)
            ),
        )

    def _reject(
        self, path: Path, code: str, message: str, *, where: str | None = None
    ) -> InboxEvent:
        case_id = self._case_of(path)
        note = Note(result="rejected", code=code, message=message, where=where, case_id=case_id)
        self._folder.set_aside(path, note)
        return InboxEvent(
            arrival=Arrival.REJECTED, file=path.name, case_id=case_id, code=code, message=message
        )

    def _case_of(self, path: Path) -> str | None:
        """Return which case a rejected file says it is of, so that it can be forgotten with it."""
        if is_regular(path):
            with suppress(CheckpointError), ZipStorage(path, self._limits) as archive:
                return PackageReader(archive).identity().case_id
        return None

    def _resume(self, operation: IndexedOperation) -> InboxEvent | None:
        """Let a blocked operation go on; None where somebody did before."""
        try:
            new_id = resume_under_next_id(self._store, operation)
        except (CheckpointError, RunnerError) as error:
            return InboxEvent(
                arrival=Arrival.LEFT,
                case_id=operation.case_id,
                operation_id=operation.operation_id,
                code=error.code,
                message=error.message,
            )
        if new_id is None:
            return None
        return InboxEvent(
            arrival=Arrival.RESUMED,
            case_id=operation.case_id,
            operation_id=operation.operation_id,
            new_operation_id=new_id,
        )


def resume_under_next_id(
    store: CheckpointStore, operation: IndexedOperation, *, answered: bool = False
) -> str | None:
    """Let an operation live on under the first free id; None if it was resumed before.

    Args:
        store: Where.
        operation: Which.
        answered: Also where it has an answer, which then is history.

    Raises:
        LockBusy: Somebody works on the case.
        NotDue: It is blocked, and its retry time has not come.
        OperationConflict: Every id is used.
    """
    for new_id in later_ids(operation.operation_id):
        try:
            store.resume(
                operation.case_id,
                operation.package_id,
                operation.operation_id,
                new_operation_id=new_id,
                answered=answered,
            )
        except OperationConflict as conflict:
            if conflict.code == "already_resumed":
                return None
        else:
            return new_id
    raise OperationConflict("every later id of the operation is used", where=operation.case_id)


def waits_for_resumption(state: OperationState) -> bool:
    """Tell whether a blocked operation goes on only when a person says so."""
    return (
        state.standing is OperationStatus.BLOCKED
        and state.resumed_as is None
        and state.routing.automatic_retry is False
    )


def _left(path: Path, error: CaseworkError) -> InboxEvent:
    return InboxEvent(arrival=Arrival.LEFT, file=path.name, code=error.code, message=error.message)
