"""What an error means that a server tells of in a body with HTTP 200, or inside a stream."""

from __future__ import annotations

from typing import Final

from casework.gateway.chat.json_members import (
    Members,
    Raw,
    integer_or_none,
    is_object,
    members_of,
    says_something,
    text_or_none,
)
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.http_replies import failure_of

_KINDS: Final = ("object", "type")
_BAD_REQUEST: Final = 400
_STATUS_MAX: Final = 599
_WORDS: Final = {
    "rate_limit_exceeded": FailureKind.HTTP_429,
    "rate_limit_error": FailureKind.HTTP_429,
    "rate_limit_reached": FailureKind.HTTP_429,
    "too_many_requests": FailureKind.HTTP_429,
    "insufficient_quota": FailureKind.HTTP_429,
    "quota_exceeded": FailureKind.HTTP_429,
    "resource_exhausted": FailureKind.HTTP_429,
    "invalid_api_key": FailureKind.AUTH_ERROR,
    "authentication_error": FailureKind.AUTH_ERROR,
    "permission_error": FailureKind.AUTH_ERROR,
    "server_error": FailureKind.HTTP_5XX,
    "internal_server_error": FailureKind.HTTP_5XX,
    "internal_error": FailureKind.HTTP_5XX,
    "api_error": FailureKind.HTTP_5XX,
    "overloaded_error": FailureKind.HTTP_5XX,
    "service_unavailable": FailureKind.HTTP_5XX,
    "timeout_error": FailureKind.TIMEOUT,
}


def error_in(top: Members, whole: bytes) -> ProviderFailure | None:
    """Take the error out of a body or chunk, if it tells of one, and return what it stands for.

    Args:
        top: Its members; loses ``error``, which some servers write though there is none.
        whole: The same, as it came; some servers write an error without a member around it.
    """
    error = top.pop("error", None)
    if error is not None and says_something(error):
        return failure_told(error)
    if "choices" not in top and "error" in {text_or_none(top.get(name)) for name in _KINDS}:
        return failure_told(Raw(whole))
    return None


def failure_told(error: Raw) -> ProviderFailure:
    """Return the failure that an error object stands for, by its codes; its prose is never read.

    An error without a code that is known here is a malformed response: the server spoke, and said
    nothing that can be acted on.
    """
    explained = failure_of(_BAD_REQUEST, explanation=bytes(error))
    assert explained is not None, "the status is no success"
    if explained.kind is not FailureKind.HTTP_ERROR:
        return ProviderFailure(explained.kind)
    members = members_of(error) if is_object(error) else {}
    for name in ("code", "status", "type"):
        kind = _kind_of(members.get(name))
        if kind is not None:
            return ProviderFailure(kind)
    return ProviderFailure(FailureKind.MALFORMED_RESPONSE)


def _kind_of(value: Raw | None) -> FailureKind | None:
    word = text_or_none(value)
    status = integer_or_none(value) if word is None else _number(word)
    if status is not None and _BAD_REQUEST <= status <= _STATUS_MAX:
        failure = failure_of(status)
        return failure.kind if failure else None
    return _WORDS.get(word.lower()) if word is not None else None


def _number(word: str) -> int | None:
    return int(word) if word.isascii() and word.isdigit() and len(word) <= len("599") else None
