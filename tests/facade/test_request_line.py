"""What is told of a request: a closed list of members, none of which can grow."""

from __future__ import annotations

import msgspec

from casework.facade.request_line import (
    FAILURES_MAX,
    TEXT_CHARACTERS_MAX,
    FailedAttempt,
    RequestLine,
)
from casework.gateway.clock import MANUAL_START

LINE = RequestLine(
    request_id="req_1",
    at=MANUAL_START,
    client="web",
    route="chat_completions",
    status=200,
    elapsed_ms=12.5,
    asked_model="gpt-4o-mini",
)


def test_the_members_are_known() -> None:
    """Whoever adds one looks here whether it may hold a text, an address, a header or a key."""
    assert {
        "request_id",
        "at",
        "client",
        "route",
        "status",
        "elapsed_ms",
        "asked_model",
        "provider",
        "provider_class",
        "model",
        "policy",
        "code",
        "attempts",
        "failures",
        "upstream_ms",
        "stream",
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
        "cost",
        "client_left",
    } == set(RequestLine.__struct_fields__)
    assert ("provider", "code", "http_status") == FailedAttempt.__struct_fields__


def test_what_others_wrote_is_cut() -> None:
    """A client may name a model a megabyte long, and a round may fail very often."""
    failures = tuple(FailedAttempt(f"p{n}", "timeout") for n in range(100))
    long = msgspec.structs.replace(
        LINE, asked_model="x" * 1_000_000, model="y" * 300, attempts=100, failures=failures
    )
    kept = long.bounded()
    assert ("x" * TEXT_CHARACTERS_MAX, "y" * TEXT_CHARACTERS_MAX) == (kept.asked_model, kept.model)
    assert (100, failures[:FAILURES_MAX]) == (kept.attempts, kept.failures)


def test_what_fits_is_left_as_it_is() -> None:
    """Without a copy."""
    assert LINE is LINE.bounded()
