from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.errors import StorageError
from casework.runner import failure_log, failure_log_reader
from casework.runner.failure_log import FailureLog
from casework.runner.failure_log_reader import FailureLogReader
from casework.strict_json import JSON

BEGAN = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def write(path: Path, *numbers: int) -> None:
    log = FailureLog(path, exclusive=nullcontext)
    for number in numbers:
        fields: dict[str, JSON] = {"n": number, "text": "x" * 40}
        log.write("round_failed", at=BEGAN + timedelta(seconds=number), fields=fields)


def numbers(path: Path) -> list[object]:
    return [line.fields["n"] for line in FailureLogReader(path).lines()]


def test_rotated_files_are_read_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest line comes first, through all backups, and nothing twice."""
    monkeypatch.setattr(failure_log, "LOG_BYTES_MAX", 600)
    path = tmp_path / "logs" / "llm.jsonl"
    write(path, *range(18))
    assert 4 == len(list(path.parent.iterdir()))
    found = numbers(path)
    assert list(range(18))[-len(found) :] == found
    assert 10 < len(found)


def test_a_torn_line_is_skipped_and_counted(tmp_path: Path) -> None:
    """What a power loss cut off costs that line, and no line after it."""
    path = tmp_path / "llm.jsonl"
    write(path, 1)
    content = path.read_bytes()
    path.write_bytes(content + content[:30])
    write(path, 2)
    reader = FailureLogReader(path)
    assert [1, 2] == [line.fields["n"] for line in reader.lines()]
    assert 1 == reader.skipped


@pytest.mark.parametrize(
    "line",
    [
        b"\x00\x00\x00",
        b"{}",
        b"[1]",
        b'{"event":"x","ts":"yesterday"}',
        b'{"event":1,"ts":"2026-01-02T03:04:05Z"}',
        b'{"ts":"2026-01-02T03:04:05Z"}',
        b'{"event":"x","event":"y","ts":"2026-01-02T03:04:05Z"}',
        b"\xff\xfe",
    ],
)
def test_a_damaged_line_is_skipped_and_counted(tmp_path: Path, line: bytes) -> None:
    """Whatever stands there instead of an event."""
    path = tmp_path / "llm.jsonl"
    write(path, 1)
    path.write_bytes(line + b"\n" + path.read_bytes() + line)
    reader = FailureLogReader(path)
    assert [1] == [found.fields["n"] for found in reader.lines()]
    assert 2 == reader.skipped


@given(st.integers(0, 400), st.integers(1, 60))
def test_at_most_the_damaged_lines_are_lost(
    tmp_path_factory: pytest.TempPathFactory, at: int, size: int
) -> None:
    """Bytes overwritten anywhere cost the lines that they lie in."""
    path = tmp_path_factory.mktemp("log") / "llm.jsonl"
    write(path, *range(10))
    content = path.read_bytes()
    hurt = content[:at] + b"\x00" * size + content[at + size :]
    path.write_bytes(hurt)
    intact = [n for n, line in enumerate(content.split(b"\n")[:-1]) if line in hurt.split(b"\n")]
    assert intact == numbers(path)


def test_times_and_events_are_read(tmp_path: Path) -> None:
    """A line knows when it was written and what happened."""
    write(tmp_path / "llm.jsonl", 7)
    (line,) = FailureLogReader(tmp_path / "llm.jsonl").lines()
    assert (BEGAN + timedelta(seconds=7), "round_failed") == (line.at, line.event)


def test_no_log_is_no_error(tmp_path: Path) -> None:
    """A project without failures has none."""
    assert [] == numbers(tmp_path / "llm.jsonl")


def test_a_file_that_a_rotation_moved_meanwhile_is_read_once(tmp_path: Path) -> None:
    """It is known by its identity, not by its name."""
    path = tmp_path / "llm.jsonl"
    write(path, 1)
    path.with_name("llm.jsonl.1").hardlink_to(path)
    assert [1] == numbers(path)


def test_a_file_that_is_too_long_is_read_from_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Memory is bounded whatever lies there; the line that is cut counts as skipped."""
    path = tmp_path / "llm.jsonl"
    write(path, *range(10))
    monkeypatch.setattr(failure_log_reader, "FILE_BYTES_MAX", len(path.read_bytes()) // 4)
    reader = FailureLogReader(path)
    assert [8, 9] == [line.fields["n"] for line in reader.lines()]
    assert 1 == reader.skipped


def test_a_folder_in_the_place_of_the_log_is_named(tmp_path: Path) -> None:
    """One line, no traceback."""
    with pytest.raises(StorageError) as caught:
        numbers(tmp_path)
    assert str(tmp_path) == caught.value.where
