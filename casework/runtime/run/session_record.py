"""What a run tells other processes about itself, and what all runs together have used.

One small file for each run, replaced every few seconds. They are hints for people, not part of any
package: after a crash the sums are counted anew from the packages.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from casework.checkpoints.call_names import is_call
from casework.checkpoints.store import CheckpointStore
from casework.errors import CheckpointError, LockBusy
from casework.runner.calls import calls_of, cut_off_starts
from casework.runner.outcome_files import outcomes_of
from casework.runtime.run.session_tally import UsageTally

RECORD_BYTES_MAX: Final = 1 << 20
TOTALS_FILE: Final = "totals.json"

Count = Annotated[int, Field(ge=0)]
_Model = TypeVar("_Model", bound=BaseModel)


class UsageRecord(BaseModel):
    """Tokens and money; unknown parts are counted beside the sums, never taken for zero."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    calls: Count = 0
    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    calls_without_tokens: Count = 0
    calls_without_price: Count = 0
    cost: dict[str, Decimal] = {}
    cut_off: Count = 0

    @classmethod
    def of(cls, usage: UsageTally) -> UsageRecord:
        """Take over what was counted."""
        return cls(
            calls=usage.calls,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            calls_without_tokens=usage.calls_without_tokens,
            calls_without_price=usage.calls_without_price,
            cost=dict(usage.cost),
            cut_off=usage.cut_off,
        )

    def plus(self, other: UsageRecord) -> UsageRecord:
        """Return the sum of both, money by currency."""
        cost = dict(self.cost)
        for currency, amount in other.cost.items():
            cost[currency] = cost.get(currency, Decimal(0)) + amount
        return UsageRecord(
            calls=self.calls + other.calls,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            calls_without_tokens=self.calls_without_tokens + other.calls_without_tokens,
            calls_without_price=self.calls_without_price + other.calls_without_price,
            cost=cost,
            cut_off=self.cut_off + other.cut_off,
        )


class ProviderRecord(BaseModel):
    """How one provider fares in a session."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str
    calls: Count
    failures: Count
    last_code: str | None
    median_ms: float | None


class SessionKind(StrEnum):
    """What a session is."""

    RUN = "run"
    """It ends when nothing is left to do."""
    WORKER = "worker"
    """It stays."""


class SessionRecord(BaseModel):
    """One run of a pipeline, as far as it has come."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    pipeline: str
    kind: SessionKind = SessionKind.RUN
    pid: Count | None = None
    """The process, for people who look for it; nothing is decided by it."""
    started_at: datetime
    updated_at: datetime
    ended_at: datetime | None = None
    reused: Count
    """Results that were there before this session."""
    completions: Count
    rounds: Count
    running: Count
    rate_per_minute: float | None
    eta_seconds: float | None
    usage: UsageRecord
    providers: dict[str, ProviderRecord]
    reasons: dict[str, Count]


class _Totals(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    sessions: Count = 0
    usage: UsageRecord = UsageRecord()


class SessionRecords:
    """The records of one project's runs.

    Args:
        store: Its folder holds them, and its locks tell a live run from one that died.
    """

    def __init__(self, store: CheckpointStore) -> None:
        self._store = store
        self._folder = None if store.folder is None else store.folder / "sessions"

    def alive(self, session_id: str) -> AbstractContextManager[None]:
        """Hold the sign of life of a session while the context lasts."""
        return self._store.lock(_sign_of_life(session_id))

    def write(self, record: SessionRecord) -> None:
        """Replace a session's record; where the disk refuses, people see the older one."""
        if self._folder is not None:
            _replace(self._folder / f"{record.id}.json", record.model_dump_json())

    def list(self) -> tuple[SessionRecord, ...]:
        """Return every record that can be read, the newest last."""
        found = (_read(path, SessionRecord) for path in self._paths())
        return tuple(sorted(filter(None, found), key=lambda record: record.started_at))

    def is_alive(self, record: SessionRecord) -> bool:
        """Tell whether the run that wrote a record is still at work."""
        if record.ended_at is not None:
            return False
        try:
            with self.alive(record.id):
                return False
        except LockBusy:
            return True
        except CheckpointError:
            return False

    def totals(self) -> tuple[UsageRecord, bool]:
        """Return what all sessions used, and whether that is exact.

        It is not where a run died: the last seconds before its death are missing until the next
        run counts anew.
        """
        total, exact = self._totals().usage, True
        for record in self.list():
            total = total.plus(record.usage)
            exact = exact and (record.ended_at is not None or self.is_alive(record))
        return total, exact

    def sessions(self) -> int:
        """Return how many runs there have been."""
        return self._totals().sessions + len(self.list())

    def settle(self) -> None:
        """Fold the records of ended runs into one sum; count anew after one that died.

        While a run is at work nothing is counted anew, since it would be in the way; records of
        runs that died wait for that.
        """
        if self._folder is None:
            return
        with suppress(LockBusy), self._store.lock("\0sessions"):
            # Listed under the lock: what another run has folded meanwhile must not count twice.
            records = self.list()
            if any(map(self.is_alive, records)):
                records = tuple(record for record in records if record.ended_at is not None)
            if records:
                self._fold(self._folder, records)

    def _fold(self, folder: Path, records: Sequence[SessionRecord]) -> None:
        before = self._totals()
        usage = before.usage
        if any(record.ended_at is None for record in records):
            usage = recount(self._store)
        else:
            for record in records:
                usage = usage.plus(record.usage)
        total = _Totals(sessions=before.sessions + len(records), usage=usage)
        if _replace(folder / TOTALS_FILE, total.model_dump_json()):
            for record in records:
                self._store.locks.discard(_sign_of_life(record.id))
                with suppress(OSError):
                    (folder / f"{record.id}.json").unlink()

    def _totals(self) -> _Totals:
        path = None if self._folder is None else self._folder / TOTALS_FILE
        return (path and _read(path, _Totals)) or _Totals()

    def _paths(self) -> Iterator[Path]:
        if self._folder is not None:
            for path in sorted(self._folder.glob("*.json")):
                if path.name != TOTALS_FILE:
                    yield path


def _sign_of_life(session_id: str) -> str:
    return f"\0session {session_id}"


def recount(store: CheckpointStore) -> UsageRecord:
    """Count the calls that runs made: every committed round of every package that can be read."""
    usage = UsageTally()
    for case_id in store.list():
        with suppress(CheckpointError):
            every = store.open(case_id).operations.values()
            states = (state for state in every if not is_call(state.operation_id))
            for _, outcome in outcomes_of(states, partial(store.read_file, case_id)):
                usage.cut_off += cut_off_starts(outcome.body)
                for call in calls_of(outcome.body):
                    usage.add(call)
    return UsageRecord.of(usage)


def _read(path: Path, model: type[_Model]) -> _Model | None:
    try:
        with path.open("rb") as stream:
            return model.model_validate_json(stream.read(RECORD_BYTES_MAX))
    except (OSError, ValidationError):
        return None


def _replace(path: Path, text: str) -> bool:
    """Put a file in place at once, so that no reader sees half of it; tell whether it worked."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(path)
    except OSError:
        return False
    return True
