from __future__ import annotations

import io
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from casework.checkpoints.memory_storage import MemoryStorage
from casework.checkpoints.store import CheckpointStore
from casework.errors import FormatError
from casework.runner.case_builder import CaseBuilder, rebuild
from casework.runner.documents import (
    Document,
    ImportOptions,
    Reading,
    RecordFields,
    read_documents,
)
from casework.runner.documents.document_reader import read_stream
from tests.support.pdf_files import make_pdf

FIELDS = RecordFields("id", "text")
TEXT = "a \u2013 e\u0301\f\f\x07\r\n"
RECORD = json.dumps({"id": 1, "text": f"{TEXT}\ud83d", "k": ""})

FILES: Mapping[str, tuple[bytes, ImportOptions]] = {
    "plain.txt": (TEXT.encode(), ImportOptions()),
    "guess.txt": (b"caf\xe9 \x96", ImportOptions()),
    "mark.md": (TEXT.encode("utf-16"), ImportOptions()),
    "given.txt": ("\u041f".encode("cp1251"), ImportOptions(encoding="cp1251")),
    "page.HTML": (b"<meta charset=koi8-r><p>\xd0", ImportOptions()),
    "whole.jsonl": (f"{RECORD}\n".encode("utf-8-sig"), ImportOptions()),
    "field.jsonl": (f"{RECORD}\n{{}}".encode("utf-16"), ImportOptions(fields=FIELDS)),
    "old.jsonl": (b'{"id": 1, "text": "\x96"}', ImportOptions(fields=FIELDS)),
    "rows.csv": (b'id,text\r\n1,"a\n\xe9"\r\n2,\n', ImportOptions()),
    "wide.csv": ("id;text\n1;\u00e9\n".encode("utf-16"), ImportOptions(fields=FIELDS)),
    "array.json": ('[{"id": 1, "text": "\u2013"}]'.encode("utf-16"), ImportOptions(fields=FIELDS)),
    "object.json": (b'{"id": 1, "text": "\x96"}', ImportOptions(fields=FIELDS)),
    "doc.pdf": (make_pdf(["one", "", "three"]), ImportOptions(encoding="cp1252")),
    "m.eml": (b"Subject: =?x?q?=E9?=\n\n\xe9", ImportOptions()),
    "m.mbox": (
        b"From x\nSubject: s\n\n>From y\n\nFrom z\n\n\xe9",
        ImportOptions(encoding="cp1251"),
    ),
    "rows.tsv": (
        "id\ttext\n1\t\u00e9,\n".encode("cp949", "ignore"),
        ImportOptions(encoding="cp949"),
    ),
}


def imported(name: str) -> list[Document]:
    content, options = FILES[name]
    items = read_stream(io.BytesIO(content), name, options)
    return [item for item in items if isinstance(item, Document)]


@pytest.mark.parametrize("name", FILES)
def test_an_import_can_be_made_again_from_the_originals(name: str) -> None:
    """From the package's originals come, byte for byte, the products that the import stored."""
    store = CheckpointStore(MemoryStorage())
    documents = imported(name)
    assert documents
    for document in documents:
        store.create(document.case_id, document.originals, derived=document.derived)
        again = rebuild(store, document.case_id)
        assert document.derived == again
        stored = {f.path for f in store.files(document.case_id) if f.path.startswith("case/")}
        assert len(stored) == len(again)


def test_files_are_read_as_their_names_say(tmp_path: Path) -> None:
    """Without decisions of the user, a builder needs nothing but names and bytes."""
    for name, content in (("a.html", b"<p>x"), ("b.txt", b"caf\xe9")):
        (tmp_path / name).write_bytes(content)
    for item in read_documents([tmp_path]):
        assert isinstance(item, Document)
        assert item.derived == CaseBuilder().build(item.originals)


def test_several_originals_keep_the_order_of_their_readings() -> None:
    """However the originals are listed, the report is the same."""
    readings = {"z.txt": Reading(media="text"), "a.html": Reading(media="html")}
    builder = CaseBuilder(readings)
    one = builder.build({"a.html": b"<p>a", "z.txt": b""})
    two = builder.build({"z.txt": b"", "a.html": b"<p>a"})
    assert one == two
    report = json.loads(one["import.json"])
    assert ["z.txt", "a.html"] == [file["name"] for file in report["files"]]
    assert ["pages_empty"] == [remark["code"] for remark in report["remarks"]]
    assert one == CaseBuilder.recorded(one["import.json"]).build({"z.txt": b"", "a.html": b"<p>a"})


def test_the_report_says_what_is_unusual() -> None:
    """Line ends, controls, normal form, replaced halves and empty pages, and nothing is changed."""
    (document,) = imported("field.jsonl")
    report = json.loads(document.derived["import.json"])
    (file,) = report["files"]
    expected = {
        "encoding": "utf-16-le",
        "encoding_given": "utf-16-le",
        "text_field": "text",
        "line_feeds": 0,
        "line_end_pairs": 1,
        "carriage_returns": 0,
        "control_characters": 1,
        "normal_form": "nfd",
        "pages": 3,
        "pages_with_text": 1,
        "pages_without_text": [2, 3],
        "surrogates_replaced": 1,
    }
    text = document.derived["text/record.json.txt"].decode()
    assert f"{TEXT}\ufffd" == text
    assert expected == {name: file[name] for name in expected}


def test_what_is_missing_or_unreadable_is_named() -> None:
    """Products are never made from half of the originals."""
    builder = CaseBuilder({"a.txt": Reading(media="text")})
    with pytest.raises(FormatError) as caught:
        builder.build({"b.txt": b"x"})
    assert ("not_found", "a.txt") == (caught.value.code, caught.value.where)
    with pytest.raises(FormatError) as caught:
        builder.build({"a.txt": b"\0"})
    assert ("binary", "a.txt") == (caught.value.code, caught.value.where)
    with pytest.raises(FormatError):
        CaseBuilder().build({})
    with pytest.raises(FormatError):
        CaseBuilder.recorded(b"{}")
