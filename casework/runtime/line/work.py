"""The unit of the line: one operation of one case, as ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

WorkKey: TypeAlias = tuple[str, str]
"""Case id and operation id."""


@dataclass(frozen=True, slots=True)
class Work:
    """One operation of one case, to be run when it is due."""

    case_id: str
    package_id: str
    operation_id: str

    @property
    def key(self) -> WorkKey:
        """Return what tells it from all other work."""
        return self.case_id, self.operation_id
