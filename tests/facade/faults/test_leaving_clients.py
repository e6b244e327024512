"""Clients that leave: the call for them is closed, the log says so, and nothing is invented."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from tests.facade.faults.stage import CHAT, Stage, asking, stage

RATES = "rates = { input_per_million = 1.0, output_per_million = 2.0 }\n"
TOO_LATE_SECONDS = 5.0
"""When a leave counts as unnoticed; it should take a tenth of a second, and may take one."""

PLACES = {
    "whole, before the head": ("hang", False, b""),
    "whole, in the body": ("hang=body", False, b""),
    "stream, before the head": ("hang", True, b""),
    "stream, before the first word": ("hang=1", True, b""),
    "stream, after the first word": ("hang=3", True, b"said"),
    "stream, before the usage": ("hang=5", True, b'"stop"'),
}
"""Where the upstream falls silent, whether a stream is asked for, and what the client has read."""


async def left(staged: Stage, fault: str, *, stream: bool, read: bytes) -> None:
    """Ask, wait until the call is under way and so much was read, and leave."""
    client = await staged.client()
    calls = staged.near.calls
    client.send(CHAT, asking(f"[[fault:{fault}]]Hello.", stream=stream))
    await staged.near.until(lambda upstream: upstream.calls > calls)
    if read:
        await client.until(read)
    client.leave()


@pytest.mark.parametrize(("fault", "stream", "read"), PLACES.values(), ids=list(PLACES))
async def test_the_call_is_closed_and_the_log_says_why(
    tmp_path: Path, fault: str, read: bytes, *, stream: bool
) -> None:
    """Nobody else is asked, and what is not known is null, with the reason beside it."""
    async with stage(tmp_path, many=2, extra=RATES) as staged:
        await left(staged, fault, stream=stream, read=read)
        await staged.near.until(lambda upstream: len(upstream.departures) == 1)
        assert staged.near.departures[0].after_seconds < TOO_LATE_SECONDS
        await staged.near.until(lambda upstream: upstream.open_connections == 0)
        await staged.logged(1)
        line = staged.line
        assert (499, "client_left", True) == (line.status, line.code, line.client_left)
        assert (None, None, None, None) == (
            *(line.prompt_tokens, line.completion_tokens, line.total_tokens),
            line.cost,
        )
        assert ("auto", [1, 0], 0) == (
            line.asked_model,
            staged.calls,
            staged.served.open_requests.count,
        )


async def test_zero_that_a_server_told_stays_zero(tmp_path: Path) -> None:
    """It is neither replaced by an estimate nor charged, be the client there or gone."""
    async with stage(tmp_path, extra=RATES) as staged:
        for stream in (False, True):
            staged.near.queue("usage=zero")
            await staged.served.say("Hello.", stream=stream)
        client = await staged.client()
        client.send(CHAT, asking("[[fault:usage=zero hang=6]]Hello.", stream=True))
        await client.until(b'"stop"')
        client.leave()
        await staged.logged(3)
        for line in staged.served.lines:
            assert (0, 0, 0) == (line.prompt_tokens, line.completion_tokens, line.total_tokens)
            assert line.cost is not None
            assert 0 == line.cost.amount


async def test_what_a_stream_cost_is_known_when_it_ends(tmp_path: Path) -> None:
    """Whole or streamed, the same tokens cost the same."""
    async with stage(tmp_path, extra=RATES) as staged:
        for stream in (False, True):
            await staged.served.say("Hello.", stream=stream)
        whole, streamed = staged.served.lines
        assert Decimal("0.00001") == (whole.cost.amount if whole.cost else None)
        assert (whole.total_tokens, whole.cost) == (streamed.total_tokens, streamed.cost)
