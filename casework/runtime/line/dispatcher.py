"""The port behind which work is begun: what an engine promises, whichever keeps its queue.

Everything that passes is ids and times. What an operation is lies in its case's package; an engine
may lose all it knows and finds it again there.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Work:
    """One operation of one case, to be run when it is due."""

    case_id: str
    package_id: str
    operation_id: str

    @property
    def key(self) -> tuple[str, str]:
        """Return what tells it from all other work."""
        return self.case_id, self.operation_id
