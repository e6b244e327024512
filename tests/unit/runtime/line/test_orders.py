"""A person's orders: durable, seen by others at once, lifted one by one or all."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from casework.checkpoints.disk import DiskCall, ObservedDisk
from casework.errors import StorageError
from casework.runtime.line.orders import LineOrders

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def test_others_see_an_order_at_once(tmp_path: Path) -> None:
    """Cancelled, lifted in part, then all of it: each process follows."""
    mine, others = LineOrders(tmp_path), LineOrders(tmp_path)
    assert frozenset() == others.cancelled()
    mine.cancel([("a", "x"), ("b", "x")], at=NOON)
    mine.cancel([("c", "x")], at=NOON)
    assert {("a", "x"), ("b", "x"), ("c", "x")} == others.cancelled()
    assert 1 == others.lift([("b", "x"), ("no", "x")])
    assert {("a", "x"), ("c", "x")} == mine.cancelled()
    assert 2 == mine.lift()
    assert frozenset() == others.cancelled()
    assert [] == [path.name for path in (tmp_path / "line").iterdir()]


def test_an_order_within_one_step_of_the_folders_time_is_seen(tmp_path: Path) -> None:
    """Two orders may be given faster than the time of a folder moves on."""
    orders, folder = LineOrders(tmp_path), tmp_path / "line"
    orders.cancel([("a", "x")], at=NOON)
    before = folder.stat()
    assert {("a", "x")} == orders.cancelled()
    LineOrders(tmp_path).cancel([("b", "x")], at=NOON)
    os.utime(folder, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert {("a", "x"), ("b", "x")} == orders.cancelled()


def test_an_order_is_given_once_its_name_is_on_the_disk(tmp_path: Path) -> None:
    """The file is synced before it gets its name, and the folder after that."""
    calls: list[str] = []

    def observe(call: DiskCall, moment: str) -> None:
        if moment == "after":
            calls.append(call.verb)

    LineOrders(tmp_path, ObservedDisk(observe)).pause(at=NOON, reason="")
    assert ["sync_folder", "begin", "write", "sync", "replace", "sync_folder"] == [
        verb for verb in calls if verb != "discard"
    ]


def test_a_pause_keeps_its_reason_and_time(tmp_path: Path) -> None:
    """Until somebody lifts it, which works once."""
    LineOrders(tmp_path).pause(at=NOON, reason="new disk")
    paused = LineOrders(tmp_path).paused()
    assert paused is not None
    assert (NOON, "new disk") == (paused.at, paused.reason)
    assert [True, False] == [LineOrders(tmp_path).resume() for _ in range(2)]
    assert LineOrders(tmp_path).paused() is None


def test_a_torn_cancellation_is_left_out(tmp_path: Path) -> None:
    """What cannot be read cancels nothing and is cleared away with all others."""
    orders = LineOrders(tmp_path)
    orders.cancel([("a", "x")], at=NOON)
    (tmp_path / "line" / "cancelled-0.json").write_bytes(b'{"operations": [["b"')
    assert {("a", "x")} == LineOrders(tmp_path).cancelled()


def test_an_order_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    """A folder that is none, or a store without one, takes no orders."""
    (tmp_path / "line").write_bytes(b"")
    for orders in (LineOrders(tmp_path), LineOrders(None)):
        with pytest.raises(StorageError) as caught:
            orders.pause(at=NOON, reason="")
        assert "order_refused" == caught.value.code
    assert LineOrders(None).paused() is None
