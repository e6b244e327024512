"""Failover, rests and deadlines: whoever fails is passed over, and every call is counted."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest

from casework.gateway.clock import ManualClock
from tests.facade.faults.stage import CHAT, EMBEDDINGS, QUICK, Stage, asking, stage
from tests.facade.serving import Told

AT_ONCE = QUICK + "[embeddings]\nwindow_seconds = 0.0\n"
BREAKER = "[breaker]\nfailures = 1\nopen_seconds = 60.0\n"
KEYS = 'api_key_env = ["ONE", "TWO", "THREE"]\n'
ENVIRON = {"ONE": "sk-one", "TWO": "sk-two", "THREE": "sk-three"}

ASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "whole": (CHAT, asking()),
    "stream": (CHAT, asking(stream=True)),
    "vectors": (EMBEDDINGS, {"model": "auto", "input": "Hello."}),
}
ELSEWHERE = ("401", "403", "404", "408", "409", "429", "500", "501", "503", "504", "520", "529")
"""Statuses after which another provider may answer."""
NOWHERE_ELSE = ("400", "413", "415", "422", "400 code=context_length_exceeded")
"""Statuses that blame the request, as every other provider would."""


async def asked(staged: Stage, what: str = "whole") -> Told:
    """Ask for something."""
    return await staged.served.post(*ASKS[what])


@pytest.mark.parametrize("what", list(ASKS))
async def test_a_status_leads_to_the_next_one_or_to_the_client(tmp_path: Path, what: str) -> None:
    """Each provider is asked once; a retryable status of whatever number is none for the client."""
    clock = ManualClock()
    async with stage(tmp_path, AT_ONCE, many=2, clock=clock) as staged:
        for status in (*ELSEWHERE, *NOWHERE_ELSE):
            for upstream in staged.upstreams:
                upstream.forget()
            staged.near.queue(status)
            reply = await asked(staged, what)
            blamed = status in NOWHERE_ELSE
            assert [1, 0 if blamed else 1] == staged.calls, status
            assert int(status[:3]) == reply.status if blamed else reply.status == 200, status
            clock.advance(3600.0)


@pytest.mark.parametrize("what", list(ASKS))
async def test_exhausted_chains_do_not_begin_again(tmp_path: Path, what: str) -> None:
    """Three providers, three calls each while the server is at fault, and then the client."""
    clock = ManualClock()
    settings = "[embeddings]\nwindow_seconds = 0.0\n[breaker]\nfailures = 1000\n"
    async with stage(tmp_path, settings, many=3, clock=clock) as staged:
        for fault, each, status in (
            ("503", 3, 502),
            ("reset", 3, 502),
            ("close", 3, 502),
            ("429", 1, 429),
        ):
            for upstream in staged.upstreams:
                upstream.forget()
                upstream.queue(*[fault] * 1000)
            reply = await asked(staged, what)
            assert (status, [each] * 3) == (reply.status, staged.calls), fault
            assert 3 * each == staged.line.attempts
            clock.advance(3600.0)


@pytest.mark.parametrize("what", list(ASKS))
async def test_keys_that_are_refused_are_tried_once_each(tmp_path: Path, what: str) -> None:
    """Then the next provider; and nobody asks with a key at rest again."""
    async with stage(tmp_path, many=2, extra=KEYS, environ=ENVIRON) as staged:
        staged.near.queue("401", "429", "403")
        for round_ in (1, 2):
            assert 200 == (await asked(staged, what)).status
            assert [3, round_] == staged.calls
        keys = {one.headers["authorization"] for one in staged.near.asked}
        assert {"Bearer sk-one", "Bearer sk-two", "Bearer sk-three"} == keys


async def test_a_limit_without_a_time_is_passed_over_too(tmp_path: Path) -> None:
    """429 without Retry-After leads on at once, and keeps requests away for a minute."""
    clock = ManualClock()
    async with stage(tmp_path, many=2, clock=clock) as staged:
        staged.near.queue("429")
        for number in (1, 2):
            assert 200 == (await asked(staged)).status
            assert [1, number] == staged.calls
        clock.advance(60.0)
        assert (200, [2, 2]) == ((await asked(staged)).status, staged.calls)


async def test_the_longer_of_two_waits_counts(tmp_path: Path) -> None:
    """Whichever was asked for first, and whoever was answered between."""
    clock = ManualClock()
    async with stage(tmp_path, clock=clock) as staged:
        for waits in ((1, 30), (30, 1)):
            staged.near.queue(*(f"wait=0.05 429 retry-after={wait}" for wait in waits), "wait=0.1")
            begun = staged.near.calls
            under_way = []
            for number in range(1, 4):
                under_way.append(asyncio.ensure_future(asked(staged)))
                await staged.called(begun + number)
            assert [429, 429, 200] == [(await one).status for one in under_way]
            reply = await asked(staged)
            assert (429, "30") == (reply.status, reply.headers["retry-after"])
            clock.advance(29.9)
            assert (429, "1") == (
                (await asked(staged)).status,
                (await asked(staged)).headers["retry-after"],
            )
            clock.advance(0.2)
            assert 200 == (await asked(staged)).status
            assert begun + 4 == staged.near.calls


@pytest.mark.parametrize("fault", ["429", "429 code=insufficient_quota"])
async def test_a_rest_that_did_not_help_is_longer_the_next_time(tmp_path: Path, fault: str) -> None:
    """A quota used up costs fewer and fewer calls: the end of a rest resets nothing."""
    clock = ManualClock()
    async with stage(tmp_path, clock=clock) as staged:
        rests = []
        for _ in range(5):
            staged.near.queue(fault)
            rests.append(int((await asked(staged)).headers["retry-after"]))
            assert 429 == (await asked(staged)).status
            clock.advance(rests[-1])
        assert [60, 120, 240, 480, 960] == rests
        assert 200 == (await asked(staged)).status
        staged.near.queue(fault)
        assert "60" == (await asked(staged)).headers["retry-after"]
        assert [7] == staged.calls


@pytest.mark.parametrize("what", list(ASKS))
async def test_of_two_hundred_that_wait_one_is_the_probe(tmp_path: Path, what: str) -> None:
    """The others are passed over, or told to come back, until it has reported."""
    clock = ManualClock()
    settings = AT_ONCE + BREAKER
    async with stage(tmp_path, settings, clock=clock) as staged:
        staged.near.queue("503")
        assert 502 == (await asked(staged, what)).status
        assert (503, [1]) == ((await asked(staged, what)).status, staged.calls)
        clock.advance(60.0)
        staged.near.queue("wait=0.3")
        replies = await asyncio.gather(*(asked(staged, what) for _ in range(200)))
        statuses = sorted(reply.status for reply in replies)
        assert [200] + [503] * 199 == statuses
        assert [2] == staged.calls
        assert (200, [3]) == ((await asked(staged, what)).status, staged.calls)


async def test_a_probe_is_a_clients_own_request(tmp_path: Path) -> None:
    """Nobody is asked for a token to find out who is there, neither while it rests nor after."""
    clock = ManualClock()
    async with stage(tmp_path, QUICK + BREAKER, many=2, clock=clock) as staged:
        staged.near.queue("503")
        for number in range(1, 4):
            await asked(staged)
            assert [1, number] == staged.calls
        clock.advance(60.0)
        for path in ("/readyz", "/v1/providers", "/v1/models"):
            await staged.served.get(path)
        assert [1, 3] == staged.calls
        assert 200 == (await staged.served.say("The probe itself.", temperature=0.5)).status
        probe = staged.near.asked[-1].json
        assert ("The probe itself.", 0.5) == (probe["messages"][0]["content"], probe["temperature"])
        assert [] == [name for name in probe if "max" in name]
        assert [2, 3] == staged.calls


@pytest.mark.parametrize("what", list(ASKS))
async def test_a_server_that_fails_at_once_does_not_attract_everybody(
    tmp_path: Path, what: str
) -> None:
    """Five calls in a row find it out, then nobody is sent there."""
    async with stage(tmp_path, AT_ONCE, many=2) as staged:
        staged.near.queue(*["503"] * 1000)
        replies = [await asked(staged, what) for _ in range(50)]
        assert {200} == {reply.status for reply in replies}
        assert [5, 50] == staged.calls


@pytest.mark.parametrize("faults", ["reset=3", "error=4", "hang=3"])
async def test_a_server_that_breaks_every_stream_is_found_out_too(
    tmp_path: Path, faults: str
) -> None:
    """It answers at once and never to the end; after five of those, the next one is asked."""
    async with stage(tmp_path, QUICK + "idle_seconds = 0.02\n", many=2) as staged:
        staged.near.queue(*[faults] * 1000)
        for _ in range(8):
            await asked(staged, "stream")
        assert [5, 3] == staged.calls


@pytest.mark.parametrize("what", list(ASKS))
@pytest.mark.parametrize("wait", [0.1, 60.0])
async def test_the_deadline_holds_over_all_providers_and_repeats(
    tmp_path: Path, what: str, wait: float
) -> None:
    """Slow providers, waits they ask for and repeats are all within it."""
    settings = "[interactive]\ndeadline_seconds = 0.25\nmax_retries = 1\n"
    async with stage(tmp_path, settings, many=3) as staged:
        for upstream in staged.upstreams:
            upstream.queue(*[f"wait={wait} 503 retry-after=0.01"] * 4)
        loop = asyncio.get_running_loop()
        begun = loop.time()
        reply = await asked(staged, what)
        assert loop.time() - begun < 5.0
        assert reply.status in {502, 503, 504}
        assert sum(staged.calls) <= 4
        for upstream in staged.upstreams:
            await upstream.until(lambda one: one.active == 0)


async def test_a_wait_that_would_cross_the_deadline_is_skipped(tmp_path: Path) -> None:
    """A Retry-After of a minute does not eat half a second; the next one is asked at once."""
    settings = "[interactive]\ndeadline_seconds = 5.0\nmax_retries = 2\n"
    async with stage(tmp_path, settings, many=2) as staged:
        staged.near.queue("503 retry-after=60")
        assert (200, [1, 1]) == ((await asked(staged)).status, staged.calls)


@pytest.mark.parametrize("what", list(ASKS))
async def test_a_connection_gone_stale_costs_neither_an_error_nor_a_call(
    tmp_path: Path, what: str
) -> None:
    """A server that closes what it had promised to keep is asked over a new connection, once."""
    async with stage(tmp_path, AT_ONCE) as staged:
        for number in range(1, 6):
            staged.near.queue("close-idle")
            assert 200 == (await asked(staged, what)).status
            await staged.near.until(lambda one: one.open_connections == 0)
            assert (number, number) == (staged.near.calls, staged.near.connections)


@pytest.mark.parametrize("what", list(ASKS))
@pytest.mark.parametrize("fault", ["close", "reset"])
async def test_a_request_that_was_read_is_not_sent_again_in_silence(
    tmp_path: Path, fault: str, what: str
) -> None:
    """Beneath the round nothing is repeated; what the round repeats is counted and told."""
    async with stage(tmp_path, AT_ONCE) as staged:
        await asked(staged, what)
        staged.near.queue(fault)
        reply = await asked(staged, what)
        assert (502, [2], 1) == (reply.status, staged.calls, staged.line.attempts)
    async with stage(tmp_path, "[interactive]\nmax_retries = 1\n", clock=ManualClock()) as staged:
        await asked(staged, what)
        staged.near.queue(fault)
        reply = await asked(staged, what)
        assert (200, [3], 2) == (reply.status, staged.calls, staged.line.attempts)
        assert "2" == reply.headers["x-casework-attempts"]


async def test_when_everybody_rests_the_client_is_told_until_when(tmp_path: Path) -> None:
    """By the first that will be back, and without a call."""
    clock = ManualClock()
    async with stage(tmp_path, many=2, clock=clock) as staged:
        staged.near.queue("429 retry-after=40")
        staged.far.queue("429 retry-after=20")
        for _ in range(3):
            reply = await asked(staged)
            assert (429, "20") == (reply.status, reply.headers["retry-after"])
        clock.advance(5.5)
        assert str(math.ceil(14.5)) == (await asked(staged)).headers["retry-after"]
        assert [1, 1] == staged.calls
