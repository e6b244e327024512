"""A log file is appended to by anybody, rotated by one, and tells what the disk refused."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from casework.errors import LockBusy
from casework.runner.rotated_file import RotatedFile


def rotated(path: Path, *, bytes_max: int = 100, backups: int = 2) -> RotatedFile:
    """Return a small log file."""
    return RotatedFile(path=path, bytes_max=bytes_max, backups=backups, exclusive=nullcontext)


def contents(path: Path) -> dict[str, bytes]:
    """Return what lies beside a log, by name."""
    return {entry.name: entry.read_bytes() for entry in path.parent.iterdir()}


def test_older_files_move_up_and_the_oldest_goes(tmp_path: Path) -> None:
    """The newest lines have the plain name."""
    file = rotated(tmp_path / "a.log")
    for letter in (b"a", b"b", b"c", b"d"):
        assert 60 == file.append(letter * 59 + b"\n")
    assert {
        "a.log": b"d" * 59 + b"\n",
        "a.log.1": b"c" * 59 + b"\n",
        "a.log.2": b"b" * 59 + b"\n",
    } == contents(file.path)


def test_a_torn_line_is_closed_and_does_not_count(tmp_path: Path) -> None:
    """The next line begins on a line of its own."""
    file = rotated(tmp_path / "a.log")
    file.append(b"torn")
    assert 6 == file.append(b"whole\n")
    assert b"torn\nwhole\n" == file.path.read_bytes()


def test_while_another_rotates_the_file_is_only_appended_to(tmp_path: Path) -> None:
    """Nobody waits for a log."""

    def busy() -> AbstractContextManager[object]:
        raise LockBusy("another process rotates")

    file = RotatedFile(path=tmp_path / "a.log", bytes_max=10, backups=2, exclusive=busy)
    file.append(b"12345678\n")
    file.append(b"12345678\n")
    assert {"a.log": b"12345678\n" * 2} == contents(file.path)


def test_what_another_rotated_meanwhile_is_not_rotated_again(tmp_path: Path) -> None:
    """Whoever gets the lock second finds a small file and leaves it."""
    path = tmp_path / "a.log"
    theirs = rotated(path, bytes_max=20)

    def late() -> AbstractContextManager[object]:
        theirs.append(b"their line\n")
        return nullcontext()

    mine = RotatedFile(path=path, bytes_max=20, backups=2, exclusive=late)
    mine.append(b"the first line\n")
    mine.append(b"my line\n")
    assert {"a.log": b"their line\nmy line\n", "a.log.1": b"the first line\n"} == contents(path)


def test_what_the_disk_refuses_is_raised(tmp_path: Path) -> None:
    """So that whoever logs can decide what becomes of the line."""
    (tmp_path / "logs").touch()
    with pytest.raises(OSError, match="logs"):
        rotated(tmp_path / "logs" / "a.log").append(b"line\n")
