"""Taking the head of a package over into the index, inside one transaction."""

from __future__ import annotations

from collections.abc import Iterable

from casework.checkpoints import index_schema as sql
from casework.checkpoints.fold import PackageHead
from casework.checkpoints.index_rows import operation_cells, package_cells
from casework.checkpoints.index_statements import Statements
from casework.checkpoints.records import OperationStatus, PackageStatus


def put_head(connection: Statements, head: PackageHead) -> None:
    """Take over a package's head; the same or an older one changes nothing."""
    if head.status is not PackageStatus.FORGOTTEN:  # whose removal may not be finished
        connection.execute("delete from unsure where case_id = ?", (head.case_id,))
    known = connection.execute(sql.KNOWN, (head.case_id,)).fetchall()
    row = known[0] if known else None
    if row and int(row[0] or 0) >= head.generation and row[1] == head.package_id and row[2]:
        return
    connection.execute(sql.PUT_PACKAGE, package_cells(head))
    if head.status is PackageStatus.FORGOTTEN:
        connection.execute("delete from operations where case_id = ?", (head.case_id,))
        return
    names: Iterable[str] = head.operations
    follows = row == (head.generation - 1, head.package_id, 1, head.analysis_revision)
    if follows and head.changed is not None:
        names = head.changed
    elif row:
        connection.execute(sql.DROP_OLD_STATES, (head.case_id, head.analysis_revision))
    states = {name: head.operations[name] for name in names}
    for name, state in states.items():
        connection.execute(sql.PUT_OPERATION, operation_cells(head, name, state))
    if any(s.review or s.status is OperationStatus.SUCCESS for s in states.values()):
        # An answer is there, or another one, that conditions may judge otherwise.
        connection.execute(sql.HOLD_SKIPPED_OF_CASE, (head.case_id,))


def delete_case(connection: Statements, case_id: str) -> None:
    """Drop a case."""
    for table in ("operations", "packages", "unsure"):
        connection.execute(f"delete from {table} where case_id = ?", (case_id,))  # noqa: S608 - ours
