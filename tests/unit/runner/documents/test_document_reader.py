from __future__ import annotations

import codecs
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from casework.checkpoints.memory_storage import MemoryStorage
from casework.checkpoints.store import CheckpointStore
from casework.errors import ConfigurationError
from casework.runner.documents import (
    IMPORT_RECORD_PATH,
    Document,
    ImportItem,
    ImportOptions,
    ImportRecord,
    ImportTally,
    ProblemCode,
    RecordFields,
    Refusal,
    SkipReason,
    WalkLimits,
    read_documents,
)


def documents(items: Iterable[ImportItem]) -> dict[str, Document]:
    return {item.case_id: item for item in items if isinstance(item, Document)}


def refused(items: Iterable[ImportItem]) -> list[ProblemCode]:
    return [item.problem.code for item in items if isinstance(item, Refusal)]


def codes(document: Document) -> list[ProblemCode]:
    return [problem.code for problem in document.problems]


def text_of(document: Document) -> str:
    record = ImportRecord.parse(document.derived["import.json"])
    if record.files[0].text == record.files[0].original:
        return document.originals[record.files[0].name].decode()
    (content,) = (v for name, v in document.derived.items() if name.startswith("text/"))
    return content.decode()


def test_a_folder_becomes_cases_named_by_their_paths(tmp_path: Path) -> None:
    """Originals are kept byte for byte; ids are relative paths."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.md").write_bytes(b"# B\r\n")
    (tmp_path / "a.txt").write_bytes(b"plain")
    (tmp_path / "noending").write_bytes("Gr\u00fc\u00dfe".encode("utf-16"))
    found = documents(read_documents([tmp_path]))
    assert ["a.txt", "noending", "sub/b.md"] == list(found)
    assert {"b.md": b"# B\r\n"} == found["sub/b.md"].originals
    assert "Gr\u00fc\u00dfe" == text_of(found["noending"])
    assert str(tmp_path / "sub" / "b.md") == found["sub/b.md"].source


def test_the_ids_do_not_depend_on_where_the_folder_lies(tmp_path: Path) -> None:
    """The same tree elsewhere, named in another way, gives the same cases with the same bytes."""
    for name in ("one", "two"):
        (tmp_path / name / "x").mkdir(parents=True)
        (tmp_path / name / "x" / "p.html").write_text("<p>t", encoding="utf-8")
    one = documents(read_documents([tmp_path / "one"]))
    two = documents(read_documents([tmp_path / "one" / ".." / "two"]))
    assert list(one) == list(two)
    assert [(d.originals, d.derived) for d in one.values()] == [
        (d.originals, d.derived) for d in two.values()
    ]


def test_a_plain_text_is_not_stored_twice(tmp_path: Path) -> None:
    """Only a text that differs from its original becomes a product of its own."""
    (tmp_path / "a.txt").write_bytes(b"plain")
    (tmp_path / "b.txt").write_bytes(b"caf\xe9")
    (tmp_path / "c.html").write_bytes(b"<p>page")
    (tmp_path / "d.txt").write_bytes(codecs.BOM_UTF8 + b"marked")
    found = documents(read_documents([tmp_path]))
    assert ["import.json"] == list(found["a.txt"].derived)
    assert "caf\u00e9".encode() == found["b.txt"].derived["text/b.txt.txt"]
    assert b"page\n" == found["c.html"].derived["text/c.html.txt"]
    assert b"marked" == found["d.txt"].derived["text/d.txt.txt"]


def test_what_was_noticed_is_said_and_kept_with_the_case(tmp_path: Path) -> None:
    """Encoding, mark and coverage stand in the case's own record."""
    (tmp_path / "guess.txt").write_bytes(b"a \x96 b\fpage two\f\f")
    (tmp_path / "mark.txt").write_bytes(codecs.BOM_UTF16_LE + "m".encode("utf-16-le"))
    found = documents(read_documents([tmp_path]))
    assert [ProblemCode.ENCODING_GUESSED, ProblemCode.PAGES_EMPTY] == codes(found["guess.txt"])
    assert [ProblemCode.BYTE_ORDER_MARK] == codes(found["mark.txt"])
    record = ImportRecord.parse(found["guess.txt"].derived["import.json"])
    assert ("cp1252", 3, 2) == (
        record.files[0].encoding,
        record.files[0].coverage.pages,
        record.files[0].coverage.pages_with_text,
    )
    assert ["encoding_guessed", "pages_empty"] == [remark.code for remark in record.remarks]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("MX5280-manual.txt", b"", "no readable character"),
        ("MX5280-manual.txt", b" \r\n\f\f\f", "text on 0 of 3 pages"),
        ("MX5280-manual.html", b"<title></title><script>x()</script>", "no readable character"),
        ("scan.txt", b"one\f\f\ffour\f\f", "text on 2 of 5 pages"),
    ],
)
def test_a_document_without_text_is_marked_before_any_call(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    """It becomes a case, visible and counted, that no model is asked about."""
    (tmp_path / name).write_bytes(content)
    document = documents(read_documents([tmp_path]))[name]
    assert document.is_empty
    assert [ProblemCode.EMPTY_INPUT] == codes(document)
    assert document.problems[0].message.startswith(message)


def test_equal_texts_stay_cases_of_their_own(tmp_path: Path) -> None:
    """Three identical documents with ids 1, 2, 3 are three cases, two of them remarked on."""
    path = tmp_path / "c.jsonl"
    path.write_text(
        "".join(f'{{"id": {n}, "text": "same"}}\n' for n in (1, 2, 3)), encoding="utf-8"
    )
    (tmp_path / "other.txt").write_text("same", encoding="utf-8")
    options = ImportOptions(fields=RecordFields("id", "text"))
    found = documents(read_documents([tmp_path], options))
    assert ["1", "2", "3", "other.txt"] == list(found)
    assert [[], *[[ProblemCode.DUPLICATE_TEXT]] * 3] == [codes(d) for d in found.values()]
    assert "has the same text as 1" in found["3"].problems[0].message


def test_a_remark_about_other_documents_is_no_part_of_the_case(tmp_path: Path) -> None:
    """Products depend on the case's own original alone."""
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("same", encoding="utf-8")
    both = documents(read_documents([tmp_path]))
    alone = documents(read_documents([tmp_path / "b.txt"]))
    assert [ProblemCode.DUPLICATE_TEXT] == codes(both["b.txt"])
    assert alone["b.txt"].derived == both["b.txt"].derived


def test_empty_documents_are_no_duplicates_of_each_other(tmp_path: Path) -> None:
    """That they are empty is remark enough."""
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_bytes(b"")
    found = documents(read_documents([tmp_path]))
    assert [[ProblemCode.EMPTY_INPUT]] * 2 == [codes(document) for document in found.values()]


def test_an_id_that_is_taken_is_a_problem_and_not_overwritten(tmp_path: Path) -> None:
    """What came first stays."""
    path = tmp_path / "c.jsonl"
    path.write_text('{"id": 1, "n": 1}\n{"id": "1", "n": 2}\n', encoding="utf-8")
    items = list(read_documents([path], ImportOptions(fields=RecordFields(id_field="id"))))
    assert {"record.json": b'{"id": 1, "n": 1}'} == documents(items)["1"].originals
    assert [ProblemCode.DUPLICATE_ID] == refused(items)


def test_a_bad_line_leaves_the_others_alone(tmp_path: Path) -> None:
    """Each record stands or falls by itself, and the sums are right."""
    path = tmp_path / "c.jsonl"
    path.write_bytes(b'{"a":1}\n{bad\n\n{"a":3}\n[]\n{"a":"\xff"}')
    tally = ImportTally()
    items = list(read_documents([path]))
    for item in items:
        tally.add(item)
    summary = tally.summary()
    assert ["c.jsonl#1", "c.jsonl#4", "c.jsonl#6"] == list(documents(items))
    assert (5, 3, 2) == (summary.found, summary.documents, summary.refused)
    assert {ProblemCode.ENCODING_GUESSED: 1, ProblemCode.RECORD_INVALID: 2} == summary.problems


def test_other_formats_are_refused_with_a_way_out(tmp_path: Path) -> None:
    """What is known to be no text is not read as one, unless somebody says so."""
    (tmp_path / "t.docx").write_text("a,b\n", encoding="utf-8")
    (tmp_path / "x.xlsx").write_bytes(b"PK\x03\x04")
    (tmp_path / "z.bin").write_bytes(b"\0\1\2")
    items = list(read_documents([tmp_path]))
    assert [
        ProblemCode.FORMAT_UNSUPPORTED,
        ProblemCode.BINARY,
        ProblemCode.BINARY,
    ] == refused(items)
    forced = read_documents([tmp_path / "t.docx"], ImportOptions(format="files"))
    assert ["t.docx"] == list(documents(forced))


def test_a_format_can_be_forced(tmp_path: Path) -> None:
    """Endings are a habit, not a law."""
    (tmp_path / "c.txt").write_text('{"a":1}\n{"a":2}\n', encoding="utf-8")
    (tmp_path / "d.jsonl").write_text('{"a":1}\n{"a":2}\n', encoding="utf-8")
    lines = read_documents([tmp_path / "c.txt"], ImportOptions(format="jsonl"))
    assert ["c.txt#1", "c.txt#2"] == list(documents(lines))
    whole = read_documents([tmp_path / "d.jsonl"], ImportOptions(format="files"))
    assert ["d.jsonl"] == list(documents(whole))


def test_an_encoding_can_be_given(tmp_path: Path) -> None:
    """Then nothing is guessed, and what does not fit is refused."""
    (tmp_path / "a.txt").write_bytes("\u041f".encode("cp1251"))
    (tmp_path / "b.jsonl").write_bytes('{"t": "\u041f"}\n'.encode("cp1251"))
    options = ImportOptions(encoding="Windows-1251", fields=RecordFields(text_field="t"))
    found = documents(read_documents([tmp_path], options))
    assert ["\u041f"] * 2 == [text_of(document) for document in found.values()]
    assert [[], [ProblemCode.DUPLICATE_TEXT]] == [codes(document) for document in found.values()]
    strict = list(read_documents([tmp_path], ImportOptions(encoding="utf-8")))
    assert [ProblemCode.ENCODING_UNKNOWN] * 2 == refused(strict)


def test_an_encoding_that_does_not_exist_is_a_mistake_of_the_command() -> None:
    """It is found before the first file is opened."""
    with pytest.raises(ConfigurationError) as caught:
        ImportOptions(encoding="klingon")
    assert "encoding_unknown" == caught.value.code


def test_a_file_given_by_itself_is_named_by_its_name(tmp_path: Path) -> None:
    """Also a hidden one; and a path that leads nowhere is a problem."""
    (tmp_path / ".note").write_text("x", encoding="utf-8")
    items = list(read_documents([tmp_path / ".note", tmp_path / "absent"]))
    assert [".note"] == list(documents(items))
    assert [ProblemCode.NOT_FOUND] == refused(items)


def test_the_same_folder_twice_imports_once(tmp_path: Path) -> None:
    """The second time, every id is taken."""
    (tmp_path / "a.txt").write_text("x", encoding="utf-8")
    items = list(read_documents([tmp_path, tmp_path]))
    assert ["a.txt"] == list(documents(items))
    assert [ProblemCode.DUPLICATE_ID] == refused(items)


def test_limits_are_reached_and_named(tmp_path: Path) -> None:
    """A file over the limit is refused and the next one read."""
    (tmp_path / "big.txt").write_bytes(b"x" * 101)
    (tmp_path / "ok.txt").write_bytes(b"y" * 100)
    items = list(read_documents([tmp_path], ImportOptions(file_bytes_max=100)))
    assert ["ok.txt"] == list(documents(items))
    assert [ProblemCode.TOO_LARGE] == refused(items)


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX names")
def test_an_undecodable_file_name_is_imported_under_a_written_out_id(tmp_path: Path) -> None:
    """The document is not lost over its name."""
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_bytes(b"x")
    (document,) = documents(read_documents([tmp_path])).values()
    assert "caf\\xe9.txt" == document.case_id
    assert [ProblemCode.NAME_ESCAPED] == codes(document)
    assert "\udce9" not in document.source


def test_what_was_passed_over_is_counted(tmp_path: Path) -> None:
    """Hidden and ignored names are no documents and no problems."""
    (tmp_path / ".h").write_text("x", encoding="utf-8")
    (tmp_path / "a.txt").write_text("x", encoding="utf-8")
    tally = ImportTally()
    for item in read_documents([tmp_path], ImportOptions(walk=WalkLimits())):
        tally.add(item)
    summary = tally.summary()
    assert ({SkipReason.HIDDEN: 1}, 1, 1) == (
        summary.skipped,
        summary.found,
        summary.original_bytes,
    )


def test_the_paths_in_the_record_are_those_in_the_package(tmp_path: Path) -> None:
    """The store puts each file where the record says it lies, whatever it is called."""
    names = ["Plain.txt", "CON.html", "x" * 90 + ".txt", "\u00dcber Gr\u00f6\u00dfe .htm", "a.html"]
    for name in names:
        (tmp_path / name).write_bytes(b"<p>caf\xe9")
    store = CheckpointStore(MemoryStorage())
    found = documents(read_documents([tmp_path]))
    for case_id, document in found.items():
        store.create(case_id, document.originals, derived=document.derived)
        record = ImportRecord.parse(store.read_file(case_id, IMPORT_RECORD_PATH))
        (file,) = record.files
        assert b"<p>caf\xe9" == store.read_file(case_id, file.original)
        assert "caf\u00e9" in store.read_file(case_id, file.text).decode()
    assert sorted(names) == sorted(found)


def test_an_export_can_be_imported_again(tmp_path: Path) -> None:
    """Marks of other programs and separators in strings survive the way back."""
    rows = [{"id": f"c{n}", "text": f"line\u2028{n}\u0085\ufeff\r\n"} for n in range(3)]
    body = "".join(json.dumps(row, ensure_ascii=False) + "\r\n" for row in rows)
    (tmp_path / "export.jsonl").write_bytes(codecs.BOM_UTF8 + body.encode())
    options = ImportOptions(fields=RecordFields("id", "text"))
    found = documents(read_documents([tmp_path], options))
    assert [row["text"] for row in rows] == [text_of(document) for document in found.values()]


PROGRAM = """
import resource, sys
from pathlib import Path
from casework.runner.documents import ImportTally, read_documents
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
tally = ImportTally()
for item in read_documents([Path(sys.argv[1])]):
    tally.add(item)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(tally.summary().documents, (after - before) // 1024)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs getrusage")
def test_ten_thousand_files_stream_through_little_memory(tmp_path: Path) -> None:
    """At least 1,000 small files a second of processor time, and no corpus in memory."""
    for folder in range(100):
        (tmp_path / f"{folder:02}").mkdir()
        for number in range(100):
            path = tmp_path / f"{folder:02}" / f"{number:02}.txt"
            path.write_bytes(b"report %d of %d\n" % (number, folder) + b"word " * 1000)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    found, megabytes = map(int, done.stdout.split())
    assert 10_000 == found
    assert 30 > megabytes
    assert 10 > seconds, f"{seconds:.1f} s of processor, {time.monotonic() - started:.1f} s"
