"""Kept calls over HTTP: what a client sends, and what it gets back each time."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from casework.gateway.errors import FailureKind, ProviderFailure
from tests.facade.serving import facade, provider
from tests.support.kept_calls import Kept, completion

NOBODY = provider("nobody", "http://127.0.0.1:9/v1")
"""Whom calls would reach that are not kept."""
KEY = {"Idempotency-Key": "k-1"}


async def test_the_same_key_gets_the_same_bytes_and_is_told_so(tmp_path: Path) -> None:
    """The second reply says that it was recorded, and no attempt stands in the request log."""
    kept = Kept(tmp_path)
    async with facade(NOBODY, tmp_path, durable=kept.calls) as served:
        first, again = await served.chat(KEY), await served.chat(KEY)
        other = await served.chat(KEY, temperature=0.5)
    assert ((200, "auto", "yes"), 1) == (
        (
            first.status,
            first.json["model"],
            first.json["choices"][0]["message"]["content"],
        ),
        len(kept.provider.calls),
    )
    assert first.body == again.body
    assert (None, "1") == (
        first.headers.get("x-casework-reused"),
        first.headers.get("x-casework-attempts"),
    )
    assert ("true", "remote", None) == (
        again.headers.get("x-casework-reused"),
        again.headers.get("x-casework-provider"),
        again.headers.get("x-casework-attempts"),
    )
    assert [(1, 9), (0, None), (0, None)] == [
        (line.attempts, line.prompt_tokens) for line in served.lines
    ]
    assert (409, "idempotency_conflict") == (other.status, other.code)


async def test_a_kept_call_has_a_connection_of_its_own(tmp_path: Path) -> None:
    """What is recorded may not come over a connection that has served somebody else."""
    kept = Kept(tmp_path)
    async with facade(NOBODY, tmp_path, durable=kept.calls) as served:
        await served.chat(KEY)
    assert [True] == [call.alone for call in kept.provider.calls]


async def test_two_at_once_get_one_reply_and_one_word_to_come_back(tmp_path: Path) -> None:
    """The one that is told to come back is told when."""
    answers = asyncio.Event()
    kept = Kept(tmp_path, [answers, completion()])
    async with facade(NOBODY, tmp_path, durable=kept.calls) as served:
        first = asyncio.ensure_future(served.chat(KEY))
        await kept.provider.asked.wait()
        busy = await served.chat(KEY)
        assert (409, "idempotency_busy", "1") == (
            busy.status,
            busy.code,
            busy.headers["Retry-After"],
        )
        answers.set()
        assert 200 == (await first).status
    assert 1 == len(kept.provider.calls)


@pytest.mark.parametrize(
    ("headers", "body", "code"),
    [
        (KEY, {"stream": True}, "idempotency_stream"),
        ({"X-Casework-Case": "c"}, {}, "invalid_header"),
        ({**KEY, "X-Casework-Case": "call:bob:k-1"}, {}, "invalid_header"),
    ],
)
async def test_what_cannot_be_kept_is_refused_before_anything_is_done(
    tmp_path: Path, headers: dict[str, str], body: dict[str, object], code: str
) -> None:
    """Nobody is called and nothing is written."""
    kept = Kept(tmp_path)
    async with facade(NOBODY, tmp_path, durable=kept.calls) as served:
        refused = await served.chat(headers, **body)
    assert (400, code, []) == (refused.status, refused.code, kept.provider.calls)
    assert [] == list(kept.store.list())


async def test_errors_of_a_kept_call_are_those_of_one_that_is_not(tmp_path: Path) -> None:
    """A final one is told alike each time, and its calls are made once."""
    kept = Kept(tmp_path, [ProviderFailure(FailureKind.CONTEXT_TOO_LONG, http_status=400)])
    async with facade(NOBODY, tmp_path, durable=kept.calls) as served:
        replies = [await served.chat(KEY) for _ in range(2)]
    assert [(400, "context_length_exceeded")] * 2 == [(r.status, r.code) for r in replies]
    assert replies[0].body == replies[1].body
    assert 1 == len(kept.provider.calls)


async def test_a_service_that_keeps_no_calls_says_so(tmp_path: Path) -> None:
    """The header is never passed over in silence."""
    async with facade(NOBODY, tmp_path) as served:
        refused = await served.chat(KEY)
    assert (400, "idempotency_unsupported") == (refused.status, refused.code)


async def test_a_client_that_leaves_frees_the_call(tmp_path: Path) -> None:
    """The upstream call is cancelled, and the key may be sent again."""
    kept = Kept(tmp_path, [asyncio.Event(), completion()])
    async with facade(NOBODY, tmp_path, durable=kept.calls) as served:
        call = asyncio.ensure_future(served.chat(KEY))
        await kept.provider.asked.wait()
        call.cancel()
        await served.settled()
        again = await served.chat(KEY)
    assert (200, 2) == (again.status, len(kept.provider.calls))
    kept.assert_verifies("call:anonymous:k-1")
