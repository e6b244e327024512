from __future__ import annotations

import csv
import io
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.errors import ConfigurationError, RunnerError
from casework.json_pointer import flatten
from casework.runner.csv_table import (
    BYTE_ORDER_MARK,
    CsvOptions,
    Number,
    csv_line,
    csv_lines,
    read_csv,
)
from casework.runner.export import ExportRow
from casework.runner.output_columns import COLUMNS_MAX
from casework.strict_json import JSON

JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**9), 10**9)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("ab/~-=", max_size=2), inner)
    ),
    max_leaves=8,
)


def row(output: JSON, case_id: str = "c") -> ExportRow:
    return ExportRow(
        case_id=case_id,
        package_id="p",
        generation=2,
        analysis_revision=1,
        operation_id="o",
        status="SUCCESS",
        output=output,
    )


def raw(outputs: Iterable[JSON], options: CsvOptions | None = None) -> list[list[str]]:
    """Return the cells as a spreadsheet sees them, header first, those of the answers only."""
    content = b"".join(csv_lines([row(output) for output in outputs], options))
    cells = list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")))
    first = cells[0].index("cost.currency") + 1
    return [line[first:] for line in cells]


def test_a_line_runs_nothing_and_keeps_its_numbers() -> None:
    """A text that begins like a formula is neutralised, a negative number is not."""
    assert b"'=a,plain,-1\r\n" == csv_line(["=a", "plain", Number("-1")])
    assert b"=a\r\n" == csv_line(["=a"], neutralise=False)


def test_answers_are_flattened_by_json_pointer() -> None:
    """Members, elements and names with slashes each get a column."""
    output: JSON = {"a": {"b": 1, "c/d": True}, "e": ["x", {"f": None}], "g": [], "h": {}}
    assert [
        ["/a/b", "/a/c~1d", "/e/0", "/e/1/f", "/g", "/h"],
        ["1", "true", "x", "", "[]", "{}"],
    ] == raw([output])


def test_an_answer_that_is_no_object_has_one_column() -> None:
    """Its name is output."""
    assert [["output"], ["word"], ["3"]] == raw(["word", 3])


def test_columns_come_in_the_order_of_the_schema() -> None:
    """What the schema does not name follows, elements by their number."""
    schema: dict[str, JSON] = {
        "properties": {"z": {}, "t": {}, "a": {"properties": {"y": {}, "x": {}}}}
    }
    outputs: list[JSON] = [
        {"a": {"x": 1, "y": 2}, "extra": 0, "t": list(range(11)), "z": 1},
        {"z": 2, "other": 5},
    ]
    header, _, second = raw(outputs, CsvOptions(output_schema=schema))
    elements = [f"/t/{n}" for n in range(11)]
    assert ["/z", *elements, "/a/y", "/a/x", "/extra", "/other"] == header
    assert ["2", *[""] * 14, "5"] == second


def test_without_a_schema_the_order_is_that_of_the_names() -> None:
    """Whichever answer came first."""
    assert raw([{"b": 1}, {"a": 2}])[0] == raw([{"a": 2}, {"b": 1}])[0] == ["/a", "/b"]


def test_named_fields_are_the_only_columns() -> None:
    """A field that is an object or a list is written as JSON."""
    options = CsvOptions(fields=("/b", "/a/0", "/absent", ""))
    assert [
        ["/b", "/a/0", "/absent", "output"],
        ['{"c": "x"}', "1", "", '{"a": [1], "b": {"c": "x"}}'],
    ] == raw([{"a": [1], "b": {"c": "x"}}], options)


@pytest.mark.parametrize("field", ["severity", "a/b", " /a"])
def test_a_field_that_is_no_pointer_is_refused(field: str) -> None:
    """Before anything is written."""
    with pytest.raises(ConfigurationError) as caught:
        CsvOptions(fields=(field,))
    assert "field_invalid" == caught.value.code


@pytest.mark.parametrize(
    "text",
    [
        '=HYPERLINK("http://x","y")',
        "+1",
        "-5",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "\n=1",
        "\uff1d1",
        "'=already",
        "''-twice",
        "- a list item",
    ],
)
def test_a_text_that_a_spreadsheet_would_run_is_neutralised(text: str) -> None:
    """An apostrophe stands before it, and reading takes it off again."""
    assert f"'{text}" == raw([text])[1][0]
    content = b"".join(csv_lines([row(text, case_id=text)])).decode()
    (back,) = read_csv(io.StringIO(content, newline=""))
    assert (text, text) == (back["output"], back["case_id"])


@pytest.mark.parametrize(
    ("value", "cell"), [(-5, "-5"), (-1.5e-7, "-1.5e-07"), (0, "0"), (10**20, "1" + "0" * 20)]
)
def test_numbers_are_left_alone(value: JSON, cell: str) -> None:
    """A negative number is no formula."""
    assert cell == raw([{"n": value}])[1][0]


@pytest.mark.parametrize("text", ["plain", "a=b", "'quoted'", "it's", " =x", "5-5", ""])
def test_harmless_texts_are_left_alone(text: str) -> None:
    """Only the beginning counts."""
    assert text == raw([{"t": text, "u": 1}])[1][0]


def test_neutralising_can_be_switched_off() -> None:
    """For programs that read the table, and know what they do."""
    options = CsvOptions(neutralise=False)
    assert "=1" == raw(["=1"], options)[1][0]
    content = b"".join(csv_lines([row("'=1")], options)).decode()
    (back,) = read_csv(io.StringIO(content, newline=""), neutralised=False)
    assert "'=1" == back["output"]


def test_names_of_members_are_neutralised_too() -> None:
    """A name begins with a slash in its pointer and can do no harm."""
    assert ["/=1", "/\t@x"] == sorted(raw([{"=1": 1, "\t@x": 2}])[0], reverse=True)


@pytest.mark.parametrize("mark", [True, False])
def test_the_byte_order_mark_is_optional_and_no_part_of_the_table(*, mark: bool) -> None:
    """The way back reads both."""
    content = b"".join(csv_lines([row({"a": "\u00e9"})], CsvOptions(byte_order_mark=mark)))
    assert mark is content.startswith(BYTE_ORDER_MARK)
    (back,) = read_csv(io.StringIO(content.decode("utf-8-sig"), newline=""))
    assert ("c", "\u00e9") == (back["case_id"], back["/a"])


@given(st.lists(JSON_VALUES, max_size=4))
def test_every_cell_comes_back(outputs: list[JSON]) -> None:
    """Quotes, line ends, marks and apostrophes survive the way out and back."""
    content = b"".join(csv_lines([row(output) for output in outputs])).decode()
    rows = list(read_csv(io.StringIO(content, newline="")))
    assert len(outputs) == len(rows)
    for output, back in zip(outputs, rows, strict=True):
        for pointer, value in [] if output is None else flatten(output):
            if isinstance(value, str):
                assert value == back[pointer or "output"]


def test_a_table_with_too_many_columns_is_refused() -> None:
    """A list of twenty thousand elements is no table."""
    with pytest.raises(RunnerError) as caught:
        list(csv_lines([row(list(range(COLUMNS_MAX + 1)))]))
    assert "too_many_columns" == caught.value.code


def test_a_long_cell_comes_back() -> None:
    """Longer than Python's reader takes by default."""
    content = b"".join(csv_lines([row("x" * 300_000)])).decode()
    (back,) = read_csv(io.StringIO(content, newline=""))
    assert 300_000 == len(back["output"])


def test_no_rows_give_a_header() -> None:
    """An empty export still says what its columns would be."""
    (line,) = csv_lines([])
    assert line.startswith(b"case_id,operation_id,analysis_revision,status,error,")


def test_rows_stream_through_a_temporary_file() -> None:
    """The rows are taken once, so a generator will do."""
    content = list(csv_lines(row({"n": n, "t": "x" * 1000}) for n in range(10_000)))
    assert 10_001 == len(content)
