"""From a failure to an HTTP status and an error body in OpenAI's shape: the one table."""

from __future__ import annotations

import json
import math
from dataclasses import KW_ONLY, dataclass
from typing import Final

from casework.errors import (
    CaseworkError,
    ConfigurationError,
    DeadlineExceeded,
    InvalidRequest,
    LimitReached,
    PrivacyViolation,
    StreamInterrupted,
)
from casework.gateway.errors import FailureKind, client_status
from casework.gateway.outcomes import RoundErred, RoundUnavailable

_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "invalid_request_error",
    405: "invalid_request_error",
    409: "conflict_error",
    413: "invalid_request_error",
    415: "invalid_request_error",
    422: "invalid_request_error",
    429: "rate_limit_error",
    431: "invalid_request_error",
    504: "timeout_error",
}
"""OpenAI's ``type`` by status; every other one is a ``server_error``."""

_STATUSES: Final = {"model_not_found": 404, "model_not_allowed": 403}
"""Invalid requests that are not plain 400."""

_SENTENCES: Final = {
    FailureKind.CONTEXT_TOO_LONG: "the request does not fit the model's context",
    FailureKind.REFUSAL: "the content filter of the model declined the request",
    FailureKind.REQUEST_TOO_LARGE: "the request is larger than this provider is sent",
    FailureKind.RESPONSE_TOO_LARGE: "the answer is larger than is read",
    FailureKind.TIMEOUT: "no answer came in time",
    FailureKind.HTTP_ERROR: "the provider rejected the request; its words are withheld",
    FailureKind.HTTP_429: "the provider allows no more calls for now",
    FailureKind.LIMIT_REACHED: "a configured limit of calls is reached",
    FailureKind.AUTH_ERROR: "the provider refused the key that is configured here",
    FailureKind.EMPTY_RESPONSE: "the provider's answer was empty",
    FailureKind.INVALID_JSON: "the answer is not the JSON that was asked for",
    FailureKind.SCHEMA_VIOLATION: "the answer does not satisfy the schema that was asked for",
}
_CODES: Final = {
    FailureKind.CONTEXT_TOO_LONG: "context_length_exceeded",
    FailureKind.REFUSAL: "content_filter",
    FailureKind.HTTP_429: "rate_limit_exceeded",
    FailureKind.LIMIT_REACHED: "rate_limit_exceeded",
}
"""OpenAI's own codes, where it has one; else the kind is the code."""

_NOBODY: Final = "no provider could answer"
_AT_REST: Final = "every provider of this model is left alone for a while after repeated failures"
_SERVER_AT_FAULT: Final = 500

CLIENT_WAITS_SECONDS: Final = 60.0
"""Longest Retry-After that the clients of OpenAI wait out."""
_IN_VAIN: Final = frozenset(
    {"idempotency_conflict", "idempotency_exhausted", "no_eligible_provider", "internal_error"}
)
"""Codes of what the same request meets again."""


@dataclass(frozen=True, slots=True)
class ErrorReply:
    """What a client is told when there is no answer."""

    status: int
    message: str
    code: str
    _: KW_ONLY
    param: str | None = None
    retry_after_seconds: float | None = None

    def body(self, request_id: str) -> bytes:
        """Return the error body; where the fault is not the client's, it names the request."""
        message = self.message
        if self.status >= _SERVER_AT_FAULT:
            message = f"{message} (request {request_id})"
        error = {
            "message": message,
            "type": _TYPES.get(self.status, "server_error"),
            "param": self.param,
            "code": self.code,
        }
        return json.dumps({"error": error}, separators=(",", ":")).encode()

    def event(self, request_id: str) -> bytes:
        """Return the one event that ends a stream which has begun."""
        return b"data: " + self.body(request_id) + b"\n\n"

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers that go with it.

        The clients of OpenAI ask again by themselves, twice; ``x-should-retry`` keeps them from it
        where it cannot help.
        """
        headers: list[tuple[bytes, bytes]] = []
        wait = self.retry_after_seconds
        if wait is not None:
            headers.append((b"retry-after", b"%d" % max(math.ceil(wait), 1)))
        if self.code in _IN_VAIN or (wait is not None and wait > CLIENT_WAITS_SECONDS):
            headers.append((b"x-should-retry", b"false"))
        return headers


BUSY: Final = ErrorReply(503, "too many requests at once", "overloaded", retry_after_seconds=1.0)
SHUTTING_DOWN: Final = ErrorReply(
    503, "the service is shutting down", "shutting_down", retry_after_seconds=5.0
)
UNAUTHORISED: Final = ErrorReply(
    401, "no valid client key; send Authorization: Bearer KEY", "invalid_api_key"
)
CROSS_ORIGIN: Final = ErrorReply(
    403, "pages in a browser may not call while there is no client key", "cross_origin"
)
FOREIGN_HOST: Final = ErrorReply(
    403, "call by 127.0.0.1 or localhost while there is no client key", "foreign_host"
)
DEFECT: Final = ErrorReply(500, "internal error", "internal_error")


def reply_to_failed_round(ended: RoundErred | RoundUnavailable) -> ErrorReply:
    """Return what a client is told of a round that brought no answer.

    Failures that are unlike each other become 503.
    """
    match ended:
        case RoundErred(final=final):
            return reply_to_failure(final.kind, final.http_status)
        case RoundUnavailable(attempts=attempts, resting=resting):
            wait = ended.retry_after_seconds
            made = [(one.kind, one.http_status) for one in attempts]
            rests = [(one.kind, None) for one in resting]
            told = made or rests or [(FailureKind.TIMEOUT, None)]  # no time was left for any call
            statuses = {client_status(kind, status) for kind, status in told}
            if not made and rests and statuses != {429}:
                return ErrorReply(503, _AT_REST, "unavailable", retry_after_seconds=wait)
            if len(statuses) == 1:
                return _reply(statuses.pop(), told[-1][0], wait)
            return ErrorReply(503, _NOBODY, "unavailable", retry_after_seconds=wait)


def reply_to_failure(kind: FailureKind, http_status: int | None) -> ErrorReply:
    """Return what a client is told of the failure that ended its round for good."""
    return _reply(client_status(kind, http_status), kind)


def reply_to_interruption(error: StreamInterrupted) -> ErrorReply:
    """Return what a client is told of a stream that broke after it had begun."""
    return ErrorReply(502, "the provider's stream broke off", error.code)


def reply_to_error(error: CaseworkError) -> ErrorReply:
    """Return what a client is told of a request that no target was asked about."""
    match error:
        case LimitReached():
            return _reply(429, FailureKind.LIMIT_REACHED, error.seconds)
        case DeadlineExceeded():
            return _reply(504, FailureKind.TIMEOUT)
        case PrivacyViolation():
            return ErrorReply(403, _said(error), error.code, param="model")
        case InvalidRequest():
            param = "model" if error.code.startswith("model_") else error.where
            status = _STATUSES.get(error.code, 400)
            return ErrorReply(status, _said(error), error.code, param=param)
        case ConfigurationError():
            return ErrorReply(503, "the service cannot serve this model as configured", error.code)
        case _:
            return ErrorReply(503, _said(error), error.code)


def over_limit(seconds: float) -> ErrorReply:
    """Return what a client is told who asks more often than its key allows."""
    return ErrorReply(
        429, "the client key is at its limit", "rate_limit_exceeded", retry_after_seconds=seconds
    )


def _reply(status: int, kind: FailureKind, wait: float | None = None) -> ErrorReply:
    message = _SENTENCES.get(kind, "the provider could not answer")
    code = _CODES.get(kind, kind.value)
    return ErrorReply(status, message, code, retry_after_seconds=wait)


def _said(error: CaseworkError) -> str:
    return f"{error.message}; {error.remedy}" if error.remedy else error.message
