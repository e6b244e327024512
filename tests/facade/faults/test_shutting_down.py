"""The end of the service: open requests are told, new ones are refused, and the process ends."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.facade.faults.stage import CHAT, EMBEDDINGS, QUICK, Stage, asking, replies_in, stage
from tests.facade.serving import HELLO

AT_ONCE = QUICK + "[serve]\nshutdown_seconds = 0.05\n"
PATIENT = QUICK + "[serve]\nshutdown_seconds = 60.0\n"


async def test_an_open_stream_gets_one_error_event_and_its_end(tmp_path: Path) -> None:
    """Neither is an end invented, nor the connection merely cut."""
    async with stage(tmp_path, AT_ONCE) as staged:
        client = await staged.client()
        client.send(CHAT, asking("[[fault:hang=3]]Hello.", stream=True))
        await client.until(b"said")
        staged.served.interruption.press()
        rest = await client.rest()
        assert (1, 1) == (rest.count(b'"error"'), rest.count(b'"code":"shutting_down"'))
        assert b"[DONE]" not in rest
        assert rest.endswith(b"}}\n\n\r\n0\r\n\r\n")
        await staged.near.until(lambda upstream: upstream.open_connections == 0)
        assert (200, "shutting_down", False) == (
            *(staged.line.status, staged.line.code),
            staged.line.client_left,
        )


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, asking("[[fault:hang]]")),
        (CHAT, asking("[[fault:hang]]", stream=True)),
        (EMBEDDINGS, {"model": "auto", "input": "[[fault:hang]]"}),
    ],
    ids=["whole", "stream", "vectors"],
)
async def test_what_has_not_begun_gets_a_whole_refusal(
    tmp_path: Path, path: str, body: dict[str, object]
) -> None:
    """The client may ask another service, and is told when to come back."""
    async with stage(tmp_path, AT_ONCE) as staged:
        waiting = asyncio.ensure_future(staged.served.post(path, body))
        await staged.near.until(lambda upstream: upstream.active == 1)
        staged.served.interruption.press()
        reply = await waiting
        assert (503, "shutting_down", "5", "close") == (
            *(reply.status, reply.code),
            *(reply.headers["retry-after"], reply.headers["connection"]),
        )
        await staged.near.until(lambda upstream: upstream.open_connections == 0)
        assert [1] == staged.calls


@pytest.mark.parametrize("stream", [True, False])
async def test_what_ends_in_time_is_whole(tmp_path: Path, *, stream: bool) -> None:
    """An answer that is under way is waited for."""
    async with stage(tmp_path, PATIENT) as staged:
        staged.near.queue("wait=0.2 pause=0.02")
        waiting = asyncio.ensure_future(staged.served.chat(stream=stream))
        await staged.near.until(lambda upstream: upstream.active == 1)
        staged.served.interruption.press()
        reply = await waiting
        assert 200 == reply.status
        assert "You said: Hello." in (reply.text if stream else reply.body.decode())


async def test_new_requests_are_refused_meanwhile(tmp_path: Path) -> None:
    """New connections are not taken, and an open one is closed after its reply."""
    async with stage(tmp_path, PATIENT) as staged:
        client = await staged.client()
        client.send(CHAT, asking("[[fault:wait=0.5]]Hello.", stream=False))
        await staged.near.until(lambda upstream: upstream.active == 1)
        staged.served.interruption.press()
        await _ending(staged)
        for path in (CHAT, EMBEDDINGS):
            client.send(path, HELLO)
        with pytest.raises(ConnectionRefusedError):
            await staged.client()
        (status, _), *others = replies_in(await client.rest())
        assert 200 == status
        assert [] == others
        assert [1] == staged.calls


async def test_the_second_order_ends_all_at_once(tmp_path: Path) -> None:
    """Nobody is waited for, and everybody is told in the shape of other errors."""
    async with stage(tmp_path, PATIENT) as staged:
        client = await staged.client()
        client.send(CHAT, asking("[[fault:hang=3]]Hello.", stream=True))
        await client.until(b"said")
        waiting = asyncio.ensure_future(staged.served.say("[[fault:hang]]"))
        await staged.near.until(lambda upstream: upstream.active == 2)
        staged.served.interruption.press()
        await _ending(staged)
        staged.served.interruption.press()
        reply = await waiting
        assert (503, "shutting_down") == (reply.status, reply.code)
        rest = await client.rest()
        assert (1, 0) == (rest.count(b'"code":"shutting_down"'), rest.count(b"[DONE]"))
        await staged.near.until(lambda upstream: upstream.open_connections == 0)


async def test_whoever_watches_is_told_over_an_open_connection(tmp_path: Path) -> None:
    """The process lives, and is not ready."""
    async with stage(tmp_path, PATIENT) as staged:
        waiting = asyncio.ensure_future(staged.served.say("[[fault:wait=0.3]]Hello."))
        await staged.near.until(lambda upstream: upstream.active == 1)
        staged.served.open_requests.begin_shutdown(60.0)
        assert 200 == (await staged.served.get("/healthz")).status
        ready = await staged.served.get("/readyz")
        assert 503 == ready.status
        refused = await staged.served.chat()
        assert (503, "shutting_down") == (refused.status, refused.code)
        assert 200 == (await waiting).status


async def _ending(staged: Stage) -> None:
    """Wait until the service has heard that it is to end."""
    async with asyncio.timeout(20):
        while not staged.served.open_requests.shutting_down:  # noqa: ASYNC110 - nobody is told
            await asyncio.sleep(0)
