from __future__ import annotations

import codecs
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.runner.documents import (
    Document,
    ImportItem,
    ImportOptions,
    ProblemCode,
    RecordFields,
    Refusal,
)
from casework.runner.documents.document_reader import read_stream
from casework.runner.documents.import_options import ImportFormat


def imported(
    content: bytes | str, form: ImportFormat = "auto", fields: RecordFields | None = None
) -> list[ImportItem]:
    data = content.encode() if isinstance(content, str) else content
    options = ImportOptions(format=form, fields=fields or RecordFields())
    return list(read_stream(io.BytesIO(data), "a.json", options))


def outcome(items: list[ImportItem]) -> list[str]:
    return [
        item.case_id
        if isinstance(item, Document)
        else f"{item.problem.where} {item.problem.code}"
        if isinstance(item, Refusal)
        else ""
        for item in items
    ]


def test_each_object_of_an_array_is_a_case() -> None:
    """Its bytes are kept as they stand; ids are numbers, places are lines."""
    content = '[\n {"a": 1},\n\n {"b":\n [2]} ]\n'
    first, second = imported(content)
    assert isinstance(first, Document)
    assert isinstance(second, Document)
    assert ["a.json#1", "a.json#2"] == outcome([first, second])
    assert ["a.json:2", "a.json:4"] == [first.source, second.source]
    assert {"record.json": b'{"b":\n [2]}'} == second.originals


@pytest.mark.parametrize("content", ['{"a": [1]}', "[1, 2]", "[]", '"x"', "no json [", "", "[\n"])
def test_any_other_json_file_stays_one_case(content: str) -> None:
    """Only an array of objects is a file of many records."""
    (item,) = imported(content)
    assert isinstance(item, Document)
    assert {"a.json": content.encode()} == item.originals


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ('[{"a":1},\n{"a":1,"a":2},\n{"a":NaN},\n{}]', ["#1", ":2", ":3", "#4"]),
        ('[{},\n3,\n"x",\n{"a":1e999}]', ["#1", ":2", ":3", ":4"]),
        ('[{},\n{},\n{"a"}, {}]', ["#1", "#2", ":3"]),
        ("[{},\n]", ["#1", ":2"]),
        ("[{}\n{}]", ["#1", ":2"]),
        ("[{},\n\n", ["#1", ":3"]),
        ("[{}]\n\nx", ["#1", ":3"]),
        ("[{}, " + '{"a":' * 3000 + "1" + "}" * 3000 + "]", ["#1", ":1"]),
        ("[{}, " + "[" * 200_000, ["#1", ":1"]),
        ('[{"n":' + "1" * 5000 + "}, {}]", [":1", "#2"]),
    ],
)
def test_what_is_wrong_is_named_with_its_line(content: str, expected: list[str]) -> None:
    """An element stands or falls by itself; where the array breaks, reading ends and says so."""
    names = [
        f"a.json{e}" if e.startswith("#") else f"a.json{e} {ProblemCode.RECORD_INVALID}"
        for e in expected
    ]
    assert names == outcome(imported(content))


def test_a_format_that_is_given_makes_every_array_one_of_records() -> None:
    """Then elements that are no objects are problems; an object stays one case."""
    assert ["a.json:1 record_invalid"] * 2 == outcome(imported("[1, 2]", "json"))
    assert [] == imported("[]", "json")
    assert ["a.json"] == outcome(imported("{}", "json"))
    assert ["a.json"] == outcome(imported('[{"a":1}]', "files"))


@pytest.mark.parametrize(
    ("codec", "mark", "remarks"),
    [
        ("utf-8", b"", []),
        ("utf-8", codecs.BOM_UTF8, [ProblemCode.BYTE_ORDER_MARK]),
        ("utf-16-le", codecs.BOM_UTF16_LE, [ProblemCode.BYTE_ORDER_MARK]),
        ("cp1252", b"", [ProblemCode.ENCODING_GUESSED]),
    ],
)
def test_encodings_are_those_of_other_files(
    codec: str, mark: bytes, remarks: list[ProblemCode]
) -> None:
    """A mark is told once, and a guess for each record that needs one."""
    content = mark + '[{"id": "x", "t": "\u00e9\u2013"}, {"id": 7, "t": "b"}]'.encode(codec)
    first, second = imported(content, fields=RecordFields("id", "t"))
    assert isinstance(first, Document)
    assert isinstance(second, Document)
    assert ["x", "7"] == [first.case_id, second.case_id]
    assert "\u00e9\u2013" == first.derived["text/record.json.txt"].decode()
    assert (remarks, []) == (
        [p.code for p in first.problems],
        [p.code for p in second.problems],
    )


OBJECTS = st.dictionaries(
    st.text(max_size=5), st.one_of(st.text(max_size=9), st.integers(), st.none()), max_size=3
)


@given(st.lists(OBJECTS, min_size=1, max_size=6), st.sampled_from([None, 0, 2]))
def test_the_count_in_is_the_count_out(objects: list[object], indent: int | None) -> None:
    """However the array is laid out, each object comes out once, as it was."""
    items = imported(json.dumps(objects, indent=indent))
    found = [item for item in items if isinstance(item, Document)]
    assert len(objects) == len(items) == len(found)
    assert objects == [json.loads(item.originals["record.json"]) for item in found]


def test_an_element_in_letters_that_its_codec_cannot_write_is_refused_by_itself() -> None:
    """Some codecs read what they cannot write; the other elements are imported."""
    content = b'[{"a":"x"},\n{"a":"\x8f\xcd\xf7"},\n{"a":"y"}]'
    codec = "euc_jisx0213"
    with pytest.raises(UnicodeEncodeError):
        content.decode(codec).encode(codec)
    options = ImportOptions(encoding=codec)
    expected = ["a.json#1", f"a.json:2 {ProblemCode.ENCODING_UNKNOWN}", "a.json#3"]
    assert expected == outcome(list(read_stream(io.BytesIO(content), "a.json", options)))
