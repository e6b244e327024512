from __future__ import annotations

import codecs
import csv
import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.runner.csv_table import CsvOptions, csv_lines, read_csv
from casework.runner.documents import (
    Document,
    ImportItem,
    ImportOptions,
    ProblemCode,
    RecordFields,
    Refusal,
)
from casework.runner.documents.document_reader import read_stream
from casework.runner.export import ExportRow

BY_ID = ImportOptions(format="csv", fields=RecordFields("id", "text"))
WHOLE = ImportOptions(format="csv")


def imported(content: bytes | str, options: ImportOptions = WHOLE) -> list[ImportItem]:
    data = content.encode() if isinstance(content, str) else content
    return list(read_stream(io.BytesIO(data), "t.csv", options))


def texts(items: list[ImportItem]) -> dict[str, str]:
    found = {}
    for item in items:
        assert isinstance(item, Document), item
        made = [v for name, v in item.derived.items() if name.startswith("text/")]
        found[item.case_id] = made[0].decode()
    return found


def problems(items: list[ImportItem]) -> list[tuple[str, ProblemCode]]:
    return [(item.problem.where, item.problem.code) for item in items if isinstance(item, Refusal)]


def test_each_row_is_a_case_that_can_stand_alone() -> None:
    """The original of a case is the table's header and its own row, byte for byte."""
    first, second = imported('id,note\r\n1,"a\r\nb"\r\n\r\n2,\r\n')
    assert isinstance(first, Document)
    assert isinstance(second, Document)
    assert ["t.csv#2", "t.csv#5"] == [first.case_id, second.case_id]
    assert {"row.csv": b'id,note\n1,"a\r\nb"'} == first.originals
    assert {"t.csv#2": "id: 1\nnote: a\r\nb\n", "t.csv#5": "id: 2\n"} == texts([first, second])


def test_columns_named_hold_id_and_text() -> None:
    """The text is the cell as it stands, line ends and separators included."""
    items = imported('id,text,x\nk/1,"say ""hi""\u2028\u0085\n  next",-\n', BY_ID)
    assert {"k/1": 'say "hi"\u2028\u0085\n  next'} == texts(items)


@pytest.mark.parametrize(
    ("content", "place", "code", "others"),
    [
        ("id,text\n1,a\n2,b,c\n3,d\n", "t.csv:3", ProblemCode.RECORD_INVALID, 2),
        ("id,text\n1,a\n2\n3,d\n", "t.csv:3", ProblemCode.RECORD_INVALID, 2),
        ('id,text\n1,"a\nb"\n2,"b\n3,d\n', "t.csv:4", ProblemCode.RECORD_INVALID, 1),
        ('id,text\n1,"a"b\n3,d\n', "t.csv:2", ProblemCode.RECORD_INVALID, 1),
        ("id,text\n1,a\rb\n3,d\n", "t.csv:2", ProblemCode.RECORD_INVALID, 1),
        ("id,text\n1,a\0\n3,d\n", "t.csv:2", ProblemCode.BINARY, 1),
        ("id,text,id\n1,a,1\n", "t.csv:1", ProblemCode.HEADER_INVALID, 0),
        ("id,te\0xt\n1,a\n", "t.csv:1", ProblemCode.BINARY, 0),
        ("sep=;\nid;text\n1;a\n", "t.csv:1", ProblemCode.HEADER_INVALID, 0),
        ('id,"text\n1,a\n', "t.csv:1", ProblemCode.RECORD_INVALID, 0),
        ("\nno,text\n1,a\n", "t.csv:2", ProblemCode.HEADER_INVALID, 0),
        ("id,body\n1,a\n", "t.csv:1", ProblemCode.HEADER_INVALID, 0),
        ("id,text\n,a\n2,b\n", "t.csv:2", ProblemCode.ID_INVALID, 1),
        ('id,text\n1,"' + "x\n" * 60 + '"\n2,b\n', "t.csv:2", ProblemCode.TOO_LARGE, 1),
        ("id,text\n1," + "x" * 200 + "\n2,b\n", "t.csv:2", ProblemCode.TOO_LARGE, 1),
        ('id,text\n1,"' + '""' * 99 + '"\n2,b\n', "t.csv:2", ProblemCode.TOO_LARGE, 1),
    ],
)
def test_what_is_wrong_is_named_with_its_line(
    content: str, place: str, code: ProblemCode, others: int
) -> None:
    """A bad row is refused by itself, a bad header once, and nothing is repaired."""
    options = ImportOptions(format="csv", fields=BY_ID.fields, file_bytes_max=100)
    items = imported(content, options)
    assert [(place, code)] == problems(items)
    assert others == len(items) - 1


@pytest.mark.parametrize("content", ["", "\n\r\n", "id,text\n"])
def test_a_table_without_rows_has_no_cases(content: str) -> None:
    """A header alone is nothing to ask about."""
    assert [] == imported(content, BY_ID)


def test_a_quote_inside_of_a_bare_field_is_a_letter() -> None:
    """As spreadsheets write and read it."""
    assert {"1": '5" pipe', "2": "b"} == texts(imported('id,text\n1,5" pipe\n2,b\n', BY_ID))


@pytest.mark.parametrize(
    ("header", "row", "names"),
    [
        ("id;text", '1;"a;b"', "semicolons"),
        ('"i\nd";text', '1;"a\nb"', "semicolons"),
        ('5" id;text', '1;"a,b"', "semicolons"),
        ("id\ttext", "1\ta;b", "tabs"),
        ('"id";"te,xt"', "1;a", "semicolons"),
    ],
)
def test_a_delimiter_is_found_out_only_where_the_header_leaves_no_doubt(
    header: str, row: str, names: str
) -> None:
    """It is said once for the table, and stands in the record of each case."""
    items = imported(f"{header}\n{row}\n{row}\n")
    remarks = [p for i in items if isinstance(i, Document) for p in i.problems]
    assert [f"the columns are parted by {names}"] == [
        p.message for p in remarks if p.code is ProblemCode.DELIMITER_DETECTED
    ]
    for item in items:
        assert isinstance(item, Document)
        record = json.loads(item.derived["import.json"])
        assert ["delimiter_detected"] == [remark["code"] for remark in record["remarks"]]


@pytest.mark.parametrize("header", ["a;b,c", "a;b\tc", "a"])
def test_where_there_is_doubt_the_delimiter_is_a_comma(header: str) -> None:
    """Nothing else is guessed at."""
    items = imported(f"{header}\n{header}\n")
    assert [[]] == [[p.code for p in i.problems] for i in items if isinstance(i, Document)]


def test_a_table_by_tabs_has_tabs() -> None:
    """The ending says so, and commas are letters."""
    data = io.BytesIO(b"id\ttext\n1\ta,b\n")
    options = ImportOptions(fields=BY_ID.fields)
    assert {"1": "a,b"} == texts(list(read_stream(data, "t.tsv", options)))


@pytest.mark.parametrize(
    ("content", "codes"),
    [
        ("id,text\n1,a \u2013 b\n".encode("cp1252"), [ProblemCode.ENCODING_GUESSED]),
        ("id,text\n1,a \u2013 b\n".encode("utf-8-sig"), [ProblemCode.BYTE_ORDER_MARK]),
        ("id,text\r\n1,a \u2013 b\r\n".encode("utf-16"), [ProblemCode.BYTE_ORDER_MARK]),
        (
            codecs.BOM_UTF16_BE + 'id,text\n1,"a \u2013 b"'.encode("utf-16-be"),
            [ProblemCode.BYTE_ORDER_MARK],
        ),
    ],
)
def test_encodings_are_found_out_and_told(content: bytes, codes: list[ProblemCode]) -> None:
    """Byte order marks decide, then UTF-8, and Windows-1252 is a guess that is told."""
    items = imported(content, BY_ID)
    assert {"1": "a \u2013 b"} == texts(items)
    assert [codes] == [[p.code for p in i.problems] for i in items if isinstance(i, Document)]


@pytest.mark.parametrize("codec", ["shift_jis", "iso2022_jp", "utf-16-be", "cp949"])
def test_an_encoding_that_is_given_decides(codec: str) -> None:
    """Also one in which the bytes of quotes and commas occur inside of letters."""
    text = {"cp949": "\ud55c\uae00"}.get(codec, "\u6c34\u9053\u304b\u3089, \u3042")
    content = f'id,text\n1,"{text}"\n'.encode(codec)
    options = ImportOptions(format="csv", fields=BY_ID.fields, encoding=codec)
    assert {"1": text} == texts(imported(content, options))


def test_utf16_that_breaks_off_is_named() -> None:
    """The rows before it are kept."""
    items = imported("id,text\n1,a\n".encode("utf-16") + b"2", BY_ID)
    assert [("t.csv:3", ProblemCode.ENCODING_UNKNOWN)] == problems(items)
    assert 2 == len(items)


CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)


@given(st.lists(st.tuples(CELLS, CELLS), max_size=8), st.sampled_from(["\n", "\r\n"]))
def test_every_row_written_is_a_row_read(rows: list[tuple[str, str]], end: str) -> None:
    """As many cases come out as rows went in, with the same cells."""
    table = io.StringIO(newline="")
    writer = csv.writer(table, lineterminator=end, quoting=csv.QUOTE_ALL)
    writer.writerows([("id", "text", "more"), *((n, *row) for n, row in enumerate(rows))])
    items = imported(table.getvalue(), BY_ID)
    assert [str(n) for n in range(len(rows))] == [
        item.case_id for item in items if isinstance(item, Document)
    ]
    read = [
        item.derived.get("text/row.csv.txt", b"").decode()
        for item in items
        if isinstance(item, Document)
    ]
    assert [text for text, _ in rows] == read


LINES = st.lists(
    st.sampled_from(["1,a", "2,b,c", "3", '4,"x"', '5,"x"y', '6,"a\nb"', "7,\0", "", "8,\x96"]),
    max_size=12,
)


@given(LINES)
def test_the_count_in_is_the_count_out(lines: list[str]) -> None:
    """Every row that is not blank comes out once, each problem with the line it begins on."""
    content = ("n,text\n" + "".join(f"{line}\n" for line in lines)).encode("cp1252", "replace")
    items = imported(content)
    places = []
    line_number = 2
    for line in lines:
        if line:
            places.append(f"t.csv:{line_number}")
        line_number += 1 + line.count("\n")
    found = [i.source if isinstance(i, Document) else i.problem.where for i in items]  # type: ignore[union-attr]
    assert places == found
    bad = {"2,b,c", "3", '5,"x"y', "7,\0"}
    assert sum(line in bad for line in lines) == len(problems(items))


@pytest.mark.parametrize("mark", [True, False])
def test_our_own_table_comes_back_equal(tmp_path: Path, *, mark: bool) -> None:
    """What an export wrote, an import reads cell by cell."""
    answers = ["=HYPERLINK()", "-5", "a\u2028b\u0085", 'q"q', "x\r\ny", "\u00e9 \u2013", ",;\t"]
    rows = [
        ExportRow(
            case_id=f"c\u00e4se,{n}",
            package_id="p",
            generation=1,
            analysis_revision=1,
            operation_id="o",
            status="SUCCESS",
            output={"text": text, "n": n},
        )
        for n, text in enumerate(answers)
    ]
    content = b"".join(csv_lines(rows, CsvOptions(neutralise=False, byte_order_mark=mark)))
    options = ImportOptions(format="csv", fields=RecordFields("case_id", "/text"))
    assert {row.case_id: text for row, text in zip(rows, answers, strict=True)} == texts(
        imported(content, options)
    )
    whole = texts(imported(content, ImportOptions(format="csv", fields=RecordFields("case_id"))))
    cells = read_csv(io.StringIO(content.decode("utf-8-sig"), newline=""), neutralised=False)
    assert list(whole.values()) == [
        "".join(f"{name}: {cell}\n" for name, cell in row.items() if cell) for row in cells
    ]


def test_a_wide_table_is_read_in_time() -> None:
    """Ten thousand columns cost what their letters cost."""
    columns = 10_000
    header = ",".join(f"column{n}" for n in range(columns))
    row = ",".join("x" for _ in range(columns))
    assert 20 == len(imported(f"{header}\n" + f"{row}\n" * 20))


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be"])
def test_half_a_character_pair_spoils_its_own_row_alone(codec: str) -> None:
    """The row is named by its line, and those before and after it are read."""
    half = "\ud800".encode(codec, "surrogatepass")
    rows = ["\ufeffid,text\n1,a\n2,".encode(codec), half, "\n3,c\n".encode(codec)]
    items = imported(b"".join(rows), BY_ID)
    assert [("t.csv:3", ProblemCode.ENCODING_UNKNOWN)] == problems(items)
    assert {"1": "a", "3": "c"} == texts([i for i in items if isinstance(i, Document)])
