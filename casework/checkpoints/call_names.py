"""What tells the operations that clients' calls make from those of a pipeline.

They lie in the same packages, and no queue ever runs them: only the client who named one does, by
sending it again.
"""

from __future__ import annotations

from typing import Final

CALLS_PHASE: Final = "INTERACTIVE"
"""The phase of a case that a call began; pipelines do not run over it."""

CALL_PREFIX: Final = "call:"
"""How the id of an operation begins that a call made, and the id of a case of a single call."""


def call_id(client: str, name: str) -> str:
    """Return the id of a client's call; two clients never have the same."""
    return f"{CALL_PREFIX}{client}:{name}"


def is_call(operation_id: str) -> bool:
    """Tell whether an operation was made by a client's call."""
    return operation_id.startswith(CALL_PREFIX)
