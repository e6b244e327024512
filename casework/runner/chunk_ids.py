"""Ids of the parts into which an operation is split for a long document: ``extract#1of3``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_PART: Final = re.compile(
    r"(?P<base>.+)#(?P<number>[1-9][0-9]{0,5})of(?P<total>[1-9][0-9]{0,5})", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class ChunkId:
    """One part of an operation of one case."""

    base: str
    """The operation's id in the pipeline."""
    number: int
    """Counts from 1."""
    total: int

    def __str__(self) -> str:
        """Return the part's own operation id."""
        return f"{self.base}#{self.number}of{self.total}"


def chunk_id(operation_id: str) -> ChunkId | None:
    """Return what part an id names, None if it names none."""
    match = _PART.fullmatch(operation_id)
    return ChunkId(match["base"], int(match["number"]), int(match["total"])) if match else None
