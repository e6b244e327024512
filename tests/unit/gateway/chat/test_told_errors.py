"""An error told with HTTP 200 means what its codes say, and its prose is never read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from casework.gateway.chat.json_members import Raw
from casework.gateway.chat.told_errors import failure_told
from casework.gateway.errors import FailureKind


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": "context_length_exceeded"}, FailureKind.CONTEXT_TOO_LONG),
        ({"type": "exceed_context_size_error"}, FailureKind.CONTEXT_TOO_LONG),
        ({"code": "content_filter"}, FailureKind.REFUSAL),
        ({"innererror": {"code": "ResponsibleAIPolicyViolation"}}, FailureKind.REFUSAL),
        ({"code": "rate_limit_exceeded"}, FailureKind.HTTP_429),
        ({"code": "RESOURCE_EXHAUSTED"}, FailureKind.HTTP_429),
        ({"code": None, "type": "insufficient_quota"}, FailureKind.HTTP_429),
        ({"code": 429}, FailureKind.HTTP_429),
        ({"code": "429"}, FailureKind.HTTP_429),
        ({"status": 529}, FailureKind.HTTP_5XX),
        ({"code": 502, "message": "rate_limit_exceeded"}, FailureKind.HTTP_5XX),
        ({"type": "overloaded_error"}, FailureKind.HTTP_5XX),
        ({"code": 401}, FailureKind.AUTH_ERROR),
        ({"code": "invalid_api_key"}, FailureKind.AUTH_ERROR),
        ({"code": 408}, FailureKind.HTTP_408),
        ({"code": 400}, FailureKind.HTTP_ERROR),
        ({"code": 404, "type": "server_error"}, FailureKind.HTTP_ERROR),
        ({"type": "timeout_error"}, FailureKind.TIMEOUT),
        ({"code": 200}, FailureKind.MALFORMED_RESPONSE),
        ({"code": 10**400}, FailureKind.MALFORMED_RESPONSE),
        ({"code": [], "type": {}}, FailureKind.MALFORMED_RESPONSE),
        ({"message": "rate limit, context length, 429"}, FailureKind.MALFORMED_RESPONSE),
        ({}, FailureKind.MALFORMED_RESPONSE),
        ("rate_limit_exceeded", FailureKind.MALFORMED_RESPONSE),
        (["server_error"], FailureKind.MALFORMED_RESPONSE),
        (429, FailureKind.MALFORMED_RESPONSE),
    ],
)
def test_the_codes_decide(error: Any, kind: FailureKind) -> None:
    """Numbers like HTTP's and the words of the field; anything else is a malformed response."""
    found = failure_told(Raw(json.dumps(error).encode()))
    assert (kind, None, True) == (found.kind, found.http_status, found.sent)
