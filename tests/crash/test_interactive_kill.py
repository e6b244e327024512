"""A service is killed at every step of calls that are kept, and their keys are sent again."""

from __future__ import annotations

import asyncio
import json
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from casework.checkpoints.disk import Disk
from casework.checkpoints.store import CheckpointStore
from casework.checkpoints.verify import verify
from casework.gateway.clock import ManualClock
from casework.runner.exposure import exposures
from tests.crash.call_steps import KEYS
from tests.crash.scenario import calls_noted, open_store
from tests.crash.zygote import Zygote
from tests.support.command_line import COMMAND, ROOT, child_environment
from tests.support.raw_server import Connection, RawServer, chat


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    """Return a running zygote."""
    process = Zygote("tests.crash.call_steps")
    yield process
    process.close()


def check_packages(root: Path) -> None:
    """Demand that the oracle accepts every package as it lies there."""
    for record in root.glob("runtime/cases/*/*/commits/0000000001.json"):
        report = verify(record.parent.parent)
        assert report.ok, report.findings


def check_settled(root: Path) -> None:
    """Demand that no call was repeated without need, and that each repetition is named."""
    check_packages(root)
    noted = Counter(calls_noted(root / "calls.txt"))
    assert set(KEYS) == set(noted)
    store = open_store(root, Disk(), ManualClock())
    assert {f"call:alice:{key}" for key in KEYS} == set(store.list())
    for key, needed in KEYS.items():
        rows = list(exposures(store, f"call:alice:{key}"))
        unconfirmed = sum(not row.confirmed for row in rows)
        assert noted[key] - needed <= unconfirmed <= 1, key
        assert needed <= len(rows), key
    assert sum(noted.values()) <= sum(KEYS.values()) + 1


def test_no_kill_loses_a_reply_or_repeats_a_call_unnamed(zygote: Zygote, tmp_path: Path) -> None:
    """At every step: packages verify, the same key succeeds, and a repeated call is named."""
    whole = tmp_path / "whole"
    whole.mkdir()
    exited, steps = zygote.play(whole, 0)
    assert (0, True) == (exited, steps > 100)
    check_settled(whole)
    for step in range(1, steps + 1, 2):  # the disk is the same after a call and before the next
        root = tmp_path / f"step-{step}"
        root.mkdir()
        exited, _ = zygote.play(root, 0, kill_at=step)
        assert -signal.SIGKILL == exited
        check_packages(root)
        exited, _ = zygote.play(root, 1)
        assert 0 == exited
        check_settled(root)
        before = calls_noted(root / "calls.txt")
        exited, _ = zygote.play(root, 2)
        assert (0, before) == (exited, calls_noted(root / "calls.txt"))


@asynccontextmanager
async def service(project: Path) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """Run ``casework serve`` in a child; give it and the address of its chat route."""
    child = await asyncio.create_subprocess_exec(
        *COMMAND,
        *("serve", "--port", "0", "--json", "--quiet", "--project", str(project)),
        stdout=asyncio.subprocess.PIPE,
        env=child_environment(),
        cwd=ROOT,
    )
    try:
        assert child.stdout is not None
        told = b""
        while not told.rstrip().endswith(b"}"):
            line = await child.stdout.readline()
            assert line, "the service ended"
            told += line
        yield child, json.loads(told)["url"] + "/v1/chat/completions"
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()


async def stall(connection: Connection) -> None:
    """Say nothing until the client is gone."""
    await connection.wait_until_gone()


async def test_a_key_outlives_the_service_that_is_killed_in_its_call(tmp_path: Path) -> None:
    """The call that nobody saw the end of is named; the key is answered once, and again."""
    body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    headers = {"Idempotency-Key": "k-1"}
    (tmp_path / "config").mkdir()
    async with RawServer([stall, chat("yes")]) as upstream, aiohttp.ClientSession() as session:
        (tmp_path / "config" / "llm.local.toml").write_text(
            "[models]\ndiscover = false\n[[providers]]\n"
            f'id = "near"\nadapter = "openai_compatible"\nmodel = "m"\n'
            f'base_url = "{upstream.base_url}"\n',
            encoding="utf-8",
        )
        async with service(tmp_path) as (child, url):
            call = asyncio.ensure_future(session.post(url, json=body, headers=headers))
            await upstream.asked.wait()
            child.send_signal(signal.SIGKILL)
            with pytest.raises(aiohttp.ClientError):
                await call
        store = CheckpointStore(tmp_path / "runtime")
        rows = list(exposures(store, "call:anonymous:k-1"))
        assert [("near", False)] == [(row.provider, row.confirmed) for row in rows]
        replies = []
        for _ in range(2):
            async with (
                service(tmp_path) as (_, url),
                session.post(url, json=body, headers=headers) as reply,
            ):
                replies.append((reply.status, await reply.read()))
    assert 200 == replies[0][0]
    assert replies[0] == replies[1]
    assert 2 == len(upstream.heard)
    check_packages(tmp_path)
