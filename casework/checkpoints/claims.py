"""Which worker is about to run something of which case: a hint that keeps workers apart.

A claim excludes nobody: the case's lock does, and the generation decides who may commit. Claims
live in the index, so they are lost with it, and that costs a few refused locks. Their times are
seconds of the machine's monotonic clock, which every process of one boot shares and nobody can set;
an index does not outlive its boot.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from casework.checkpoints.index_statements import Statements


@dataclass(frozen=True, slots=True)
class Wanted:
    """Due work as a worker found it in the index."""

    case_id: str
    ophash: str
    due_ticks: int
    """When it was due; another time means that somebody has worked on it since."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who asks what is due, and when."""

    worker: str
    elapsed: float
    """The time in monotonic seconds."""

    @property
    def ticks(self) -> int:
        """Return the time as claims are stored."""
        return _ticks(self.elapsed)


EVERYBODY: Final = Viewer("", 1e12)
"""Sees what is due, whoever has it in hand: by that time every claim has run out."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A case in a worker's hands."""

    case_id: str
    worker: str
    until: float
    """When it runs out, in monotonic seconds."""


class Claims:
    """The claims of one index.

    Args:
        transaction: Opens one.
    """

    def __init__(self, transaction: Callable[[], AbstractContextManager[Statements]]) -> None:
        self._transaction = transaction

    def take(
        self,
        worker: str,
        wanted: Iterable[Wanted],
        *,
        elapsed: float,
        until: float,
        release: Collection[str] = (),
    ) -> dict[str, str | None]:
        """Claim cases for a worker, all in one transaction, and let go of others.

        Args:
            worker: Who claims.
            wanted: Work that was due a moment ago.
            elapsed: The time now, in monotonic seconds.
            until: When the claims run out.
            release: Cases that the worker has done with.

        Returns:
            The cases that are the worker's now, each with the worker whose claim on it had run
            out, if there was one.
        """
        taken: dict[str, str | None] = {}
        with self._transaction() as open_:
            for case_id in release:
                open_.execute(_RELEASE, (case_id, worker))
            for work in wanted:
                before = open_.execute(_HOLDER, (work.case_id,)).fetchall()
                values = (work.case_id, worker, _ticks(until), work.ophash, work.due_ticks)
                if open_.execute(_TAKE, (*values, _ticks(elapsed))).rowcount:
                    holder = str(before[0][0]) if before else worker
                    taken[work.case_id] = None if holder == worker else holder
        return taken

    def renew(self, worker: str, case_ids: Iterable[str], *, until: float) -> None:
        """Push the end of a worker's claims further away; one that is lost is claimed again.

        A case that another worker has claimed meanwhile stays with that one.
        """
        with self._transaction() as open_:
            for case_id in case_ids:
                open_.execute(_RENEW, (case_id, worker, _ticks(until)))

    def release(self, worker: str, case_ids: Iterable[str]) -> None:
        """Let go of cases."""
        with self._transaction() as open_:
            for case_id in case_ids:
                open_.execute(_RELEASE, (case_id, worker))

    def holds(self, worker: str, case_id: str) -> bool:
        """Tell whether a case is in a worker's hands."""
        with self._transaction() as open_:
            return open_.execute(_HOLDER, (case_id,)).fetchall() == [(worker,)]

    def of_others(self, worker: str) -> list[Claim]:
        """Return what is in the hands of other workers, claims that ran out included."""
        with self._transaction() as open_:
            rows = open_.execute(_OTHERS, (worker,)).fetchall()
        return [Claim(str(row[0]), str(row[1]), int(row[2] or 0) / _SECOND) for row in rows]

    def void(self, worker: str) -> int:
        """Drop every claim of a worker that is dead, and return how many there were."""
        with self._transaction() as open_:
            return open_.execute("delete from claims where worker = ?", (worker,)).rowcount


_SECOND: Final = 1_000_000


def _ticks(seconds: float) -> int:
    return round(seconds * _SECOND)


_HOLDER: Final = "select worker from claims where case_id = ?"
_OTHERS: Final = "select case_id, worker, until from claims where worker <> ?"
_RELEASE: Final = "delete from claims where case_id = ? and worker = ?"

_TAKE: Final = """
insert into claims select ?1, ?2, ?3
where exists (select 1 from operations where case_id = ?1 and ophash = ?4 and due_at = ?5)
on conflict (case_id) do update set worker = excluded.worker, until = excluded.until
where claims.worker = excluded.worker or claims.until <= ?6
"""

_RENEW: Final = """
insert into claims values (?1, ?2, ?3)
on conflict (case_id) do update set until = excluded.until where claims.worker = excluded.worker
"""
