"""A health file tells by what it says and by its age, never by being there."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from casework.gateway.clock import MANUAL_START
from casework.runtime.run.health import Health, HealthFile, WorkerState


def health(state: WorkerState = WorkerState.WAITING) -> Health:
    """Return how a worker stands at the start."""
    return Health(
        state=state,
        worker="w-1",
        pid=1,
        started_at=MANUAL_START,
        updated_at=MANUAL_START,
        running=0,
        next_due_at=None,
        hold=None,
    )


@pytest.fixture(name="file")
def a_file(tmp_path: Path) -> HealthFile:
    """Return where a worker may tell how it is."""
    return HealthFile(tmp_path / "health.json")


@pytest.mark.parametrize("state", [s for s in WorkerState if s is not WorkerState.STOPPED])
def test_a_word_of_now_is_well(file: HealthFile, state: WorkerState) -> None:
    """Whatever a worker does, as long as it says so it is well."""
    file.write(health(state))
    assert None is file.complaint(MANUAL_START + timedelta(seconds=30), 30.0)
    assert [file.path] == list(file.path.parent.iterdir())


@pytest.mark.parametrize("days", [31, -31])
def test_an_old_word_is_not_well_nor_one_of_the_future(file: HealthFile, days: int) -> None:
    """A file of last month, or of a clock that was set, proves nothing."""
    file.write(health())
    complaint = file.complaint(MANUAL_START + timedelta(days=days), 30.0)
    assert complaint is not None
    assert "has not written" in complaint


@pytest.mark.parametrize("content", [b"", b"1", b"{}", b"\xff", b'{"state": "waiting"}'])
def test_what_is_no_health_file_is_not_well(file: HealthFile, content: bytes) -> None:
    """Half a file, a process id or another's JSON says so."""
    file.path.write_bytes(content)
    assert "the file is no health file of this version" == file.complaint(MANUAL_START, 30.0)


def test_a_missing_file_and_a_stopped_worker_are_not_well(file: HealthFile) -> None:
    """Both are told as what they are."""
    assert "there is no health file" == file.complaint(MANUAL_START, 30.0)
    file.write(health(WorkerState.STOPPED))
    assert "the worker has stopped" == file.complaint(MANUAL_START, 30.0)


def test_a_disk_that_refuses_leaves_the_old_word(tmp_path: Path) -> None:
    """A worker does not die of its health file."""
    file = HealthFile(tmp_path / "missing" / "health.json")
    file.write(health())
    assert not file.path.exists()


def test_a_pipe_is_no_health_file_and_stays_a_pipe(file: HealthFile) -> None:
    """What somebody named by mistake is not replaced every two seconds, nor waited for."""
    os.mkfifo(file.path)
    file.write(health())
    assert file.path.is_fifo()
    assert "cannot be read" in str(file.complaint(MANUAL_START, 30.0))
    assert [file.path] == list(file.path.parent.iterdir())
