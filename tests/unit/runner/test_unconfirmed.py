"""What is known of rounds whose end nobody saw."""

from __future__ import annotations

import hashlib
from pathlib import Path

from casework.checkpoints.records import operation_hash
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


def _announcement_of(line: Line, operation_id: str) -> Path:
    """Return where the operation's first announcement stands."""
    case = hashlib.sha256(b"case-1").hexdigest()[:16]
    name = f"{case}-{operation_hash(1, operation_id)}.json"
    return line.root / "runtime" / "inflight" / name
