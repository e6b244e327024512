"""What a report shows of each case: its results, where they came from, and its texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from casework.checkpoints.records import OperationStatus, PackageStatus
from casework.checkpoints.store import CheckpointStore
from casework.errors import CheckpointError
from casework.runner.export import ExportRow
from casework.runtime.views.evidence import Quote, case_evidence
from casework.runtime.views.export_rows import case_rows


@dataclass(frozen=True, slots=True)
class ReportedResult:
    """One operation of a case, and what its answer quotes letter by letter."""

    row: ExportRow
    quotes: tuple[Quote, ...] = ()


@dataclass(frozen=True, slots=True)
class ReportedCase:
    """One case of a report."""

    case_id: str
    results: tuple[ReportedResult, ...]
    texts: tuple[tuple[str, str], ...]
    """Name and text of each source."""


def reported_cases(
    store: CheckpointStore,
    cases: Iterable[str],
    *,
    only: OperationStatus | None = None,
    every_campaign: bool = False,
    calls: bool = False,
    passed_over: dict[str, CheckpointError],
) -> Iterator[ReportedCase]:
    """Yield each case that has such results, in the order of the cases.

    Args:
        store: Where.
        cases: Which cases.
        only: Only operations that count as this.
        every_campaign: Also those that live on under a later id.
        calls: Also calls of clients.
        passed_over: Takes the cases whose package cannot be read, and why.
    """
    for case_id in cases:
        try:
            if store.open(case_id).status is PackageStatus.FORGOTTEN:
                continue
            rows = list(
                case_rows(store, case_id, only=only, every_campaign=every_campaign, calls=calls)
            )
            evidence = case_evidence(store, case_id)
        except CheckpointError as error:
            passed_over[case_id] = error
            continue
        quotes = {
            (found.state.analysis_revision, found.state.operation_id): found.quotes
            for found in evidence.operations
        }
        results = tuple(
            ReportedResult(row, quotes.get((row.analysis_revision, row.operation_id), ()))
            for row in rows
        )
        if results or only is None:
            yield ReportedCase(case_id, results, evidence.texts)
