"""What all processes of a project know together about their line: calls, money, an outage.

One small SQLite file. It holds counts, amounts and times, never a text of a document. Calls and
money can be counted anew from the packages, and are, after the file is lost or damaged and after
the machine restarted. An outage and what is set aside for running rounds are simply forgotten then.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from secrets import token_hex
from threading import RLock
from typing import Final, TypeVar

from casework.checkpoints.disk import inode_of
from casework.checkpoints.index_rows import boot_identity
from casework.config.limits import ProviderLimits
from casework.errors import StorageError
from casework.runtime.line.limit_windows import WINDOW, Closed, closed_until, day_of

_LOG = logging.getLogger(__name__)
_T = TypeVar("_T")

FILE_NAME: Final = "line.sqlite3"
SCHEMA_VERSION: Final = "2"
"""Raise it with every change below; a file of another version is thrown away."""

_SCHEMA: Final = (
    "create table meta (name text primary key, value text not null) without rowid",
    "create table calls (provider text not null, at integer not null)",
    "create index call_at on calls (provider, at)",
    """create table minutes (provider text not null, minute integer not null, n integer not null,
    primary key (provider, minute)) without rowid""",
    """create table spent (seq integer primary key, round blob not null unique,
    at integer not null, amount text not null, unpriced integer not null)""",
    """create table aside (owner text not null, case_id text not null, operation_id text not null,
    amount text not null, primary key (owner, case_id, operation_id)) without rowid""",
    """create table outage (one integer primary key check (one = 1), since integer not null,
    next_canary integer not null, canary_until integer not null)""",
)

_PRAGMAS: Final = (
    # As for the package index: no write-ahead log, and nothing is synced, because what a restart
    # of the machine may take is counted anew after it.
    "pragma busy_timeout = 2000",
    "pragma journal_mode = persist",
    "pragma synchronous = off",
)

FILES_TRIED: Final = 5
"""How often the file is opened anew because it was replaced meanwhile."""

_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_PRIMARY_CODE: Final = 0xFF
_MINUTES_KEPT: Final = 3 * 24 * 60
_MINUTE: Final = timedelta(minutes=1)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Spending:
    """What one committed round cost."""

    round: bytes
    """Which round it was, as a digest."""
    at: datetime
    """When it began."""
    amount: Decimal
    unpriced: int = 0
    """Calls of it that nobody can put a price on; they are not in the amount."""


@dataclass(frozen=True, slots=True)
class SetAside:
    """Money for a round that runs."""

    owner: str
    case_id: str
    operation_id: str
    amount: Decimal


@dataclass(frozen=True, slots=True)
class SharedOutage:
    """An outage as the processes of a project share it."""

    since: datetime
    next_canary_at: datetime
    """In steady time, as :func:`casework.gateway.clock.steady_time` tells it."""
    canary_until: datetime
    """Until when a canary of some process is out at most, in steady time; past if none is."""


class Ledger:
    """The money, inside one transaction.

    Args:
        connection: Of the transaction.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def born(self) -> str:
        """Return what changes when the file is begun anew."""
        return str(
            self._connection.execute("select value from meta where name = 'born'").fetchone()[0]
        )

    def spent_after(self, seq: int) -> list[tuple[int, Spending]]:
        """Return what was spent after some entry, in the order of the entries."""
        rows = self._connection.execute(
            "select seq, round, at, amount, unpriced from spent where seq > ? order by seq", (seq,)
        )
        return [
            (number, Spending(key, _moment(at), Decimal(amount), unpriced))
            for number, key, at, amount, unpriced in rows
        ]

    def set_aside(self) -> list[SetAside]:
        """Return what is set aside, by everybody."""
        rows = self._connection.execute("select owner, case_id, operation_id, amount from aside")
        return [
            SetAside(owner, case_id, operation_id, Decimal(amount))
            for owner, case_id, operation_id, amount in rows
        ]

    def put_aside(self, entry: SetAside) -> None:
        """Set money aside for a round."""
        values = (entry.owner, entry.case_id, entry.operation_id, str(entry.amount))
        self._connection.execute("insert or replace into aside values (?, ?, ?, ?)", values)

    def release(
        self, owner: str, case_id: str | None = None, operation_id: str | None = None
    ) -> None:
        """Give back what an owner set aside, for one operation or for all."""
        self._connection.execute(
            """delete from aside where owner = ?
            and (? is null or (case_id = ? and operation_id = ?))""",
            (owner, case_id, case_id, operation_id),
        )

    def spend(self, entries: Iterable[Spending]) -> None:
        """Note what rounds cost; a round that is noted already changes nothing."""
        self._connection.executemany(
            "insert or ignore into spent (round, at, amount, unpriced) values (?, ?, ?, ?)",
            [(e.round, _ticks(e.at), str(e.amount), e.unpriced) for e in entries],
        )


class LineState:
    """The shared state of one project's line, usable from threads and processes.

    Args:
        path: The file; None keeps the state in memory, for one process.
        boot: What identifies the running system; None asks it.
    """

    def __init__(self, path: Path | None, *, boot: str | None = None) -> None:
        self._path = path
        self._boot = boot_identity() if boot is None else boot
        self._guard = RLock()
        self._pid = os.getpid()
        self._connection: sqlite3.Connection | None = None
        self._inode: int | None = None

    def count_call(
        self,
        provider: str,
        limits: ProviderLimits,
        *,
        now: datetime,
        steady: datetime | None = None,
    ) -> Closed | None:
        """Count a call that is about to be made, or return which limit forbids it.

        Days go by the wall clock, minutes by the steady time, which nobody can set.
        """
        moment = steady or now

        def work(connection: sqlite3.Connection) -> Closed | None:
            closed = _closed(connection, provider, limits, now=now, steady=moment)
            if closed is None:
                _count(connection, provider, now, steady=moment)
            return closed

        return self._do(work)

    def closed(
        self,
        provider: str,
        limits: ProviderLimits,
        *,
        now: datetime,
        steady: datetime | None = None,
    ) -> Closed | None:
        """Return which limit forbids a call now; None if none does."""
        moment = steady or now
        return self._do(
            lambda connection: _closed(connection, provider, limits, now=now, steady=moment),
            write=False,
        )

    def calls_today(self, provider: str, limits: ProviderLimits, *, now: datetime) -> int:
        """Return how many calls the provider's day has seen."""
        begins_at = day_of(now, limits).begins_at
        return self._do(
            lambda connection: _calls_since(connection, provider, begins_at), write=False
        )

    def in_ledger(self, work: Callable[[Ledger], _T]) -> _T:
        """Do something with the money, in one transaction."""
        return self._do(lambda connection: work(Ledger(connection)))

    def counted(self) -> frozenset[str]:
        """Return what is counted without a gap: providers by id, and money as an empty text."""

        def work(connection: sqlite3.Connection) -> frozenset[str]:
            rows = connection.execute("select name from meta where name like 'counted %'")
            return frozenset(str(name).removeprefix("counted ") for (name,) in rows)

        return self._do(work, write=False)

    def set_counted(self, names: Iterable[str]) -> None:
        """Say what is counted without a gap from now on."""
        values = [(f"counted {name}",) for name in names]

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("delete from meta where name like 'counted %'")
            connection.executemany("insert into meta values (?, '')", values)

        self._do(work)

    def recount(self, calls: Iterable[tuple[str, datetime]], spent: Iterable[Spending]) -> None:
        """Take over what the packages tell.

        Counts that are higher already stay, and so does what forgotten cases cost.
        """
        minutes: dict[tuple[str, int], int] = {}
        for provider, at in calls:
            key = (provider, _minute(at))
            minutes[key] = minutes.get(key, 0) + 1

        def work(connection: sqlite3.Connection) -> None:
            connection.executemany(
                """insert into minutes values (?, ?, ?)
                on conflict do update set n = max(n, excluded.n)""",
                [(*key, n) for key, n in minutes.items()],
            )
            Ledger(connection).spend(spent)

        self._do(work)

    def outage(self) -> SharedOutage | None:
        """Return the outage that some process has declared."""

        def work(connection: sqlite3.Connection) -> SharedOutage | None:
            row = connection.execute(
                "select since, next_canary, canary_until from outage"
            ).fetchone()
            return None if row is None else SharedOutage(*map(_moment, row))

        return self._do(work, write=False)

    def declare_outage(self, *, now: datetime, next_canary_at: datetime) -> None:
        """Tell all processes that nobody answers, or when the next canary may go (steady time)."""
        values = (_ticks(now), _ticks(next_canary_at))
        self._do(
            lambda connection: connection.execute(
                """insert into outage values (1, ?, ?, 0) on conflict do update
                set next_canary = max(next_canary, excluded.next_canary), canary_until = 0""",
                values,
            )
        )

    def claim_canary(self, *, now: datetime, until: datetime) -> bool:
        """Claim the next canary for this process, for a while at most; tell whether it got it.

        Both times are steady times.
        """
        values = (_ticks(until), _ticks(now), _ticks(now))
        claimed = self._do(
            lambda connection: (
                connection.execute(
                    """update outage set canary_until = ?
                    where next_canary <= ? and canary_until <= ?""",
                    values,
                ).rowcount
            )
        )
        return claimed > 0

    def hurry_canary(self, now: datetime) -> None:
        """Let the next canary go at once, if none is out; now is a steady time."""
        values = (_ticks(now),)
        self._do(
            lambda connection: connection.execute(
                "update outage set next_canary = min(next_canary, ?)", values
            )
        )

    def release_canary(self) -> None:
        """Give back a canary that asked nobody."""
        self._do(lambda connection: connection.execute("update outage set canary_until = 0"))

    def end_outage(self) -> None:
        """Tell all processes that somebody answers again."""
        self._do(lambda connection: connection.execute("delete from outage"))

    def close(self) -> None:
        """Let go of the file."""
        with self._guard:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _do(self, work: Callable[[sqlite3.Connection], _T], *, write: bool = True) -> _T:
        """Do something in one transaction; a damaged file is thrown away and begun anew."""
        try:
            return self._once(work, write=write)
        except sqlite3.DatabaseError as error:
            number = getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE
            if number not in _DAMAGED and "no such" not in str(error):
                raise _unavailable() from error
        _LOG.warning("the line's state is damaged", extra={"action": "line_state_thrown_away"})
        self._throw_away()
        try:
            return self._once(work, write=write)
        except sqlite3.Error as error:
            raise _unavailable() from error

    def _once(self, work: Callable[[sqlite3.Connection], _T], *, write: bool) -> _T:
        if self._pid != os.getpid():
            # Another thread of the parent may have held the guard at the fork; closing the parent's
            # connection would drop the parent's locks on the file.
            _INHERITED.append(self._connection)
            self._guard, self._connection, self._pid = RLock(), None, os.getpid()
        with self._guard, self._transaction(write=write) as connection:
            return work(connection)

    @contextmanager
    def _transaction(self, *, write: bool) -> Iterator[sqlite3.Connection]:
        connection = self._open()
        connection.execute("begin immediate" if write else "begin")
        try:
            yield connection
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("rollback")
            raise
        connection.execute("commit")

    def _open(self) -> sqlite3.Connection:
        if self._connection is not None and self._is_ours():
            return self._connection
        self.close()
        for _ in range(FILES_TRIED):
            self._inode = inode_of(self._path)
            connection = self._connect()
            found = _version(connection)
            if found not in (None, (SCHEMA_VERSION, self._boot)):
                connection.close()
                self._unlink()
            elif self._is_ours():
                self._connection = connection
                _create(connection, self._boot)
                return connection
            else:  # another file may stand there than was opened
                connection.close()
        raise _unavailable()

    def _is_ours(self) -> bool:
        """Tell whether the connection is to the file that stands there now."""
        if self._path is None:
            return True
        return self._inode is not None and inode_of(self._path) == self._inode

    def _connect(self) -> sqlite3.Connection:
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(
            ":memory:" if self._path is None else self._path,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            for pragma in _PRAGMAS:
                connection.execute(pragma)
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _throw_away(self) -> None:
        self.close()
        self._unlink()

    def _unlink(self) -> None:
        if self._path is not None:
            for suffix in ("", "-journal"):
                with suppress(OSError):
                    self._path.with_name(self._path.name + suffix).unlink()


_INHERITED: Final[list[sqlite3.Connection | None]] = []
"""Connections of a parent process, kept alive so that nothing closes them here."""


def _version(connection: sqlite3.Connection) -> tuple[str, str] | None:
    try:
        rows = dict(connection.execute("select name, value from meta"))
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
        return None
    return str(rows.get("version")), str(rows.get("boot"))


def _create(connection: sqlite3.Connection, boot: str) -> None:
    connection.execute("begin immediate")
    if _version(connection) is None:  # else another process was faster
        for statement in _SCHEMA:
            connection.execute(statement)
        values = [("version", SCHEMA_VERSION), ("boot", boot), ("born", token_hex(8))]
        connection.executemany("insert into meta values (?, ?)", values)
    connection.execute("commit")


def _closed(
    connection: sqlite3.Connection,
    provider: str,
    limits: ProviderLimits,
    *,
    now: datetime,
    steady: datetime,
) -> Closed | None:
    rows = connection.execute(
        "select at from calls where provider = ? and at > ?", (provider, _ticks(steady - WINDOW))
    )
    recent = [_moment(at) for (at,) in rows]
    today = 0
    if limits.requests_per_day is not None:
        today = _calls_since(connection, provider, day_of(now, limits).begins_at)
    return closed_until(limits, now=now, recent=recent, today=today, steady=steady)


def _calls_since(connection: sqlite3.Connection, provider: str, begins_at: datetime) -> int:
    row = connection.execute(
        "select coalesce(sum(n), 0) from minutes where provider = ? and minute >= ?",
        (provider, _minute(begins_at)),
    ).fetchone()
    return int(row[0])


def _count(
    connection: sqlite3.Connection, provider: str, now: datetime, *, steady: datetime
) -> None:
    """Note a call; what is older than anything that still counts is dropped."""
    connection.execute(
        "delete from calls where provider = ? and at < ?", (provider, _ticks(steady - WINDOW))
    )
    connection.execute("insert into calls values (?, ?)", (provider, _ticks(steady)))
    connection.execute(
        "delete from minutes where provider = ? and minute < ?",
        (provider, _minute(now) - _MINUTES_KEPT),
    )
    connection.execute(
        "insert into minutes values (?, ?, 1) on conflict do update set n = n + 1",
        (provider, _minute(now)),
    )


def _ticks(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _moment(ticks: int) -> datetime:
    return _EPOCH + timedelta(microseconds=ticks)


def _minute(moment: datetime) -> int:
    return (moment - _EPOCH) // _MINUTE


def _unavailable() -> StorageError:
    return StorageError(
        "what the processes of the project share cannot be used",
        code="line_state_unavailable",
        where=FILE_NAME,
        remedy="it holds counts only: run again, or delete the file",
    )
