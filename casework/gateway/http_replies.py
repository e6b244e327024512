"""Tell from an HTTP reply what kind of failure it is; pure, without any socket."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

from casework.gateway.errors import FailureKind, ProviderFailure

ACCEPTED: Final = frozenset({200, 201})
EXPLAINED: Final = frozenset({400, 413})
"""Statuses whose body may say more than the status does."""
EXPLANATION_BYTES_MAX: Final = 64 * 1024

_CONTEXT_CODES: Final = frozenset({"context_length_exceeded", "exceed_context_size_error"})
_POLICY_CODES: Final = frozenset(
    {"content_filter", "content_policy_violation", "ResponsibleAIPolicyViolation"}
)
_STATUS_MIN, _STATUS_MAX = 100, 599


def failure_of(
    status: int, *, explanation: bytes = b"", retry_after_seconds: float | None = None
) -> ProviderFailure | None:
    """Return the failure that a status stands for; None for an accepted one.

    Args:
        status: As received.
        explanation: The body, where the status is one of ``EXPLAINED``.
        retry_after_seconds: What the server asked for.
    """
    if status in ACCEPTED:
        return None
    if not _STATUS_MIN <= status <= _STATUS_MAX:
        return ProviderFailure(FailureKind.MALFORMED_RESPONSE)
    kind = _KINDS.get(status)
    if kind is None:
        kind = _HUNDREDS.get(status // 100, FailureKind.HTTP_ERROR)
    if status in EXPLAINED:
        kind = _explained(explanation) or kind
    return ProviderFailure(kind, http_status=status, retry_after_seconds=retry_after_seconds)


_KINDS: Final = {
    401: FailureKind.AUTH_ERROR,
    403: FailureKind.AUTH_ERROR,
    408: FailureKind.HTTP_408,
    429: FailureKind.HTTP_429,
}
_HUNDREDS: Final = {3: FailureKind.REDIRECT_REJECTED, 5: FailureKind.HTTP_5XX}


def retry_after_seconds(header: str | None, now: datetime) -> float | None:
    """Read a Retry-After header, in seconds or as an HTTP date, as seconds from now.

    Never negative; a time that has passed is 0. None where the header is absent or means nothing.
    A date without a zone is taken as UTC.
    """
    if header is None:
        return None
    text = header.strip()
    try:
        seconds = float(text)
    except ValueError:
        seconds = _seconds_until(text, now)
    if not math.isfinite(seconds):
        return None
    return max(seconds, 0.0)


def _seconds_until(text: str, now: datetime) -> float:
    try:
        at = parsedate_to_datetime(text)
    except (ValueError, OverflowError, IndexError):
        return math.nan
    if at.tzinfo is None:
        at = at.replace(tzinfo=UTC)
    return (at - now).total_seconds()


def _explained(body: bytes) -> FailureKind | None:
    """Return what the structured codes of an error body say; its prose is never read."""
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    error = value.get("error", value) if isinstance(value, dict) else None
    if not isinstance(error, dict):
        return None
    inner = error.get("innererror")
    codes = [error.get("code"), error.get("type")]
    codes.append(inner.get("code") if isinstance(inner, dict) else None)
    words = {code for code in codes if isinstance(code, str)}
    if words & _CONTEXT_CODES:
        return FailureKind.CONTEXT_TOO_LONG
    return FailureKind.REFUSAL if words & _POLICY_CODES else None
