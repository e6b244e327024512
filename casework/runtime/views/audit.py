"""Who saw which document: the exposures of one case or of all, as rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from casework.checkpoints.index_pages import every_case
from casework.checkpoints.store import CheckpointStore
from casework.errors import CaseworkError, CheckpointError
from casework.runner.exposure import Exposure, exposures
from casework.runtime.views import phrases
from casework.strict_json import JSONObject

COLUMNS: Final = (
    "case_id",
    "operation_id",
    "round",
    "provider",
    "model",
    "class",
    "time",
    "bytes",
    "result",
    "sent",
    "cost_max",
)

UNCONFIRMED: Final = "unconfirmed"
"""The end of the call was never seen: the document may have been seen, and paid for, twice."""


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One provider that was given one document, or may have been."""

    case_id: str
    exposure: Exposure

    @property
    def result(self) -> str:
        """Return what became of the call: accepted, a code, or unconfirmed."""
        if not self.exposure.confirmed:
            return UNCONFIRMED
        return self.exposure.code or "accepted"

    @property
    def sent(self) -> str:
        """Return whether the document left for the provider."""
        match self.exposure.sent:
            case True:
                return "yes"
            case False:
                return "no"
            case None:
                return "perhaps"

    def to_json(self) -> JSONObject:
        """Return the row as JSON output carries it; what nobody knows is null."""
        seen = self.exposure
        return {
            "case_id": self.case_id,
            "operation_id": seen.operation_id,
            "round": seen.round,
            "provider": seen.provider,
            "model": seen.model,
            "class": seen.provider_class,
            "started_at": seen.started_at,
            "request_bytes": seen.request_bytes,
            "result": self.result,
            "failed": None if not seen.confirmed else seen.code is not None,
            "sent": seen.sent,
            "confirmed": seen.confirmed,
            "cost_max": seen.cost_max,
        }

    def cells(self, *, local: bool) -> tuple[str, ...]:
        """Return the row as texts under ``COLUMNS``.

        Args:
            local: Write times in the local zone; otherwise in UTC.
        """
        seen = self.exposure
        return (
            self.case_id,
            seen.operation_id,
            str(seen.round),
            seen.provider,
            seen.model,
            seen.provider_class or phrases.UNKNOWN,
            _local(seen.started_at) if local else seen.started_at,
            phrases.UNKNOWN if seen.request_bytes is None else str(seen.request_bytes),
            self.result,
            self.sent,
            seen.cost_max or "",
        )


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A case whose package could not be read."""

    case_id: str
    error: CaseworkError


def audit(store: CheckpointStore, cases: Iterable[str]) -> Iterator[AuditRow | Unreadable]:
    """Yield who saw each case, in the order of the cases and of the rounds."""
    for case_id in cases:
        try:
            for exposure in exposures(store, case_id):
                yield AuditRow(case_id, exposure)
        except CheckpointError as error:
            yield Unreadable(case_id, error)


def audit_all(store: CheckpointStore) -> Iterator[AuditRow | Unreadable]:
    """Yield who saw each case of a store."""
    yield from audit(store, every_case(store))


def _local(text: str) -> str:
    try:
        return phrases.local_time(datetime.fromisoformat(text))
    except ValueError:
        return text
