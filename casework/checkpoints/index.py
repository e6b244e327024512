"""The package index: what is due, and how many are in which state, without opening packages.

It is a cache in one SQLite file. Whatever happens to the file, rescanning the packages gives the
same answers, and that is what happens after a reboot, after damage and after a change of version.
"""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from itertools import islice
from pathlib import Path
from threading import RLock
from typing import Final, TypeVar, assert_never

from casework.checkpoints import index_schema as sql
from casework.checkpoints.claims import EVERYBODY, Claims, Viewer
from casework.checkpoints.disk import inode_of
from casework.checkpoints.fold import PackageHead
from casework.checkpoints.index_plans import HeldRule, let_go, plan_work
from casework.checkpoints.index_puts import delete_case, put_head
from casework.checkpoints.index_rows import (
    Cell,
    IndexCounts,
    IndexedOperation,
    IndexedPackage,
    Planned,
    boot_identity,
    to_moment,
    to_operation,
    to_package,
    to_tally,
    to_ticks,
)
from casework.checkpoints.records import OperationStatus, PackageStatus
from casework.errors import StorageError

_LOG = logging.getLogger(__name__)

RESCAN_BATCH: Final = 200

_Row = TypeVar("_Row")

FILES_TRIED: Final = 5
"""How often a question begins anew because the file was thrown away while it was answered."""

_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_UNWRITABLE: Final = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY})
_PRIMARY_CODE: Final = 0xFF


class PackageIndex:
    """The index of one root, usable from threads and processes.

    Every method is one short statement or transaction under one connection. A question asked of an
    index that may be wrong is answered after a rescan.

    Args:
        path: The file; None keeps the index in memory.
        heads: Yields the head of every package, for rescans.
        boot: What identifies the running system; None asks it.
    """

    def __init__(
        self,
        path: Path | None,
        heads: Callable[[], Iterable[PackageHead]],
        *,
        boot: str | None = None,
    ) -> None:
        self._path = path
        self._heads = heads
        self._boot = boot_identity() if boot is None else boot
        self._guard = RLock()
        self._pid = os.getpid()
        self._connection: sqlite3.Connection | None = None
        self._inode: int | None = None
        self._complete = False
        self.claims = Claims(self._transaction)

    def put(self, head: PackageHead) -> None:
        """Take over a package's head; the same or an older one changes nothing. Never rescans.

        Raises:
            StorageError: The index cannot be written; it was thrown away and will be rebuilt.
        """
        try:
            with self._transaction() as connection:
                put_head(connection, head)
        except StorageError:
            self.discard()
            raise

    def mark_unsure(self, case_id: str) -> None:
        """Note that a package is about to change, so that a crash before ``put`` is noticed."""
        self._ensure()
        with self._transaction() as connection:
            connection.execute("insert or ignore into unsure values (?)", (case_id,))

    def bury(self, head: PackageHead) -> None:
        """Take over the head of a forgotten case for which nothing is left to be done."""
        self.put(head)
        with self._transaction() as connection:
            connection.execute("delete from unsure where case_id = ?", (head.case_id,))

    def unsure(self) -> tuple[str, ...]:
        """Return the cases whose package may be newer than the index knows."""
        return tuple(str(row[0]) for row in self._ask("select case_id from unsure", ()))

    def forget(self, case_id: str) -> None:
        """Drop a case that has no package."""
        with self._transaction() as connection:
            delete_case(connection, case_id)

    def plan(
        self,
        operation_ids: Sequence[str],
        *,
        held: Collection[str] = (),
        keep: Callable[[str], bool] = lambda _: False,
        case_id: str | None = None,
    ) -> None:
        """Plan these operations for every case in which they have no state yet.

        They are due at once, but for those that are to be held; what was held or skipped and is
        not to be held any more is due too. What was planned before and is not named now is taken
        back. Planned work is in no package, so it has to be planned again after an index was lost.

        Args:
            operation_ids: The operations in the order in which they should be begun.
            held: Those of them that wait until :meth:`set_planned` lets them go.
            keep: Tells of other planned operations which of them are not taken back.
            case_id: Plan for this case only, and take nothing back.
        """
        self._ensure()
        with self._transaction() as connection:
            plan_work(connection, operation_ids, held=held, keep=keep, case_id=case_id)

    def let_go(self, rules: Iterable[HeldRule]) -> None:
        """Let held work go whose needs are met, in the order of the rules; opens no package."""
        with self._transaction() as connection:
            let_go(connection, rules)

    def drop_planned(self, case_id: str, ophash: str) -> None:
        """Take planned work of one case back; an operation that has a state is left alone."""
        with self._transaction() as connection:
            connection.execute(sql.DROP_PLANNED, (case_id, ophash))

    def set_planned(self, case_id: str, ophash: str, planned: Planned) -> None:
        """Say what planned work waits for; an operation that has a state is left alone."""
        change = {"case_id": case_id, "ophash": ophash, "status": planned.value}
        with self._transaction() as connection:
            connection.execute(sql.SET_PLANNED, change)

    def get(self, case_id: str) -> IndexedPackage | None:
        """Return what is known of a package."""
        rows = self._decoded(to_package, f"{sql.PACKAGES} where case_id = ?", (case_id,))
        return rows[0] if rows else None

    def generation(self, case_id: str) -> int:
        """Return the newest generation known of a package, 0 if none is; never rescans."""
        rows = self._rows("select generation from packages where case_id = ?", (case_id,))
        return int(rows[0][0] or 0) if rows else 0

    def due(self, now: datetime, limit: int = 1) -> list[IndexedOperation]:
        """Return what may run now, longest due first: retries, resumptions and planned work."""
        return self.due_for(EVERYBODY, now, limit=limit)

    def due_for(self, viewer: Viewer, now: datetime, *, limit: int) -> list[IndexedOperation]:
        """Return what a worker may run now: due as :meth:`due` says, and in nobody else's hands."""
        values = (to_ticks(now), viewer.worker, viewer.ticks, limit)
        return self._decoded(to_operation, sql.DUE, values)

    def ahead_for(self, viewer: Viewer, now: datetime, *, limit: int) -> list[IndexedOperation]:
        """Return what waits for a round although, by this clock, its last one has not been yet.

        Somebody has set the clock back, and the due times stored before mean nothing on it.
        """
        values = (to_ticks(now), viewer.worker, viewer.ticks, limit)
        return self._decoded(to_operation, sql.AHEAD, values)

    def due_between(self, first: datetime, last: datetime) -> int:
        """Return how many operations become due from one moment until before another."""
        return int(self._ask(sql.DUE_BETWEEN, (to_ticks(first), to_ticks(last)))[0][0] or 0)

    def next_due_at(self) -> datetime | None:
        """Return when the next operation may be asked again, None if none waits for that.

        Work that was planned and never begun is due at any time, and has none of its own.
        """
        rows = self._ask("select min(due_at) from operations where due_at > 0", ())
        return to_moment(rows[0][0])

    def counts(self) -> IndexCounts:
        """Return how many packages and current operations are in which state."""
        packages: dict[PackageStatus, int] = {}
        operations: dict[OperationStatus, int] = {}
        planned: dict[Planned, int] = {}
        tally = "select kind, status, n from tally where n > 0"
        for status, n in self._decoded(to_tally, tally, ()):
            match status:
                case PackageStatus():
                    packages[status] = n
                case OperationStatus():
                    operations[status] = n
                case Planned():
                    planned[status] = n
                case _:
                    assert_never(status)
        forgotten = packages.pop(PackageStatus.FORGOTTEN, 0)
        return IndexCounts(sum(packages.values()), packages, operations, planned, forgotten)

    def packages(
        self, *, prefix: str = "", after: str = "", limit: int = 1000
    ) -> list[IndexedPackage]:
        """Return packages in the order of their ids, from after a given one; none forgotten."""
        values = (after, prefix, len(prefix), prefix, limit)
        return self._decoded(to_package, sql.PACKAGES_AFTER, values)

    def operations(self, case_id: str) -> list[IndexedOperation]:
        """Return the current operations of a case, planned ones too."""
        return self._decoded(to_operation, sql.OF_CASE, (case_id,))

    def operation_ids(self) -> frozenset[str]:
        """Return the ids that current operations have; reads every row of them once."""
        return frozenset(str(row[0]) for row in self._ask(sql.CURRENT_IDS, ()))

    def in_status(
        self,
        status: OperationStatus | Planned,
        *,
        after: tuple[str, str] = ("", ""),
        limit: int = 1000,
    ) -> list[IndexedOperation]:
        """Return current operations in one state, in the order of case and ophash.

        Args:
            status: The state, or what planned work waits for. BLOCKED is the inbox.
            after: Case and ophash of the last one seen.
            limit: The most to return.
        """
        values = (status.value, *after, limit)
        return self._decoded(to_operation, sql.IN_STATUS, values)

    def decided(
        self, *, after: tuple[str, str] = ("", ""), limit: int = 1000
    ) -> list[IndexedOperation]:
        """Return current operations that a person decided about, by case and ophash."""
        return self._decoded(to_operation, sql.DECIDED, (*after, limit))

    def resumable(self, now: datetime, limit: int) -> list[IndexedOperation]:
        """Return blocked operations that may go on by themselves now, longest due first."""
        return self._decoded(to_operation, sql.RESUMABLE, (to_ticks(now), limit))

    @property
    def is_complete(self) -> bool:
        """Tell whether the index knows every package; questions make it so."""
        return bool(self._rows("select 1 from meta where name = 'complete'", ()))

    def rescan(self) -> int:
        """Read every package anew and return how many there are."""
        for _ in range(FILES_TRIED):
            total = self._scan()
            if total is not None:
                return total
        raise _unavailable()

    def _scan(self) -> int | None:
        """Read every package anew; None if the file was thrown away meanwhile."""
        with self._transaction() as begun:
            begun.execute("delete from meta where name = 'complete'")
            begun.execute("update meta set value = value + 1 where name = 'scan'")
            number = begun.execute(sql.SCAN).fetchone()  # another process may scan beside this one
        total = 0
        heads = iter(self._heads())
        while batch := list(islice(heads, RESCAN_BATCH)):
            with self._transaction() as connection:
                if connection is not begun:
                    return None
                for head in batch:
                    put_head(connection, head)
            total += len(batch)
        with self._transaction() as connection:
            if connection is not begun:
                return None
            for (case_id,) in connection.execute(sql.GONE, number).fetchall():
                delete_case(connection, str(case_id))
            connection.execute("insert or replace into meta values ('complete', 'yes')")
        _LOG.info("packages rescanned", extra={"action": "index_rescanned", "packages": total})
        return total

    def discard(self) -> None:
        """Throw the index away; the next question rebuilds it."""
        with self._guarded():
            self.close()
            self._unlink()

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        with self._guarded():
            if self._connection is not None:
                with suppress(sqlite3.Error):
                    self._connection.close()
            self._connection, self._complete = None, False

    def _ensure(self) -> None:
        if self._complete and self._is_ours() and self._pid == os.getpid():
            return
        with self._guarded():
            if not self.is_complete:
                self.rescan()
            self._complete = True

    def _ask(self, query: str, values: Sequence[Cell]) -> list[tuple[Cell, ...]]:
        """Answer from one file that is complete, whoever throws files away meanwhile.

        An index that turns out to be damaged is rebuilt first.
        """
        with self._guarded():
            for _ in range(FILES_TRIED):
                try:
                    self._ensure()
                    rows = self._rows(query, values)
                except StorageError as error:
                    if error.code != "index_damaged":
                        raise
                    continue
                if self._complete:  # else the answer came from another file than was ensured
                    return rows
        raise _unavailable()

    def _decoded(
        self, decode: Callable[[tuple[Cell, ...]], _Row], query: str, values: Sequence[Cell]
    ) -> list[_Row]:
        """Answer with rows decoded; an index that holds what nobody wrote is built anew first."""
        rows = self._ask(query, values)
        try:
            return [decode(row) for row in rows]
        except ValueError:
            self.discard()
        return [decode(row) for row in self._ask(query, values)]

    def _rows(self, query: str, values: Sequence[Cell]) -> list[tuple[Cell, ...]]:
        with self._guarded():
            try:
                return self._open().execute(query, values).fetchall()
            except sqlite3.Error as error:
                raise self._explained(error) from error

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._guarded():
            try:
                connection = self._open()
                connection.execute("begin immediate")
                try:
                    yield connection
                except BaseException:
                    with suppress(sqlite3.Error):
                        connection.execute("rollback")
                    raise
                connection.execute("commit")
            except sqlite3.Error as error:
                raise self._explained(error) from error

    def _guarded(self) -> AbstractContextManager[object]:
        if self._pid != os.getpid():
            # Another thread of the parent may have held the guard at the fork. The connection is
            # kept and never used or closed: closing it would drop the parent's locks on the file.
            _INHERITED.append(self._connection)
            self._guard, self._connection, self._pid = RLock(), None, os.getpid()
        return self._guard

    def _explained(self, error: sqlite3.Error) -> StorageError:
        """Turn SQLite's error into ours; a damaged index is thrown away at once."""
        number = getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE
        damaged = number in _DAMAGED or "no such" in str(error)
        _LOG.warning("the index failed", extra={"action": "index_failed", "sqlite_code": number})
        if damaged:
            self.discard()
        return _unavailable("index_damaged" if damaged else "index_unavailable")

    def _open(self) -> sqlite3.Connection:
        if self._connection is not None and self._is_ours():
            return self._connection
        self.close()
        for _ in range(FILES_TRIED):
            before = inode_of(self._path)
            connection = self._connect_somewhere()
            self._connection, self._inode = connection, before
            if self._is_ours():  # else another file may stand there than was opened
                return connection
            self._connection = None
            connection.close()
        raise _unavailable()

    def _connect_somewhere(self) -> sqlite3.Connection:
        try:
            return self._connect()
        except sqlite3.OperationalError as error:
            if getattr(error, "sqlite_errorcode", 0) & _PRIMARY_CODE not in _UNWRITABLE:
                raise
        # Reading verbs work on a read-only folder too; what they learn is not kept.
        self._path = None
        return self._connect()

    def _is_ours(self) -> bool:
        """Tell whether the connection is to the file that stands there now."""
        if self._path is None:
            return True
        return self._inode is not None and inode_of(self._path) == self._inode

    def _connect(self) -> sqlite3.Connection:
        connection = self._connect_once()
        found = _meta(connection, "version"), _meta(connection, "boot")
        if found == (sql.SCHEMA_VERSION, self._boot):
            return connection
        if found != (None, None):
            connection.close()
            self._unlink()
            connection = self._connect_once()
        _create(connection, self._boot)
        return connection

    def _connect_once(self) -> sqlite3.Connection:
        if self._path is not None:
            with suppress(OSError):
                self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(
            ":memory:" if self._path is None else self._path,
            isolation_level=None,
            check_same_thread=False,
        )
        try:
            for pragma in sql.PRAGMAS:
                connection.execute(pragma)
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _unlink(self) -> None:
        if self._path is not None:
            for suffix in ("", "-journal"):
                with suppress(OSError):
                    self._path.with_name(self._path.name + suffix).unlink()


def sqlite_version() -> str:
    """Return the version of the SQLite library that keeps the index, like ``3.45.1``."""
    return sqlite3.sqlite_version


_INHERITED: Final[list[sqlite3.Connection | None]] = []
"""Connections of a parent process, kept alive so that nothing closes them here."""


def _create(connection: sqlite3.Connection, boot: str) -> None:
    connection.execute("begin immediate")
    if _meta(connection, "version") is None:  # else another process was faster
        for statement in _statements(sql.SCHEMA):
            connection.execute(statement)
        connection.execute("insert into meta values ('version', ?)", (sql.SCHEMA_VERSION,))
        connection.execute("insert into meta values ('boot', ?)", (boot,))
    connection.execute("commit")


def _unavailable(code: str = "index_unavailable") -> StorageError:
    return StorageError(
        "the index cannot be used",
        code=code,
        where="index.sqlite3",
        remedy="it is a cache: run again, or delete the file",
    )


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines():
        statement += f"{line}\n"
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def _meta(connection: sqlite3.Connection, name: str) -> str | None:
    try:
        row = connection.execute("select value from meta where name = ?", (name,)).fetchone()
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):
            raise
        return None
    return None if row is None else str(row[0])
