"""A provider whose streams break off is left alone like one that cannot be reached."""

from __future__ import annotations

from pathlib import Path

from tests.facade.serving import facade, provider
from tests.support.fault_upstream.server import FaultUpstream


async def test_streams_that_break_open_the_breaker(tmp_path: Path) -> None:
    """After two broken streams in a row the third request goes to the next provider."""
    async with FaultUpstream() as first, FaultUpstream() as second:
        first.queue(*["reset=4"] * 2)
        settings = (
            provider("one", first.base_url)
            + provider("two", second.base_url)
            + "[breaker]\nfailures = 2\n[models]\ndiscover = false\n"
        )
        async with facade(settings, tmp_path) as served:
            for _ in range(2):
                broken = await served.say("Count to nine, please.", stream=True)
                assert "error" in broken.events[-1]
            whole = await served.say("Count to nine, please.", stream=True)
            assert "[DONE]" == whole.events[-1]
        assert (2, 1) == (first.calls, second.calls)
