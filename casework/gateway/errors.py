"""Every way a call can fail, and the one table that says what each means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from casework.errors import ProviderError


class FailureKind(StrEnum):
    """Why one call to one target brought no usable answer. The value is the stored code."""

    CONNECT_ERROR = "connect_error"
    """No connection, or it broke; includes a TLS handshake that was reset."""
    DNS_ERROR = "dns_error"
    """The host's name did not resolve."""
    TIMEOUT = "timeout"
    """The deadline passed somewhere between name look-up and last byte."""
    HTTP_408 = "http_408"
    HTTP_429 = "http_429"
    HTTP_5XX = "http_5xx"
    AUTH_ERROR = "auth_error"
    """HTTP 401 or 403."""
    HTTP_ERROR = "http_error"
    """Any other HTTP status outside 200 and 201."""
    REDIRECT_REJECTED = "redirect_rejected"
    """HTTP 3xx; redirects are never followed."""
    TLS_ERROR = "tls_error"
    """The certificate could not be verified; trying again cannot help."""
    REQUEST_TOO_LARGE = "request_too_large"
    RESPONSE_TOO_LARGE = "response_too_large"
    CONTEXT_TOO_LONG = "context_too_long"
    """The server says that the request does not fit the model's context."""
    REFUSAL = "refusal"
    TRUNCATED = "truncated"
    INVALID_JSON = "invalid_json"
    SCHEMA_VIOLATION = "schema_violation"
    EMPTY_RESPONSE = "empty_response"
    MALFORMED_RESPONSE = "malformed_response"
    """The body is not the envelope that the protocol promises."""
    NO_EVIDENCE = "no_evidence"
    """The rules found no passage in the text that grounds an answer."""
    REPLAY_MISS = "replay_miss"
    """No recorded outcome answers this request."""
    EMPTY_INPUT = "empty_input"
    """The document holds no text; nobody was asked."""
    DATA_MISSING = "data_missing"
    """An earlier answer has nothing where the pipeline reads it; nobody was asked."""
    LIMIT_REACHED = "limit_reached"
    """A configured limit of calls, or this machine's limit of open files, is reached; the provider
    was not asked."""
    UNKNOWN = "unknown"
    """An adapter raised something that it should not; a defect to report."""


class CooldownScope(StrEnum):
    """What rests after a failure."""

    KEY_AND_MODEL = "key_and_model"
    KEY = "key"


@dataclass(frozen=True, slots=True)
class Cooldown:
    """How long what rests, unless the server named a longer time."""

    scope: CooldownScope
    seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FailurePolicy:
    """The whole meaning of one kind of failure."""

    temporary: bool
    """In a durable round: go on to the next target, and keep the operation pending."""
    next_target_interactive: bool
    """In an interactive round: try another key or target."""
    cooldown: Cooldown | None
    counts_for_breaker: bool
    """The server is at fault, not the key and not the request."""
    client_status: int
    """HTTP status that an interactive client sees when the round ends with this failure."""
    same_key_again: bool = False
    """In an interactive round: the same target may answer in a moment."""
    reask: bool = False
    """The answer broke a rule that the model can be told; see ``OnInvalidOutput.REASK``."""
    another_may_answer: bool = False
    """Another target may give an answer that can be used; see ``OnInvalidOutput.NEXT_PROVIDER``."""


def _temporary(
    client_status: int, cooldown: Cooldown, *, breaker: bool, again: bool = False
) -> FailurePolicy:
    return FailurePolicy(
        temporary=True,
        same_key_again=again,
        next_target_interactive=True,
        cooldown=cooldown,
        counts_for_breaker=breaker,
        client_status=client_status,
    )


def _unusable(client_status: int, *, reask: bool, next_target: bool = False) -> FailurePolicy:
    """Return the policy for a target that answered, with nothing that can be used."""
    final = _final(client_status, next_target=next_target)
    return replace(final, reask=reask, another_may_answer=True)


def _final(
    client_status: int, *, next_target: bool = False, cooldown: Cooldown | None = None
) -> FailurePolicy:
    return FailurePolicy(
        temporary=False,
        next_target_interactive=next_target,
        cooldown=cooldown,
        counts_for_breaker=False,
        client_status=client_status,
    )


_PAUSE: Final = Cooldown(CooldownScope.KEY_AND_MODEL, 30)
_RATE: Final = Cooldown(CooldownScope.KEY_AND_MODEL, 60)
_AUTH: Final = Cooldown(CooldownScope.KEY, 300)

POLICY: Final[Mapping[FailureKind, FailurePolicy]] = MappingProxyType(
    {
        FailureKind.CONNECT_ERROR: _temporary(502, _PAUSE, breaker=True, again=True),
        FailureKind.DNS_ERROR: _temporary(502, _PAUSE, breaker=True),
        FailureKind.TIMEOUT: _temporary(504, _PAUSE, breaker=True),
        FailureKind.HTTP_408: _temporary(504, _PAUSE, breaker=True, again=True),
        FailureKind.HTTP_429: _temporary(429, _RATE, breaker=False),
        FailureKind.HTTP_5XX: _temporary(502, _PAUSE, breaker=True, again=True),
        FailureKind.AUTH_ERROR: _final(502, next_target=True, cooldown=_AUTH),
        FailureKind.HTTP_ERROR: _final(400),
        FailureKind.REDIRECT_REJECTED: _final(502),
        FailureKind.TLS_ERROR: _final(502, next_target=True),
        FailureKind.REQUEST_TOO_LARGE: _final(413),
        FailureKind.RESPONSE_TOO_LARGE: _final(502),
        FailureKind.CONTEXT_TOO_LONG: _final(400),
        FailureKind.REFUSAL: _final(400),
        FailureKind.TRUNCATED: _unusable(502, reask=True),
        FailureKind.INVALID_JSON: _unusable(502, reask=True),
        FailureKind.SCHEMA_VIOLATION: _unusable(502, reask=True),
        FailureKind.EMPTY_RESPONSE: _unusable(502, reask=True, next_target=True),
        FailureKind.MALFORMED_RESPONSE: _unusable(502, reask=False, next_target=True),
        FailureKind.NO_EVIDENCE: _unusable(502, reask=False, next_target=True),
        FailureKind.REPLAY_MISS: _final(502),
        FailureKind.EMPTY_INPUT: _final(400),
        FailureKind.DATA_MISSING: _final(400),
        FailureKind.LIMIT_REACHED: replace(_temporary(429, _RATE, breaker=False), cooldown=None),
        FailureKind.UNKNOWN: _final(500, next_target=True),
    }
)


_REQUEST_AT_FAULT: Final = frozenset({400, 413, 415, 422})
"""Statuses by which a server refuses what it was sent, as every other one would."""
_TOLD_AS_IS: Final = frozenset({400, 404, 409, 413, 415, 422})
"""Statuses of a server that mean the same to an interactive client."""


def another_target_may_answer(kind: FailureKind, http_status: int | None) -> bool:
    """Tell whether an interactive round asks another key or target after this failure."""
    if kind is FailureKind.HTTP_ERROR:
        return http_status not in _REQUEST_AT_FAULT
    return POLICY[kind].next_target_interactive


def client_status(kind: FailureKind, http_status: int | None) -> int:
    """Return the HTTP status that an interactive client sees for a failure."""
    if kind is FailureKind.HTTP_ERROR:
        return http_status if http_status in _TOLD_AS_IS else 502
    return POLICY[kind].client_status


class ProviderFailure(ProviderError):
    """One call to one target failed, classified by the adapter that made it.

    Args:
        kind: What went wrong.
        http_status: The exact status, 100 to 599, where there was one.
        retry_after_seconds: What the server asked for, not yet clamped.
        sent: Whether any byte of the request may have reached the server. True when in doubt.
    """

    def __init__(
        self,
        kind: FailureKind,
        *,
        http_status: int | None = None,
        retry_after_seconds: float | None = None,
        sent: bool = True,
    ) -> None:
        super().__init__(f"the call failed: {kind.value}", code=kind.value)
        self.kind = kind
        self.http_status = http_status
        self.retry_after_seconds = retry_after_seconds
        self.sent = sent
