"""Why a client's request is refused, in a few kinds with stable codes; no value is repeated."""

from __future__ import annotations

from casework.errors import InvalidRequest


def missing(where: str) -> InvalidRequest:
    """Make the error for a member that must be there."""
    return InvalidRequest(
        "a member is missing", code="missing_required_parameter", where=where, remedy="add it"
    )


def wrong_type(where: str | None, wanted: str) -> InvalidRequest:
    """Make the error for a value of another type than may stand there."""
    return InvalidRequest(
        "the value is of the wrong type", code="invalid_type", where=where, remedy=f"send {wanted}"
    )


def out_of_range(where: str, remedy: str) -> InvalidRequest:
    """Make the error for a value that is none of those that may stand there."""
    return InvalidRequest(
        "the value is none that may stand here", code="invalid_value", where=where, remedy=remedy
    )
