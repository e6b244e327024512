"""Planned work in the index: what is to be done that no package has a state of yet."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from casework.checkpoints import index_schema as sql
from casework.checkpoints.index_rows import Cell, Planned
from casework.checkpoints.index_statements import Statements
from casework.checkpoints.records import operation_hash


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRule:
    """What an operation waits for, as far as the index can tell."""

    operation_id: str
    needs: tuple[str, ...]
    """Operations that must have succeeded, in whichever campaign."""
    has_parts: bool
    """Whether it also waits for parts of itself, ``ID#1of3`` and the like, where there are any."""
    digest: str
    """Names all that decides whether it is skipped; what was skipped under another one is held."""


def plan_work(
    connection: Statements,
    operation_ids: Sequence[str],
    *,
    held: Collection[str],
    keep: Callable[[str], bool],
    case_id: str | None,
) -> None:
    """Plan operations; see ``PackageIndex.plan``."""
    revisions = connection.execute("select distinct analysis_revision from packages")
    for revision in [int(row[0] or 0) for row in revisions]:
        for position, operation_id in enumerate(operation_ids):
            waits = operation_id in held
            work: dict[str, Cell] = {
                "ophash": operation_hash(revision, operation_id),
                "operation_id": operation_id,
                "revision": revision,
                "status": (Planned.HELD if waits else Planned.READY).value,
                "due_at": None if waits else 0,
                "position": position,
                "case_id": case_id,
            }
            connection.execute(sql.PLAN, work)
    if case_id is None:
        wanted = frozenset(operation_ids)
        for planned in [str(row[0]) for row in connection.execute(sql.PLANNED_IDS)]:
            if planned not in wanted and not keep(planned):
                connection.execute(sql.TAKE_BACK, (planned,))


def let_go(connection: Statements, rules: Iterable[HeldRule]) -> None:
    """Let held work go whose needs are met, and skip what needs something skipped.

    Conditions on answers are not looked at: whoever runs the work judges it anew from its package.
    Opens no package, and costs a few look-ups for each held row.
    """
    for rule in rules:
        name = f"rule {rule.operation_id}"
        known = connection.execute("select value from meta where name = ?", (name,)).fetchone()
        if known is None or known[0] != rule.digest:
            connection.execute(sql.HOLD_SKIPPED, (rule.operation_id,))
            connection.execute("insert or replace into meta values (?, ?)", (name, rule.digest))
        values: dict[str, Cell] = {
            "operation_id": rule.operation_id,
            "needs": json.dumps(rule.needs),
            "parts": f"{rule.operation_id}#" if rule.has_parts else None,
        }
        connection.execute(sql.SKIP_BEHIND, values)
        connection.execute(sql.RELEASE, values)
