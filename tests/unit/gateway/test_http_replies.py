"""A status, its header and its body tell what failed; a table says how."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.gateway.errors import POLICY, FailureKind
from casework.gateway.http_replies import failure_of, retry_after_seconds

NOW = datetime(2026, 1, 1, 10, 0, tzinfo=UTC)
KIND_OF = {
    202: FailureKind.HTTP_ERROR,
    204: FailureKind.HTTP_ERROR,
    206: FailureKind.HTTP_ERROR,
    300: FailureKind.REDIRECT_REJECTED,
    301: FailureKind.REDIRECT_REJECTED,
    302: FailureKind.REDIRECT_REJECTED,
    304: FailureKind.REDIRECT_REJECTED,
    307: FailureKind.REDIRECT_REJECTED,
    308: FailureKind.REDIRECT_REJECTED,
    400: FailureKind.HTTP_ERROR,
    401: FailureKind.AUTH_ERROR,
    402: FailureKind.HTTP_ERROR,
    403: FailureKind.AUTH_ERROR,
    404: FailureKind.HTTP_ERROR,
    407: FailureKind.HTTP_ERROR,
    408: FailureKind.HTTP_408,
    409: FailureKind.HTTP_ERROR,
    413: FailureKind.HTTP_ERROR,
    418: FailureKind.HTTP_ERROR,
    422: FailureKind.HTTP_ERROR,
    429: FailureKind.HTTP_429,
    499: FailureKind.HTTP_ERROR,
    500: FailureKind.HTTP_5XX,
    501: FailureKind.HTTP_5XX,
    502: FailureKind.HTTP_5XX,
    503: FailureKind.HTTP_5XX,
    504: FailureKind.HTTP_5XX,
    529: FailureKind.HTTP_5XX,
    599: FailureKind.HTTP_5XX,
}


@pytest.mark.parametrize(("status", "kind"), KIND_OF.items())
def test_each_status_has_one_kind(status: int, kind: FailureKind) -> None:
    """The exact status is kept beside the kind."""
    failure = failure_of(status, retry_after_seconds=7.0)
    assert failure is not None
    assert (kind, status, 7.0, True) == (
        failure.kind,
        failure.http_status,
        failure.retry_after_seconds,
        failure.sent,
    )


@pytest.mark.parametrize("status", [200, 201])
def test_accepted_statuses_are_no_failure(status: int) -> None:
    """Two statuses bring an answer."""
    assert failure_of(status) is None


@pytest.mark.parametrize("status", [0, 99, 600, 999])
def test_a_status_outside_the_protocol_is_not_repeated(status: int) -> None:
    """What is no HTTP status is a malformed response without a status."""
    failure = failure_of(status)
    assert failure is not None
    assert (FailureKind.MALFORMED_RESPONSE, None) == (failure.kind, failure.http_status)


def test_temporary_are_exactly_the_statuses_that_may_pass() -> None:
    """408, 429 and 5xx keep an operation pending; no other status does."""
    temporary = {
        status
        for status in range(100, 600)
        for failure in [failure_of(status)]
        if failure is not None and POLICY[failure.kind].temporary
    }
    assert {408, 429, *range(500, 600)} == temporary


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ({"error": {"code": "context_length_exceeded"}}, FailureKind.CONTEXT_TOO_LONG),
        (
            {"error": {"code": 400, "type": "exceed_context_size_error", "n_ctx": 8}},
            FailureKind.CONTEXT_TOO_LONG,
        ),
        ({"code": "context_length_exceeded"}, FailureKind.CONTEXT_TOO_LONG),
        ({"error": {"code": "content_filter"}}, FailureKind.REFUSAL),
        ({"error": {"code": "content_policy_violation"}}, FailureKind.REFUSAL),
        (
            {"error": {"code": "x", "innererror": {"code": "ResponsibleAIPolicyViolation"}}},
            FailureKind.REFUSAL,
        ),
        ({"error": {"message": "context_length_exceeded, content_filter"}}, FailureKind.HTTP_ERROR),
        ({"error": {"code": "rate_context_length_exceeded"}}, FailureKind.HTTP_ERROR),
        ({"error": "content_filter"}, FailureKind.HTTP_ERROR),
        ({"error": {"code": ["content_filter"], "innererror": 3}}, FailureKind.HTTP_ERROR),
        ([], FailureKind.HTTP_ERROR),
    ],
)
@pytest.mark.parametrize("status", [400, 413])
def test_structured_codes_are_read_and_prose_is_not(
    status: int, body: object, kind: FailureKind
) -> None:
    """Only a code in its place changes the kind."""
    failure = failure_of(status, explanation=json.dumps(body).encode())
    assert failure is not None
    assert (kind, status) == (failure.kind, failure.http_status)


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff\xfe", b"[" * 100_000, b"1" * 5000])
def test_an_unreadable_explanation_leaves_the_status(body: bytes) -> None:
    """An error page says nothing more than its status."""
    failure = failure_of(400, explanation=body)
    assert failure is not None
    assert FailureKind.HTTP_ERROR is failure.kind


def test_the_codes_are_not_read_under_other_statuses() -> None:
    """A 503 stays temporary whatever its body says."""
    body = json.dumps({"error": {"code": "content_filter"}}).encode()
    failure = failure_of(503, explanation=body)
    assert failure is not None
    assert FailureKind.HTTP_5XX is failure.kind


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("nan", None),
        ("inf", None),
        ("-inf", None),
        ("0", 0.0),
        ("120", 120.0),
        (" 1.5 ", 1.5),
        ("-5", 0.0),
        ("1e9", 1e9),
        ("Thu, 01 Jan 2026 10:02:00 GMT", 120.0),
        ("Thu, 01 Jan 2026 12:02:00 +0200", 120.0),
        ("Thu, 01 Jan 2026 10:02:00", 120.0),
        ("Thu, 01 Jan 2026 10:02:00 -0000", 120.0),
        ("Thursday, 01-Jan-26 10:02:00 GMT", 120.0),
        ("Thu Jan  1 10:02:00 2026", 120.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
        ("Wed, 32 Foo 2015 99:28:00 GMT", None),
        ("Thu, 01 Jan 99999999 10:02:00 GMT", None),
        ("Thu, 01 Jan 2026 10:02:00 +99999999", None),
        ("9" * 400, None),
    ],
)
def test_retry_after_is_seconds_or_nothing(header: str | None, expected: float | None) -> None:
    """Seconds and dates, zoned or not, past or absurd, never fail and never go below zero."""
    assert expected == retry_after_seconds(header, NOW)


@given(st.text(max_size=60))
def test_no_retry_after_header_is_fatal(header: str) -> None:
    """Whatever a server writes there, the result is a time that can be waited, or none."""
    seconds = retry_after_seconds(header, NOW)
    assert seconds is None or 0.0 <= seconds < float("inf")
