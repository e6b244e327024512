"""Places of clients, keys and providers: whoever leaves frees them, and nobody else loses one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from casework.facade import presence
from casework.gateway.clock import Clock, ManualClock, SystemClock
from casework.runtime.line.line_gate import LineGate
from casework.runtime.line.line_state import LineState
from tests.facade.faults.stage import CHAT, EMBEDDINGS, QUICK, Stage, Wired, asking, stage
from tests.support.key_files import key_entry, key_file

ALONE = "[providers.limits]\nmax_concurrency = 1\n"
KEY = {"Authorization": "Bearer cw-web"}
MANY = 100
FAULTS = ("hang", "hang=1", "hang=3", "pause=1")


@asynccontextmanager
async def one_place(
    folder: Path, *, key: bool = True, extra: str = "", clock: Clock | None = None
) -> AsyncIterator[Stage]:
    """Serve with one place at the provider, behind the gate of real projects, and one of the key.

    Args:
        folder: Where files lie.
        key: Whether the client has a key with one place.
        extra: Further settings.
        clock: The time; the machine's by default.
    """
    if key:
        key_file(folder, key_entry("web", "cw-web", concurrency_max=1))
    with closing(LineState(folder)) as state:
        gate = LineGate(state, clock or SystemClock())
        async with stage(folder, QUICK + extra, extra=ALONE, gate=gate, clock=clock) as staged:
            yield staged


async def begun(staged: Stage, fault: str, *, stream: bool = True) -> Wired:
    """Return a client whose call is under way upstream."""
    client = await staged.client()
    calls = staged.near.calls
    client.send(CHAT, asking(f"[[fault:{fault}]]Hello.", stream=stream), KEY)
    await staged.near.until(lambda upstream: upstream.calls > calls)
    return client


async def test_a_hundred_streams_that_are_left_leave_the_place_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one place at the provider and one of the key, each next request is let in."""
    monkeypatch.setattr(presence, "UNWATCHED_SECONDS", 0.0)
    async with one_place(tmp_path) as staged:
        for number in range(MANY):
            fault = FAULTS[number % len(FAULTS)]
            client = await begun(staged, fault)
            if fault == "hang=3":
                await client.until(b"You")
            refused = await staged.served.chat(KEY)
            assert (429, "rate_limit_exceeded") == (refused.status, refused.code)
            client.leave()
            await staged.near.until(lambda upstream: upstream.active == 0)
            await staged.served.settled()
        assert 200 == (await staged.served.chat(KEY)).status
        assert [MANY + 1] == staged.calls
        assert MANY == sum(line.client_left for line in staged.served.lines)


@pytest.mark.parametrize("stream", [True, False])
async def test_who_leaves_while_waiting_for_the_place_was_never_there(
    tmp_path: Path, *, stream: bool
) -> None:
    """A hundred clients leave the queue; the one behind them is next, and nobody else was asked."""
    async with one_place(tmp_path, key=False) as staged:
        first = await begun(staged, "hang=3")
        queued = [await staged.client() for _ in range(MANY)]
        for client in queued:
            client.send(CHAT, asking(stream=stream))
        last = asyncio.ensure_future(staged.served.chat(stream=stream))
        await staged.opened(MANY + 2)
        for client in queued:
            client.leave()
        await staged.logged(MANY)
        assert [1] == staged.calls
        first.leave()
        assert 200 == (await last).status
        await staged.served.settled()
        assert [2] == staged.calls
        assert 200 == (await staged.served.chat(stream=stream)).status


async def test_who_leaves_a_gathered_call_takes_nothing_from_the_others(tmp_path: Path) -> None:
    """Half of those whose texts travel together leave; the other half gets its own vectors."""
    settings = "[embeddings]\nwindow_seconds = 10.0\nmax_items = 10\n"
    async with one_place(tmp_path, key=False, extra=settings) as staged:
        staged.near.queue("wait=0.2")
        leaving = [await staged.client() for _ in range(5)]
        for number, client in enumerate(leaving):
            client.send(EMBEDDINGS, {"model": "auto", "input": f"leaves {number}"})
        await staged.opened(5)
        staying = [
            asyncio.ensure_future(
                staged.served.post(EMBEDDINGS, {"model": "auto", "input": f"stays {number}"})
            )
            for number in range(5)
        ]
        await staged.near.until(lambda upstream: upstream.active == 1)
        for client in leaving:
            client.leave()
        vectors = [(await one).json["data"][0]["embedding"] for one in staying]
        alone = [
            (await staged.served.post(EMBEDDINGS, {"model": "auto", "input": [f"stays {n}"] * 10}))
            for n in range(5)
        ]
        assert vectors == [one.json["data"][3]["embedding"] for one in alone]
        assert [6] == staged.calls


async def test_when_all_leave_a_gathered_call_it_is_closed(tmp_path: Path) -> None:
    """The last one takes it along, and the next is asked anew."""
    async with one_place(tmp_path, key=False) as staged:
        staged.near.queue("hang")
        leaving = [await staged.client() for _ in range(5)]
        for client in leaving:
            client.send(EMBEDDINGS, {"model": "auto", "input": "leaves"})
        await staged.near.until(lambda upstream: upstream.active == 1)
        for client in leaving:
            client.leave()
        await staged.near.until(lambda upstream: upstream.open_connections == 0)
        await staged.logged(5)
        reply = await staged.served.post(EMBEDDINGS, {"model": "auto", "input": "stays"})
        assert (200, [2]) == (reply.status, staged.calls)


@pytest.mark.parametrize("stream", [True, False])
async def test_who_leaves_as_the_probe_lets_the_next_one_be_it(
    tmp_path: Path, *, stream: bool
) -> None:
    """The breaker's one call is free again as soon as its client is gone."""
    clock = ManualClock()
    settings = "[breaker]\nfailures = 1\n"
    async with one_place(tmp_path, key=False, extra=settings, clock=clock) as staged:
        for probes in range(1, 4):
            staged.near.queue("503")
            assert 502 == (await staged.served.chat()).status
            clock.advance(60.0)
            client = await begun(staged, "hang", stream=stream)
            for _ in range(3):
                assert 503 == (await staged.served.chat(stream=stream)).status
            client.leave()
            await staged.served.settled()
            assert 200 == (await staged.served.chat(stream=stream)).status
            assert [3 * probes] == staged.calls


async def test_who_leaves_early_does_not_wake_a_server_at_rest(tmp_path: Path) -> None:
    """A client whose call began before the breaker opened does not open it for others."""
    settings = "[breaker]\nfailures = 1\n"
    async with stage(tmp_path, QUICK + settings) as staged:
        client = await begun(staged, "hang", stream=True)
        staged.near.queue("503")
        assert 502 == (await staged.served.chat()).status
        client.leave()
        await staged.near.until(lambda upstream: upstream.active == 0)
        await staged.served.settled()
        assert (503, [2]) == ((await staged.served.chat()).status, staged.calls)


async def test_places_are_many_and_are_all_given_back(tmp_path: Path) -> None:
    """More clients than places come at once, and each is served in its turn."""
    async with one_place(tmp_path, key=False) as staged:
        replies = await asyncio.gather(
            *(staged.served.chat(stream=bool(number % 2)) for number in range(40))
        )
        assert {200} == {reply.status for reply in replies}
        assert [40] == staged.calls
