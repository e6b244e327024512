from __future__ import annotations

import json

import pytest

from casework.errors import FormatError
from casework.runner.documents.coverage import Coverage
from casework.runner.documents.import_record import ImportedFile, ImportRecord, Remark
from casework.runner.documents.media import Reading
from casework.runner.documents.text_report import TextReport

RECORD = ImportRecord(
    (
        ImportedFile(
            name="A.html",
            original="original/a~1.html",
            text="case/text/a~1.txt",
            reading=Reading(media="html", encoding="cp1252", text_field="t"),
            encoding="cp1252",
            byte_order_mark=False,
            coverage=Coverage(5, 2, 1),
            report=TextReport(line_feeds=3, normal_form="mixed", pages_without_text=(2,)),
            reader="reader 1.0",
        ),
    ),
    (Remark("encoding_guessed", "A.html", "guessed"), Remark("name_escaped", None, "escaped")),
)


def test_a_record_reads_back_as_it_was_written() -> None:
    """Every field survives, and the bytes are always the same."""
    assert RECORD == ImportRecord.parse(RECORD.to_bytes())
    assert RECORD.to_bytes() == ImportRecord.parse(RECORD.to_bytes()).to_bytes()


@pytest.mark.parametrize(
    "change",
    [
        {"format": "case-import/1"},
        {"files": None},
        {"files": [1]},
        {"files": [{}]},
        {"remarks": {}},
        {"remarks": [{"code": "x", "message": "y"}]},
        {"remarks": [{"code": "x", "file": 1, "message": "y"}]},
        {"remarks": [{"code": 1, "file": None, "message": "y"}]},
    ],
)
def test_an_odd_record_is_refused(change: dict[str, object]) -> None:
    """Nothing is guessed about a record of another make."""
    content = {**json.loads(RECORD.to_bytes()), **change}
    with pytest.raises(FormatError):
        ImportRecord.parse(json.dumps(content).encode())


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("media", "film"),
        ("pages", -1),
        ("pages", True),
        ("text", None),
        ("normal_form", "nfkc"),
        ("pages_without_text", None),
        ("pages_without_text", ["1"]),
        ("reader", 7),
        ("encoding_given", 7),
        ("control_characters", None),
    ],
)
def test_an_odd_file_entry_is_refused(member: str, value: object) -> None:
    """Each member has its kind."""
    content = json.loads(RECORD.to_bytes())
    content["files"][0][member] = value
    with pytest.raises(FormatError):
        ImportRecord.parse(json.dumps(content).encode())


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b'{"format": "case-import/2"}'])
def test_other_bytes_are_refused(content: bytes) -> None:
    """A torn or foreign file is no record."""
    with pytest.raises(FormatError):
        ImportRecord.parse(content)
