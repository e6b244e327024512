"""Silence: bridged by comments, bounded by deadlines, and told inside a reply that has begun."""

from __future__ import annotations

import asyncio
import resource
import sys
from pathlib import Path

import pytest

from casework.gateway.http_connection import BUFFER_BYTES_MAX
from casework.runtime.http import client_connection
from casework.runtime.http.client_connection import ClientConnection
from tests.facade.faults.stage import CHAT, QUICK, Stage, asking, stage
from tests.facade.faults.test_broken_streams import errors_in, finishes_in

COMMENT = b": keep-alive\n\n"
SOON = QUICK + "keepalive_seconds = 0.02\nfirst_keepalive_seconds = 0.05\n"
DEADLINE = {"X-Casework-Deadline-Seconds": "0.2"}
FLOOD_BYTES = 100_000_000


async def test_a_reply_that_begins_with_a_comment_can_still_fail_over(tmp_path: Path) -> None:
    """Nothing was said yet, so the next one is asked; only its name comes too late for a header."""
    async with stage(tmp_path, SOON, many=2) as staged:
        staged.near.queue("wait=0.2 503")
        reply = await staged.served.chat(stream=True)
        assert (200, "text/event-stream; charset=utf-8") == (
            reply.status,
            reply.headers["content-type"],
        )
        assert COMMENT == reply.body[: len(COMMENT)]
        assert ("You said: Hello.", ["stop"]) == (reply.text, finishes_in(reply))
        assert "x-casework-provider" not in reply.headers
        assert ([1, 1], "far", 2) == (staged.calls, staged.line.provider, staged.line.attempts)


async def test_a_failure_after_a_comment_is_told_inside_the_reply(tmp_path: Path) -> None:
    """The status was sent already; the one event that follows holds the error, and ends it."""
    async with stage(tmp_path, SOON, many=2) as staged:
        staged.near.queue("wait=0.2 503")
        staged.far.queue("502")
        reply = await staged.served.chat(stream=True)
        assert COMMENT == reply.body[: len(COMMENT)]
        assert ["http_5xx"] == [error["code"] for error in errors_in(reply)]
        assert 1 == len(reply.events)
        assert (200, "http_5xx", [1, 1]) == (staged.line.status, staged.line.code, staged.calls)


async def test_a_first_wait_may_be_shorter_than_those_that_follow(tmp_path: Path) -> None:
    """It is what the settings say, whatever they say of the silence between chunks."""
    settings = QUICK + "keepalive_seconds = 60.0\nfirst_keepalive_seconds = 0.05\n"
    async with stage(tmp_path, settings) as staged:
        client = await staged.client()
        client.send(CHAT, asking("[[fault:hang]]", stream=True))
        assert b"200" in (await client.until(COMMENT)).splitlines()[0]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_header_shortens_the_deadline(tmp_path: Path, *, stream: bool) -> None:
    """The client is told in time, whoever hangs, and the call is closed."""
    async with stage(tmp_path) as staged:
        reply = await staged.served.chat(DEADLINE, **asking("[[fault:hang]]", stream=stream))
        assert (504, "timeout", "timeout_error") == (
            reply.status,
            reply.code,
            reply.json["error"]["type"],
        )
        await staged.near.until(lambda upstream: upstream.open_connections == 0)
        assert [1] == staged.calls


async def test_a_header_cannot_lengthen_the_deadline(tmp_path: Path) -> None:
    """The settings are the ceiling."""
    async with stage(tmp_path, QUICK + "deadline_seconds = 0.2\n") as staged:
        longer = {"X-Casework-Deadline-Seconds": "3600"}
        reply = await staged.served.chat(longer, **asking("[[fault:hang]]"))
        assert (504, "timeout") == (reply.status, reply.code)
        for value in ("0", "-1", "nan", "inf", "soon", "1, 2", ""):
            refused = await staged.served.chat({"X-Casework-Deadline-Seconds": value})
            assert (400, "invalid_header") == (refused.status, refused.code)
        assert [1] == staged.calls


async def test_the_deadline_is_over_once_the_stream_has_begun(tmp_path: Path) -> None:
    """A long answer is no late answer."""
    async with stage(tmp_path) as staged:
        staged.near.queue("pause=0.06")
        reply = await staged.served.chat(DEADLINE, stream=True)
        assert ("You said: Hello.", ["stop"]) == (reply.text, finishes_in(reply))


async def flooded(staged: Stage) -> None:
    """Let a client ask for a flood and read nothing of it, until the server upstream must wait."""
    client = await staged.client(buffer_bytes=1024)
    client.send(CHAT, asking(f"[[fault:flood={FLOOD_BYTES}]]", stream=True))
    await staged.near.until(lambda upstream: upstream.active == 1)


async def test_a_client_that_takes_nothing_is_hung_up_on(tmp_path: Path) -> None:
    """The flood is not kept for it; after a while its connection is cut and the call closed."""
    settings = QUICK + "keepalive_seconds = 0.05\nidle_seconds = 0.3\n"
    async with stage(tmp_path, settings) as staged:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        await flooded(staged)
        await staged.logged(1)
        assert (499, "client_stalled", None) == (
            staged.line.status,
            staged.line.code,
            staged.line.total_tokens,
        )
        await staged.near.until(lambda upstream: upstream.open_connections == 0)
        grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        if sys.platform == "linux":
            assert grown_kib * 1024 < FLOOD_BYTES / 5
        assert staged.near.departures[0].events_sent * 16_384 < FLOOD_BYTES / 5
        assert 200 == (await staged.served.chat()).status


async def test_a_client_that_is_slow_gets_everything(tmp_path: Path) -> None:
    """Whoever takes a little now and then is never hung up on, and nothing is kept meanwhile."""
    settings = QUICK + "keepalive_seconds = 0.02\nidle_seconds = 0.2\n"
    size = 40 * BUFFER_BYTES_MAX
    async with stage(tmp_path, settings) as staged:
        client = await staged.client(buffer_bytes=1024)
        client.send(CHAT, asking(f"[[fault:flood={size}]]", stream=True), {"Connection": "close"})
        read = 0
        last = b""
        while piece := await client.reader.read(65_536):
            read += len(piece)
            last = (last + piece)[-100:]
            await asyncio.sleep(0)
        assert read > size
        assert last.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")


async def test_whole_replies_that_nobody_takes_are_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that asks and asks and reads nothing is hung up on as well."""
    monkeypatch.setattr(client_connection, "TAKING_SECONDS", 0.05)
    hung_up = asyncio.Event()
    lost = ClientConnection.connection_lost

    def heard(connection: ClientConnection, exc: Exception | None) -> None:
        lost(connection, exc)
        hung_up.set()

    monkeypatch.setattr(ClientConnection, "connection_lost", heard)
    async with stage(tmp_path) as staged:
        client = await staged.client(buffer_bytes=1024)
        client.writer.write(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 3000)
        async with asyncio.timeout(20):
            await hung_up.wait()
        assert (await client.rest_or_reset()).count(b"HTTP/1.1 200") < 3000


async def test_an_error_that_nobody_takes_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that takes nothing does not keep its place by the error that it is to be told."""
    monkeypatch.setattr("casework.facade.endpoint.LAST_WORD_SECONDS", 0.05)
    async with stage(tmp_path, QUICK + "[serve]\nshutdown_seconds = 0.1\n") as staged:
        await flooded(staged)
        staged.served.interruption.press()
        await staged.logged(1)
        assert (499, "client_stalled") == (staged.line.status, staged.line.code)
