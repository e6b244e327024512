"""What the parts of the index ask of its database, whose library has its one door elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from casework.checkpoints.index_rows import Cell


class Rows(Protocol):
    """The answer to a statement."""

    @property
    def rowcount(self) -> int:
        """Return how many rows were changed."""

    def __iter__(self) -> Iterator[tuple[Cell, ...]]:
        """Iterate over the rows."""

    def fetchone(self) -> tuple[Cell, ...] | None:
        """Return the next row."""

    def fetchall(self) -> list[tuple[Cell, ...]]:
        """Return all rows that are left."""


class Statements(Protocol):
    """An open transaction."""

    def execute(self, statement: str, values: dict[str, Cell] | Sequence[Cell] = ..., /) -> Rows:
        """Run one statement."""
