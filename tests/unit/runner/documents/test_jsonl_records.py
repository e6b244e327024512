from __future__ import annotations

import codecs
import io
import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.runner.documents.document import Problem, ProblemCode
from casework.runner.documents.jsonl_records import Line, read_lines
from casework.runner.documents.media import Reading
from casework.runner.documents.reading import RawFile
from casework.runner.documents.records import (
    ID_LENGTH_MAX,
    RawRecord,
    Record,
    RecordFields,
    read_record,
)

SOURCE = RawFile("sub/c.jsonl", b"", "in/sub/c.jsonl")


def lines(
    content: bytes, *, encoding: str | None = None, bytes_max: int = 1000
) -> Iterator[Line | Problem]:
    return read_lines(io.BytesIO(content), "c", encoding=encoding, bytes_max=bytes_max)


def record(
    content: str | bytes, fields: RecordFields | None = None, *, encoding: str | None = None
) -> Record | Problem:
    fields = fields or RecordFields()
    raw = RawRecord(
        number=7,
        line=7,
        name="record.json",
        content=content.encode() if isinstance(content, str) else content,
        reading=Reading(media="record", encoding=encoding, text_field=fields.text_field),
    )
    return read_record(raw, SOURCE, id_field=fields.id_field)


def code_of(content: str | bytes, fields: RecordFields | None = None) -> ProblemCode:
    problem = record(content, fields)
    assert isinstance(problem, Problem)
    assert "in/sub/c.jsonl:7" == problem.where
    return problem.code


ODD = '{"text": "a\u2028b\u2029c\u0085d"}'


@pytest.mark.parametrize("mark", [b"", codecs.BOM_UTF8])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
@pytest.mark.parametrize("final", [True, False])
def test_only_line_feeds_end_a_record(mark: bytes, end: bytes, *, final: bool) -> None:
    """Separators inside strings, carriage returns, marks and a missing last end change nothing."""
    content = mark + end.join([ODD.encode()] * 3) + (end if final else b"")
    found = list(lines(content))
    assert [
        Line(n, ODD.encode(), byte_order_mark=bool(mark) and n == 1) for n in (1, 2, 3)
    ] == found


def test_a_lone_carriage_return_is_no_line_end() -> None:
    """Old line ends are not guessed at."""
    assert [Line(1, b'{"a":1}\r{"a":2}')] == list(lines(b'{"a":1}\r{"a":2}\n'))


def test_blank_lines_are_no_records_but_count_as_lines() -> None:
    """Numbers are those that an editor shows."""
    found = [item.number for item in lines(b"\n{}\n  \r\n\n{}\n\n") if isinstance(item, Line)]
    assert [2, 5] == found


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("mark", "codec", "given_codec"),
    [
        (codecs.BOM_UTF16_LE, "utf-16-le", None),
        (codecs.BOM_UTF16_BE, "utf-16-be", None),
        (codecs.BOM_UTF16_BE, "utf-16-be", "utf-16"),
        (b"", "utf-16-le", "utf-16"),
        (b"", "utf-16-be", "utf-16-be"),
    ],
)
def test_utf16_is_split_by_characters(
    end: str, mark: bytes, codec: str, given_codec: str | None
) -> None:
    """A line feed in UTF-16 is two bytes, and 0A may be half of another letter."""
    text = '{"text": "\u0a0a \u2028 \U0001f600"}'
    content = mark + f"{text}{end}{text}".encode(codec)
    found = list(lines(content, encoding=given_codec))
    assert [text.encode(codec)] * 2 == [item.content for item in found if isinstance(item, Line)]


def test_utf16_that_breaks_off_is_named(tmp_path: object) -> None:
    """What came before the broken place is kept."""
    first, last = lines(codecs.BOM_UTF16_LE + "{}\n".encode("utf-16-le") + b"{")
    assert isinstance(first, Line)
    assert isinstance(last, Problem)
    assert ("c:2", ProblemCode.ENCODING_UNKNOWN) == (last.where, last.code)


def test_a_file_with_nul_bytes_is_no_jsonl() -> None:
    """A binary file is refused once and not line by line."""
    (problem,) = lines(b"{}\n\0\0\n")
    assert isinstance(problem, Problem)
    assert ProblemCode.BINARY is problem.code


@pytest.mark.parametrize("codec", [None, "utf-16-le"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_line_that_is_too_long_is_left_out_and_the_next_is_read(
    codec: str | None, end: str
) -> None:
    """One giant line does not end an import and is never held whole."""
    content = end.join(["{}", "x" * 200_000, '{"a":1}']).encode(codec or "utf-8")
    first, giant, last = lines(content, encoding=codec, bytes_max=20)
    assert isinstance(first, Line)
    assert isinstance(giant, Problem)
    assert ("c:2", ProblemCode.TOO_LARGE) == (giant.where, giant.code)
    assert isinstance(last, Line)
    assert 3 == last.number


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
@pytest.mark.parametrize(("length", "fits"), [(19, True), (20, True), (21, False), (22, False)])
def test_the_limit_of_a_line_is_exact(end: bytes, length: int, *, fits: bool) -> None:
    """The end of a line is no part of its length."""
    (item,) = lines(b"x" * length + end, bytes_max=20)
    assert fits is isinstance(item, Line)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=20), max_size=6))
def test_every_record_written_is_a_record_read(texts: list[str]) -> None:
    """Whatever a text holds, its line is one line."""
    content = "".join(json.dumps({"text": t}, ensure_ascii=False) + "\n" for t in texts).encode()
    found = [
        record(item.content, RecordFields(text_field="text"))
        for item in lines(content)
        if isinstance(item, Line)
    ]
    assert texts == [item.file.text for item in found if isinstance(item, Record)]


def test_the_whole_line_is_the_text_by_default() -> None:
    """Nothing is chosen on the user's behalf."""
    line = '{"id": 3, "body": "x"}'
    found = record(line)
    assert isinstance(found, Record)
    assert ("sub/c.jsonl#7", line, line.encode()) == (
        found.case_id,
        found.file.text,
        found.file.content,
    )


@pytest.mark.parametrize(
    ("value", "expected"), [('"a/b c"', "a/b c"), ("17", "17"), ('"\\u0000x"', "\\x00x")]
)
def test_an_id_is_a_text_or_a_whole_number(value: str, expected: str) -> None:
    """Ids are taken as they are, but for controls."""
    found = record(f'{{"id": {value}}}', RecordFields(id_field="id"))
    assert isinstance(found, Record)
    assert expected == found.case_id


@pytest.mark.parametrize(
    "value", ["null", "true", "1.5", '""', "[]", "{}", f'"{"x" * (ID_LENGTH_MAX + 1)}"']
)
def test_what_is_no_id_is_refused(value: str) -> None:
    """An id is never made up for a record that should have had one."""
    assert ProblemCode.ID_INVALID is code_of(f'{{"id": {value}}}', RecordFields(id_field="id"))
    assert ProblemCode.ID_INVALID is code_of("{}", RecordFields(id_field="id"))


@pytest.mark.parametrize("value", ["null", "5", "[]", "{}", "false"])
def test_what_is_no_text_is_refused(value: str) -> None:
    """Numbers and objects are not written out as if they were texts."""
    assert ProblemCode.TEXT_MISSING is code_of(f'{{"t": {value}}}', RecordFields(text_field="t"))
    assert ProblemCode.TEXT_MISSING is code_of("{}", RecordFields(text_field="t"))


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "{} {}",
        "{'a': 1}",
        '{"a": 1, "a": 2}',
        '{"n": NaN}',
        '{"n": 1e999}',
        '{"a": "raw\ttab"}',
        "[1]",
        '"text"',
        "null",
        '{"a":' * 200 + "1" + "}" * 200,
    ],
)
def test_a_line_that_is_no_strict_object_is_refused(line: str) -> None:
    """Nothing is repaired on the way in."""
    assert ProblemCode.RECORD_INVALID is code_of(line)


def test_half_a_character_pair_is_replaced_and_counted() -> None:
    """UTF-8 cannot hold it; the original line can."""
    line = '{"t": "a\\ud83d b\\udc00"}'
    found = record(line, RecordFields(text_field="t"))
    assert isinstance(found, Record)
    assert "a\ufffd b\ufffd" == found.file.text
    assert line.encode() == found.file.content
    assert [ProblemCode.SURROGATES_REPLACED] == [problem.code for problem in found.file.problems]


def test_a_line_that_is_not_utf8_is_guessed_and_said() -> None:
    """Exports of old programs mix encodings line by line."""
    found = record(b'{"t": "a \x96 b"}', RecordFields(text_field="t"))
    assert isinstance(found, Record)
    assert "a \u2013 b" == found.file.text
    assert [ProblemCode.ENCODING_GUESSED] == [problem.code for problem in found.file.problems]


def test_no_problem_shows_the_record() -> None:
    """Places and rules, never contents."""
    for line in ('{"CANARY": }', '{"id": ["CANARY"]}', '"CANARY"'):
        problem = record(line, RecordFields(id_field="id"))
        assert isinstance(problem, Problem)
        assert "CANARY" not in str(problem)


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-32-le"])
def test_half_a_character_pair_spoils_its_own_line_alone(codec: str) -> None:
    """The line is refused when it is read as a record; its neighbours are whole."""
    half = "\ud800".encode(codec, "surrogatepass")
    content = b"".join(['{"a":1}\n"'.encode(codec), half, '"\n{"b":2}'.encode(codec)])
    found = [line for line in lines(content, encoding=codec) if isinstance(line, Line)]
    assert [1, 2, 3] == [line.number for line in found]
    read = [record(line.content, encoding=codec) for line in found]
    assert [Record, Problem, Record] == [type(item) for item in read]
    assert isinstance(read[1], Problem)
    assert ProblemCode.ENCODING_UNKNOWN is read[1].code
