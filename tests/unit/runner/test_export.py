from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from casework.checkpoints.disk import Disk, Draft
from casework.errors import StorageError
from casework.gateway.messages import Cost, Usage
from casework.runner.documents import Document, ImportOptions, RecordFields, read_documents
from casework.runner.export import ExportRow, jsonl_lines, write_lines
from casework.strict_json import JSON, parse


def row(case_id: str = "c", output: JSON = None) -> ExportRow:
    return ExportRow(
        case_id=case_id,
        package_id="p",
        generation=2,
        analysis_revision=1,
        operation_id="o",
        status="SUCCESS",
        output=output,
    )


def test_a_row_tells_where_it_came_from() -> None:
    """Every member has its place, and the order never changes."""
    full = ExportRow(
        case_id="c",
        package_id="p",
        generation=3,
        analysis_revision=1,
        operation_id="o",
        status="SUCCESS",
        output={"a": 1},
        output_sha256="d0",
        provider="local",
        model="m",
        provider_class="local",
        prompt_version="v",
        prompt_sha256="d1",
        request_fingerprint="d2",
        config_fingerprint="d3",
        rounds_completed=2,
        started_at=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        elapsed_ms=12,
        usage=Usage(10, None, None),
        cost=Cost(Decimal("0.0010"), "USD"),
    )
    (line,) = jsonl_lines([full])
    value = json.loads(line)
    assert list(row().to_json()) == list(value)
    assert {"prompt_tokens": 10, "completion_tokens": None, "total_tokens": None} == value["usage"]
    assert {"amount": "0.0010", "currency": "USD"} == value["cost"]
    assert ("2026-01-02T03:04:05Z", "local", 2) == (
        value["started_at"],
        value["class"],
        value["rounds_completed"],
    )


def test_what_is_not_known_is_null() -> None:
    """An unknown cost is no cost of zero."""
    (line,) = jsonl_lines([row()])
    value = json.loads(line)
    assert [None] * 5 == [value[n] for n in ("cost", "usage", "model", "elapsed_ms", "error")]


@pytest.mark.parametrize("letter", ["\u2028", "\u2029", "\u0085", "\r\n", "\x0b", "\x0c", "\x1c"])
def test_a_row_is_one_line_for_every_reader(letter: str) -> None:
    """Also for those that split at every character which Unicode calls a line end."""
    (line,) = jsonl_lines([row(output={"q": f"a{letter}b", letter: 1})])
    assert 1 == len(line.decode().splitlines())
    value = parse(line.rstrip(b"\n"))
    assert isinstance(value, dict)
    assert {"q": f"a{letter}b", letter: 1} == value["output"]


def test_an_export_can_be_imported_as_cases(tmp_path: Path) -> None:
    """Ids and texts come back as they went out."""
    rows = [row(f"id {n}", f"text\u2028 {n} \u00e9\r\n\t\"'") for n in range(3)]
    path = tmp_path / "out.jsonl"
    assert 3 == write_lines(path, jsonl_lines(rows))
    options = ImportOptions(fields=RecordFields("case_id", "output"))
    back = [item for item in read_documents([path], options) if isinstance(item, Document)]
    assert [(r.case_id, str(r.output).encode()) for r in rows] == [
        (document.case_id, document.derived["text/record.json.txt"]) for document in back
    ]


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    """The new bytes take the place of the old ones, and nothing else is left lying."""
    path = tmp_path / "out.jsonl"
    path.write_bytes(b"a much longer old text\n" * 10)
    assert 2 == write_lines(path, [b"1\n", b"2\n"])
    assert b"1\n2\n" == path.read_bytes()
    assert [path] == list(tmp_path.iterdir())


def test_an_export_of_nothing_is_an_empty_file(tmp_path: Path) -> None:
    """No rows are no error."""
    assert 0 == write_lines(tmp_path / "out", [])
    assert b"" == (tmp_path / "out").read_bytes()


def test_rows_that_fail_half_way_leave_the_old_file(tmp_path: Path) -> None:
    """A reader never sees half an export."""
    path = tmp_path / "out"
    path.write_bytes(b"old")

    def lines() -> Iterator[bytes]:
        yield b"new\n"
        raise LookupError

    with pytest.raises(LookupError):
        write_lines(path, lines())
    assert b"old" == path.read_bytes()
    assert [path] == list(tmp_path.iterdir())


class FullDisk(Disk):
    def write(self, draft: Draft, content: bytes) -> None:
        raise OSError(28, "No space left on device")


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    """The error says what happened and that nothing changed."""
    path = tmp_path / "out"
    path.write_bytes(b"old")
    with pytest.raises(StorageError, match="No space left") as caught:
        write_lines(path, [b"new"], disk=FullDisk())
    assert str(path) == caught.value.where
    assert b"old" == path.read_bytes()
    assert [path] == list(tmp_path.iterdir())


def test_a_folder_that_does_not_exist_is_named(tmp_path: Path) -> None:
    """A mistyped path is no traceback."""
    with pytest.raises(StorageError):
        write_lines(tmp_path / "absent" / "out", [b"x"])


def test_what_is_no_file_is_never_replaced_by_one(tmp_path: Path) -> None:
    """A pipe or a device named as the target stays what it is, and nothing is written."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    link = tmp_path / "link"
    link.symlink_to(pipe)
    for path in (pipe, link):
        with pytest.raises(StorageError, match="a device or a pipe"):
            write_lines(path, [b"x"])
    with pytest.raises(StorageError, match="directory"):
        write_lines(tmp_path, [b"x"])
    assert [True, True] == [path.is_fifo() for path in (pipe, link)]
    assert {pipe, link} == set(tmp_path.iterdir())


def test_a_link_stays_and_its_file_is_replaced(tmp_path: Path) -> None:
    """Whoever keeps a link to the newest export keeps it, also one that leads to nothing yet."""
    real, link = tmp_path / "real", tmp_path / "link"
    link.symlink_to(real)
    for content in (b"first", b"second"):
        write_lines(link, [content])
        assert content == real.read_bytes()
        assert link.is_symlink()
