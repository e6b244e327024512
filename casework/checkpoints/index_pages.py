"""Walking over all that the index knows, page by page, however much it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from typing import Final

from casework.checkpoints.call_names import CALLS_PHASE
from casework.checkpoints.index import PackageIndex
from casework.checkpoints.index_rows import IndexedOperation, IndexedPackage, Planned
from casework.checkpoints.records import OperationStatus
from casework.checkpoints.store import CheckpointStore
from casework.errors import CheckpointError, StorageError

PAGE: Final = 1000

STATES: Final[tuple[OperationStatus | Planned, ...]] = (
    OperationStatus.SUCCESS,
    OperationStatus.ERROR,
    OperationStatus.BLOCKED,
    OperationStatus.RETRY_PENDING,
    *Planned,
)


def every_package(index: PackageIndex) -> Iterator[IndexedPackage]:
    """Yield every package that the index knows, in the order of their cases."""
    page = index.packages(limit=PAGE)
    while page:
        yield from page
        page = index.packages(after=page[-1].case_id, limit=PAGE)


def every_case(store: CheckpointStore) -> Iterator[str]:
    """Yield the id of every case in order; from the packages where the index cannot be used.

    So what only looks also works in a folder that may not be written.
    """
    return (case_id for case_id, _ in _cases(store))


def pipeline_cases(store: CheckpointStore) -> Iterator[str]:
    """Yield the id of every case that pipelines run over, as :func:`every_case` does.

    Cases that clients' calls began are not among them.
    """
    return (case_id for case_id, phase in _cases(store) if phase() != CALLS_PHASE)


def _cases(store: CheckpointStore) -> Iterator[tuple[str, Callable[[], str | None]]]:
    """Yield the id of every case, and what tells its phase; None where nobody knows it."""
    packages = every_package(store.index)
    try:
        first = next(packages, None)
    except StorageError:
        yield from ((case_id, partial(_phase, store, case_id)) for case_id in store.list())
        return
    found = packages if first is None else chain((first,), packages)
    yield from ((package.case_id, partial(str, package.phase)) for package in found)


def _phase(store: CheckpointStore, case_id: str) -> str | None:
    try:
        return store.open(case_id).phase
    except CheckpointError:
        return None


def every_operation(index: PackageIndex) -> Iterator[IndexedOperation]:
    """Yield every current operation, state by state; planned ones last."""
    for status in STATES:
        yield from operations_in(index, status)


def operations_in(
    index: PackageIndex, status: OperationStatus | Planned
) -> Iterator[IndexedOperation]:
    """Yield every current operation in one state, in the order of the cases."""
    after = ("", "")
    while page := index.in_status(status, after=after, limit=PAGE):
        yield from page
        after = (page[-1].case_id, page[-1].ophash)
