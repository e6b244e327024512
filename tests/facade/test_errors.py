"""Every failure has one status and one body in OpenAI's shape, and none tells what it must not."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from casework.config.privacy_profile import ProviderClass
from casework.errors import (
    ConfigurationError,
    DeadlineExceeded,
    InvalidRequest,
    LimitReached,
    PrivacyViolation,
    StorageError,
    StreamInterrupted,
)
from casework.facade.errors import (
    ErrorReply,
    reply_to_error,
    reply_to_failed_round,
    reply_to_interruption,
)
from casework.gateway.errors import FailureKind
from casework.gateway.outcomes import Attempt, Resting, RoundErred, RoundUnavailable, Served
from tests.support.openai_schemas import violations

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def failed(kind: FailureKind, http_status: int | None = None) -> Attempt:
    """Return a failed call."""
    served = Served(
        provider="p",
        model="m",
        provider_class=ProviderClass.LOCAL,
        key_label=None,
        started_at=NOW,
        elapsed_ms=1,
        sent=True,
        request_bytes=1,
        usage=None,
        cost=None,
    )
    return Attempt(served=served, kind=kind, http_status=http_status)


def erred(kind: FailureKind, http_status: int | None = None) -> ErrorReply:
    """Return the reply to a round that one failure ended."""
    return reply_to_failed_round(
        RoundErred(started_at=NOW, elapsed_ms=1, attempts=(), final=failed(kind, http_status))
    )


def unavailable(
    *attempts: Attempt, resting: tuple[Resting, ...] = (), wait: float | None = None
) -> ErrorReply:
    """Return the reply to a round in which nobody answered."""
    return reply_to_failed_round(
        RoundUnavailable(
            started_at=NOW,
            elapsed_ms=1,
            attempts=attempts,
            retry_after_seconds=wait,
            resting=resting,
        )
    )


@pytest.mark.parametrize(
    ("kind", "http_status", "status", "code"),
    [
        (FailureKind.HTTP_ERROR, 400, 400, "http_error"),
        (FailureKind.HTTP_ERROR, 404, 404, "http_error"),
        (FailureKind.HTTP_ERROR, 409, 409, "http_error"),
        (FailureKind.HTTP_ERROR, 422, 422, "http_error"),
        (FailureKind.HTTP_ERROR, 402, 502, "http_error"),
        (FailureKind.AUTH_ERROR, 401, 502, "auth_error"),
        (FailureKind.HTTP_429, 429, 429, "rate_limit_exceeded"),
        (FailureKind.LIMIT_REACHED, None, 429, "rate_limit_exceeded"),
        (FailureKind.HTTP_5XX, 529, 502, "http_5xx"),
        (FailureKind.CONNECT_ERROR, None, 502, "connect_error"),
        (FailureKind.TIMEOUT, None, 504, "timeout"),
        (FailureKind.REQUEST_TOO_LARGE, None, 413, "request_too_large"),
        (FailureKind.CONTEXT_TOO_LONG, 400, 400, "context_length_exceeded"),
        (FailureKind.REFUSAL, 400, 400, "content_filter"),
        (FailureKind.EMPTY_RESPONSE, None, 502, "empty_response"),
        (FailureKind.SCHEMA_VIOLATION, None, 502, "schema_violation"),
        (FailureKind.UNKNOWN, None, 500, "unknown"),
    ],
)
def test_a_failure_has_one_status_and_one_code(
    kind: FailureKind, http_status: int | None, status: int, code: str
) -> None:
    """The client's own key is never blamed for the provider's, and servers alone are 5xx."""
    reply = erred(kind, http_status)
    assert (status, code) == (reply.status, reply.code)


@pytest.mark.parametrize("kind", list(FailureKind))
def test_every_failure_has_a_body_in_openais_shape(kind: FailureKind) -> None:
    """It validates against the published schema; a server's fault names the request."""
    reply = erred(kind)
    body = json.loads(reply.body("req_1"))
    assert [] == violations(body, "ErrorResponse")
    assert (reply.status >= 500) == ("req_1" in body["error"]["message"])
    assert 400 <= reply.status < 600


def test_failures_of_one_kind_keep_their_status_and_others_become_503() -> None:
    """A client learns the most that is true of all."""
    busy, down = failed(FailureKind.HTTP_429, 429), failed(FailureKind.HTTP_5XX, 500)
    assert 429 == unavailable(busy, busy).status
    assert 502 == unavailable(down, down).status
    assert 503 == unavailable(busy, down).status
    assert 504 == unavailable().status


def test_where_everybody_rests_the_client_learns_when_to_come_back() -> None:
    """Limits stay 429, anything else is 503; a wait that no client waits out is not repeated."""
    limit, broken = Resting("p", FailureKind.HTTP_429, 20), Resting("q", FailureKind.TIMEOUT, 50)
    reply = unavailable(resting=(limit,), wait=19.2)
    assert (429, [(b"retry-after", b"20")]) == (reply.status, reply.headers())
    reply = unavailable(resting=(limit, broken), wait=600.0)
    assert 503 == reply.status
    assert [(b"retry-after", b"600"), (b"x-should-retry", b"false")] == reply.headers()


def test_who_was_not_asked_is_not_blamed() -> None:
    """Beside calls that were made, a provider at rest says nothing of what went wrong."""
    refused = Resting("p", FailureKind.AUTH_ERROR, 300)
    reply = unavailable(failed(FailureKind.HTTP_5XX, 500), resting=(refused,))
    assert (502, "http_5xx", []) == (reply.status, reply.code, reply.headers())


@pytest.mark.parametrize(
    ("error", "status", "code", "param"),
    [
        (LimitReached(3.0), 429, "rate_limit_exceeded", None),
        (DeadlineExceeded("late"), 504, "timeout", None),
        (PrivacyViolation("beyond"), 403, "privacy_profile", "model"),
        (InvalidRequest("no", code="model_not_found"), 404, "model_not_found", "model"),
        (InvalidRequest("no", code="model_not_allowed"), 403, "model_not_allowed", "model"),
        (InvalidRequest("no", code="invalid_type", where="n"), 400, "invalid_type", "n"),
        (ConfigurationError("no", code="no_eligible_provider"), 503, "no_eligible_provider", None),
        (StorageError("disk"), 503, "storage_error", None),
    ],
)
def test_an_error_before_any_call_has_its_status(
    error: Exception, status: int, code: str, param: str | None
) -> None:
    """What the client can mend is 4xx and names the member."""
    reply = reply_to_error(error)  # type: ignore[arg-type]
    assert (status, code, param) == (reply.status, reply.code, reply.param)


def test_a_broken_stream_ends_with_one_event_and_nothing_else() -> None:
    """It is an error in OpenAI's shape, without a finish and without a closing mark."""
    event = reply_to_interruption(StreamInterrupted("broke", code="timeout")).event("req_1")
    assert event.startswith(b"data: {")
    assert (1, b"\n\n") == (event.count(b"data:"), event[-2:])
    assert "timeout" == json.loads(event.removeprefix(b"data: "))["error"]["code"]
