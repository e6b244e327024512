"""Taking documents into the store, several at a time; each becomes one case or one refusal."""

from __future__ import annotations

import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from typing import BinaryIO, Final, TypeAlias, assert_never, cast

from casework.checkpoints.store import CheckpointStore
from casework.errors import (
    CheckpointError,
    ConfigurationError,
    FormatError,
    IllegalTransition,
    IntegrityError,
    LockBusy,
)
from casework.runner.documents import (
    Document,
    ImportItem,
    ImportSummary,
    ImportTally,
    Problem,
    ProblemCode,
    Refusal,
    Skipped,
)

WORKERS: Final = 16
"""Creations in flight at once, so that the disk can sync several together."""

BUSY_SECONDS: Final = 0.05
BUSY_TRIES: Final = 100
"""How long to wait for whoever creates the same case at this moment: another import, mostly."""

STANDARD_INPUT_BYTES_MAX: Final = 4 * 1024 * 1024 * 1024
MEMORY_BYTES_MAX: Final = 8 * 1024 * 1024
"""How much of standard input is kept in memory; the rest goes to a temporary file."""


def standard_input(bytes_max: int = STANDARD_INPUT_BYTES_MAX) -> BinaryIO:
    """Return what stands on standard input as a file that can be wound back.

    Raises:
        ConfigurationError: It is longer than allowed; nothing was imported.
    """
    target = tempfile.SpooledTemporaryFile(MEMORY_BYTES_MAX)  # noqa: SIM115 - read by the caller
    left = bytes_max
    while part := sys.stdin.buffer.read(min(MEMORY_BYTES_MAX, left + 1)):
        left -= len(part)
        if left < 0:
            target.close()
            raise ConfigurationError(
                f"standard input has more than {bytes_max} bytes",
                code="stdin_too_large",
                remedy="write it to a file and import that",
            )
        target.write(part)
    target.seek(0)
    return cast("BinaryIO", target)


class Arrival(StrEnum):
    """What became of a document."""

    CREATED = "created"
    """A new case."""
    KNOWN = "known"
    """The case is there already with the same bytes; nothing was written."""
    WOULD_BE = "would_be"
    """A dry run; nothing was written."""


@dataclass(frozen=True, slots=True)
class Arrived:
    """A document that is a case now."""

    document: Document
    arrival: Arrival


ImportEvent: TypeAlias = Arrived | Refusal | Skipped


@dataclass(slots=True)
class ImportCount:
    """The count of an import: everything that was met came out as exactly one of these."""

    created: int = 0
    known: int = 0
    would_be: int = 0
    _tally: ImportTally = field(default_factory=ImportTally)

    def add(self, event: ImportEvent) -> None:
        """Count one event."""
        match event:
            case Arrived(document, arrival):
                self.created += arrival is Arrival.CREATED
                self.known += arrival is Arrival.KNOWN
                self.would_be += arrival is Arrival.WOULD_BE
                self._tally.add(document)
            case Refusal() | Skipped():
                self._tally.add(event)
            case _:
                assert_never(event)

    def summary(self) -> ImportSummary:
        """Return what was met, with what was noticed about it."""
        return self._tally.summary()


def import_documents(
    items: Iterable[ImportItem],
    store: CheckpointStore,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[ImportEvent]:
    """Create a case for each document, and yield what became of each item, in order.

    The same documents again change nothing, and neither does another import of them meanwhile.

    Raises:
        StorageError: The disk refused; the cases before it are there, and importing again goes on.
    """
    index = store.index

    def create(document: Document) -> ImportEvent:
        known = index.generation(document.case_id) > 0
        for _ in range(BUSY_TRIES):
            try:
                store.create(document.case_id, document.originals, derived=document.derived)
            except LockBusy:
                sleep(BUSY_SECONDS)
                known = _is_there(store, document.case_id)
            except FormatError as error:
                return _refused(document, error)
            except (IntegrityError, IllegalTransition) as error:
                return Refusal(Problem(ProblemCode.UNREADABLE, document.source, error.message))
            else:
                return Arrived(document, Arrival.KNOWN if known else Arrival.CREATED)
        message = "the case is being worked on; import it again later"
        return Refusal(Problem(ProblemCode.UNREADABLE, document.source, message))

    with ThreadPoolExecutor(WORKERS, thread_name_prefix="casework-import") as threads:
        yield from _in_order(items, lambda document: threads.submit(create, document))


def _is_there(store: CheckpointStore, case_id: str) -> bool:
    try:
        store.open(case_id)
    except CheckpointError:
        return False
    return True


def look_at(items: Iterable[ImportItem]) -> Iterator[ImportEvent]:
    """Yield what would become of each item, and write nothing."""
    for item in items:
        yield Arrived(item, Arrival.WOULD_BE) if isinstance(item, Document) else item


def _in_order(
    items: Iterable[ImportItem], submit: Callable[[Document], Future[ImportEvent]]
) -> Iterator[ImportEvent]:
    waiting: deque[Future[ImportEvent] | Refusal | Skipped] = deque()
    for item in items:
        waiting.append(submit(item) if isinstance(item, Document) else item)
        while len(waiting) >= WORKERS * 2:
            yield _settled(waiting.popleft())
    while waiting:
        yield _settled(waiting.popleft())


def _settled(waiting: Future[ImportEvent] | Refusal | Skipped) -> ImportEvent:
    return waiting.result() if isinstance(waiting, Future) else waiting


def _refused(document: Document, error: FormatError) -> Refusal:
    if error.code == "case_exists":
        message = "the case exists with other content; give the changed document another id"
        return Refusal(Problem(ProblemCode.DUPLICATE_ID, document.source, message))
    forgotten = error.code == ProblemCode.CASE_FORGOTTEN
    code = ProblemCode.CASE_FORGOTTEN if forgotten else ProblemCode.ID_INVALID
    return Refusal(Problem(code, document.source, error.message))
