"""What is known of rounds whose end nobody saw."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from casework.checkpoints.records import operation_hash
from casework.config.providers import ProviderConfig
from casework.errors import LimitReached
from casework.gateway.call_gate import AtLimit
from casework.runner.exposure import exposures
from casework.runner.operation import ResultStatus
from tests.support.scripted_line import GOOD, Line, objects


async def test_an_announcement_that_cannot_be_read_is_named_all_the_same(tmp_path: Path) -> None:
    """Somebody was about to be asked; who it was is unknown, and that is said."""
    line = Line(tmp_path, {"a": [GOOD]})
    head = line.add()
    await line.run(head, "other")
    (tmp_path / "runtime" / "inflight").mkdir(exist_ok=True)
    line.clock.advance(1)
    torn = _announcement_of(line, "extract")
    torn.write_bytes(b"{")
    assert ResultStatus.SUCCESS is (await line.run(head)).status
    starts = [s for o in line.outcomes() for s in objects(o["unconfirmed"])]
    assert ["unknown"] == [t["provider"] for s in starts for t in objects(s["targets"])]
    assert [("extract", "unknown")] == [
        (row.operation_id, row.provider)
        for row in exposures(line.store, head.case_id)
        if not row.confirmed
    ]


class _Gate:
    """Does at each call what stands next on its list."""

    def __init__(self, *steps: str) -> None:
        self._steps = list(steps)

    def bounds(self, provider: ProviderConfig) -> bool:
        """Tell that every provider is looked at."""
        return True

    @asynccontextmanager
    async def call(self, provider: ProviderConfig) -> AsyncIterator[AtLimit | None]:
        """Let through, refuse, or break off as a crash would."""
        step = self._steps.pop(0) if self._steps else "open"
        if step == "crash":
            raise asyncio.CancelledError
        yield AtLimit(5.0) if step == provider.id else None


async def test_a_round_that_asked_nobody_leaves_no_trace(tmp_path: Path) -> None:
    """At a limit nothing is committed and nothing stays announced."""
    line = Line(tmp_path, {"a": [GOOD]})
    head = line.add()
    line.gateway._gate = _Gate("a")
    with pytest.raises(LimitReached):
        await line.run(head)
    assert () == line.store.inflight.list()
    assert head.generation == line.store.open(head.case_id).generation
    result = await line.run(head)
    assert (ResultStatus.SUCCESS, 1) == (result.status, result.rounds_completed)
    assert [[]] == [outcome["unconfirmed"] for outcome in line.outcomes()]


async def test_what_a_crash_cut_off_stays_announced_at_a_limit(tmp_path: Path) -> None:
    """Only the start that asked nobody is taken back."""
    line = Line(tmp_path, {"a": [GOOD]})
    head = line.add()
    line.gateway._gate = _Gate("crash", "crash", "a", "a")
    for _ in range(2):
        with pytest.raises(asyncio.CancelledError):
            await line.run(head)
        line.clock.advance(1)
    (cut_off,) = line.store.inflight.list()
    for _ in range(2):
        with pytest.raises(LimitReached):
            await line.run(head)
        assert (cut_off,) == line.store.inflight.list()
    await line.run(head)
    starts = [objects(outcome["unconfirmed"]) for outcome in line.outcomes()]
    assert [2] == [len(found) for found in starts]


def _announcement_of(line: Line, operation_id: str) -> Path:
    """Return where the operation's first announcement stands."""
    case = hashlib.sha256(b"case-1").hexdigest()[:16]
    name = f"{case}-{operation_hash(1, operation_id)}.json"
    return line.root / "runtime" / "inflight" / name
