"""Wiring: the inbox of a project, for the command line and for whoever sweeps it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

from casework.checkpoints.store import CheckpointStore
from casework.errors import PackageNotFound
from casework.runner.inbox import InboxEvent, InboxProcessor
from casework.runner.inbox_folder import InboxFolder


def inbox_folder(store: CheckpointStore, now: Callable[[], datetime]) -> InboxFolder:
    """Return the folders in which packages arrive.

    Raises:
        PackageNotFound: The packages do not lie in a folder.
    """
    if store.folder is None:
        raise PackageNotFound("the packages do not lie in a folder", code="no_folder")
    return InboxFolder(store.folder, now=now)


def inbox_processor(store: CheckpointStore, now: Callable[[], datetime]) -> InboxProcessor:
    """Return what takes packages in; its ``process_once`` is one step of blocking work."""
    return InboxProcessor(store, inbox_folder(store, now), now=now)


def arrivals(processor: InboxProcessor) -> Iterator[InboxEvent]:
    """Yield what becomes of all that has arrived, step after step.

    Raises:
        LockBusy: Another process is taking packages in now.
        StorageError: The lock, the folder or the index cannot be used.
    """
    more = True
    while more:
        report = processor.process_once()
        more = report.more
        yield from report.events
