from __future__ import annotations

import io
import sys
import tracemalloc
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from casework.errors import ConfigurationError
from casework.gateway.messages import Cost, Usage
from casework.runner import parquet_table
from casework.runner.csv_table import CsvOptions, csv_lines
from casework.runner.export import EMPTY_ROW, ExportRow, write_lines
from casework.runner.parquet_table import GROUP_ROWS_MAX, ParquetOptions, parquet_chunks
from casework.strict_json import JSON, JSONObject, parse

parquet = pytest.importorskip("pyarrow.parquet")

SCHEMA: JSONObject = {
    "type": "object",
    "properties": {
        "n": {"type": ["integer", "null"]},
        "score": {"type": "number"},
        "level": {"enum": ["low", "high"]},
        "open": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "who": {"type": "object", "properties": {"name": {"type": "string"}}},
        "free": {"type": "object"},
    },
}
OPTIONS = ParquetOptions({"o": SCHEMA})


def row(output: JSON, case_id: str = "c", operation_id: str = "o") -> ExportRow:
    return replace(
        EMPTY_ROW, case_id=case_id, operation_id=operation_id, status="SUCCESS", output=output
    )


def content(rows: Iterable[ExportRow], options: ParquetOptions = OPTIONS) -> bytes:
    return b"".join(parquet_chunks(rows, options))


def table(rows: Iterable[ExportRow], options: ParquetOptions = OPTIONS) -> Any:
    return parquet.read_table(io.BytesIO(content(rows, options)))


def types(found: Any) -> dict[str, str]:
    return {field.name: str(field.type) for field in found.schema}


def test_types_come_from_the_schema_alone() -> None:
    """No rows, nulls only, and values of the wrong type all give the same columns."""
    nothing = table([])
    only_nulls = table([row(None), row({"n": None}), row({})])
    mixed = table([row({"n": 1}), row({"n": "one"}), row({"other thing": []}), row("text")])
    assert nothing.schema == only_nulls.schema == mixed.schema
    assert {
        "/n": "int64",
        "/score": "double",
        "/level": "string",
        "/open": "bool",
        "/tags": "list<element: string>",
        "/who/name": "string",
        "/free": "string",
        "other": "string",
    } == {name: t for name, t in types(mixed).items() if name[0] == "/" or name == "other"}


def test_values_come_back_as_they_were() -> None:
    """Scalars as themselves, lists as lists, free objects as canonical JSON."""
    output: JSON = {
        "n": 2**63 - 1,
        "score": 3,
        "level": "high",
        "open": False,
        "tags": ["a", "\u2028\0"],
        "who": {"name": "\u00e9"},
        "free": {"z": 1, "a": [None]},
    }
    (back,) = table([row(output)]).to_pylist()
    assert [2**63 - 1, 3.0, "high", False, ["a", "\u2028\0"], "\u00e9", '{"a":[null],"z":1}'] == [
        back[name] for name in ("/n", "/score", "/level", "/open", "/tags", "/who/name", "/free")
    ]
    assert back["other"] is None


def test_what_no_column_holds_stands_in_other() -> None:
    """Long integers, unnamed members and answers of another shape lose nothing."""
    rows = [
        row({"n": 2**64, "extra": {"x": 1}, "score": 1.5, "tags": ["a", 1], "who": "Ann"}),
        row("just a text"),
        row({"n": 1}, operation_id="unknown"),
    ]
    found = table(rows).to_pylist()
    assert [
        {"/n": 2**64, "/extra": {"x": 1}, "/tags": ["a", 1], "/who": "Ann"},
        {"output": "just a text"},
        {"output": {"n": 1}},
    ] == [parse(back["other"]) for back in found]
    assert (None, 1.5, None) == (found[0]["/n"], found[0]["/score"], found[2]["/n"])


SCALARS: st.SearchStrategy[JSON] = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(-9, 9)
    | st.text("a/~", max_size=2)
)
OUTPUTS: st.SearchStrategy[JSON] = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["a", "b", "c/~"]), inner, max_size=3)
    ),
    max_leaves=6,
)
TYPES = ("integer", "number", "string", "boolean", "array", "object")


def listed(kind: str) -> JSONObject:
    return {"type": "array", "items": {"type": kind}}


def typed(kind: str) -> JSONObject:
    return {"type": kind}


def with_members(properties: dict[str, JSON]) -> JSONObject:
    return {"type": "object", "properties": properties}


SCHEMAS: st.SearchStrategy[JSONObject] = st.recursive(
    st.sampled_from(TYPES).map(typed) | st.sampled_from(TYPES[:4]).map(listed),
    lambda inner: st.dictionaries(st.sampled_from(["a", "b", "c/~"]), inner, max_size=3).map(
        with_members
    ),
    max_leaves=5,
)


def put(whole: JSON, pointer: str, value: JSON) -> JSON:
    """Return a value with another one at a place below objects, which are made where needed."""
    if pointer in ("", "output"):
        return value
    part, slash, rest = pointer[1:].partition("/")
    members = whole if isinstance(whole, dict) else {}
    name = part.replace("~1", "/").replace("~0", "~")
    return {**members, name: put(members.get(name), slash + rest, value)}


def told(value: JSON) -> JSON:
    """Return a value without what a table does not tell apart: null, absent, empty object."""
    if isinstance(value, dict):
        members = {name: told(item) for name, item in value.items()}
        return {name: item for name, item in members.items() if item is not None} or None
    return [told(item) for item in value] if isinstance(value, list) else value


@settings(deadline=None)
@given(SCHEMAS, OUTPUTS)
def test_every_answer_can_be_put_together_again(schema: JSONObject, output: JSON) -> None:
    """Whatever the schema says: what no column holds stands in other, and nothing is lost."""
    found = table([row(output)], ParquetOptions({"o": schema}))
    (back,) = found.to_pylist()
    whole: JSON = None
    for field in found.schema:
        if (field.name == "output" or field.name[0] == "/") and back[field.name] is not None:
            is_json = (field.metadata or {}).get(b"casework") == b"json"
            cell = back[field.name]
            whole = put(whole, field.name, parse(cell) if is_json else cell)
    other = parse(back["other"] or "{}")
    assert isinstance(other, dict)
    for pointer, value in other.items():
        whole = put(whole, pointer, value)
    assert told(output) == told(whole)


def test_columns_beside_lists_are_those_of_the_csv() -> None:
    """Where no list is, both tables have the same header."""
    schema: JSONObject = {
        "type": "object",
        "properties": {"b": {"type": "string"}, "a": {"properties": {"x/y": {"type": "number"}}}},
    }
    rows = [row({"a": {"x/y": 1}, "b": "t"})]
    header = next(csv_lines(rows, CsvOptions(output_schema=schema))).decode().strip().split(",")
    assert [*header, "other"] == table(rows, ParquetOptions({"o": schema})).column_names


def test_where_a_row_came_from_is_typed() -> None:
    """Times are UTC timestamps, money is decimal, counts are integers, and unknown is null."""
    full = replace(
        row({}),
        started_at=datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC),
        elapsed_ms=7,
        usage=Usage(10, None, None),
        cost=Cost(Decimal("0.000000000000000001"), "EUR"),
    )
    found = table([full, row({})])
    first, second = found.to_pylist()
    assert ("timestamp[us, tz=UTC]", "decimal128(38, 18)", "int64") == tuple(
        types(found)[name] for name in ("started_at", "cost.amount", "usage.prompt_tokens")
    )
    assert (full.started_at, 7, 10, None, Decimal("1e-18")) == tuple(
        first[name]
        for name in (
            "started_at",
            "elapsed_ms",
            "usage.prompt_tokens",
            "usage.total_tokens",
            "cost.amount",
        )
    )
    assert [None] * 3 == [second[n] for n in ("started_at", "cost.amount", "usage.prompt_tokens")]


@pytest.mark.parametrize("amount", ["1e-19", "1e30"])
def test_money_is_never_rounded(amount: str) -> None:
    """An amount finer or larger than the column stands in other, exactly."""
    (back,) = table([replace(row({}), cost=Cost(Decimal(amount), "EUR"))]).to_pylist()
    assert back["cost.amount"] is None
    assert {"cost.amount": format(Decimal(amount), "f")} == parse(back["other"])


def test_named_fields_are_the_only_columns() -> None:
    """Their types come from the schema; what the schema does not name is JSON."""
    options = ParquetOptions({"o": SCHEMA}, fields=("/n", "/who", "/tags/0", "/absent"))
    found = table([row({"n": 1, "who": {"name": "A"}, "tags": ["t"], "score": 2})], options)
    (back,) = found.to_pylist()
    assert [1, '{"name":"A"}', "t", None, None] == [
        back[name] for name in ("/n", "/who", "/tags/0", "/absent", "other")
    ]
    assert "/score" not in found.column_names


def test_later_campaigns_have_the_columns_of_their_operation() -> None:
    """The answer of extract@2 is no stranger."""
    options = ParquetOptions({"o": SCHEMA}, lambda name: name.partition("@")[0])
    (back,) = table([row({"n": 5}, operation_id="o@2")], options).to_pylist()
    assert (5, None) == (back["/n"], back["other"])


def test_two_operations_share_one_table() -> None:
    """A place with a different type in each is JSON, and each answer is read by its own schema."""
    other: JSONObject = {"type": "object", "properties": {"n": {"type": "string"}}}
    options = ParquetOptions({"o": SCHEMA, "p": other})
    found = table([row({"n": 1}), row({"n": "x"}, operation_id="p")], options)
    assert ["1", '"x"'] == found.column("/n").to_pylist()


def test_the_same_rows_give_the_same_bytes() -> None:
    """An export can be compared by its digest."""
    rows = [row({"n": n, "tags": ["x"] * (n % 3)}, f"c{n}") for n in range(100)]
    assert content(rows) == content(rows)


def test_many_rows_stream_in_groups_of_bounded_size() -> None:
    """Ten thousand cases of two kilobytes each never lie in memory together."""
    total = 10_000

    def rows() -> Iterator[ExportRow]:
        for number in range(total):
            yield row({"n": number, "level": "high", "free": {"t": f"{number}" * 400}}, str(number))

    content([])
    tracemalloc.start()
    try:
        sizes = [len(chunk) for chunk in parquet_chunks(rows(), OPTIONS)]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert -(-total // GROUP_ROWS_MAX) + 1 == len(sizes)
    assert 64 * 1024 * 1024 > peak


def test_large_answers_end_a_group_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """The size of the answers counts, not only their number."""
    monkeypatch.setattr(parquet_table, "GROUP_BYTES_MAX", 5000)
    rows = [row({"free": {"t": "x" * 3000}}) for _ in range(6)]
    found = parquet.ParquetFile(io.BytesIO(content(rows)))
    assert (6, 3) == (found.metadata.num_rows, found.metadata.num_row_groups)


def test_rows_that_fail_half_way_leave_the_old_file(tmp_path: Path) -> None:
    """A reader never sees half a table."""
    path = tmp_path / "out.parquet"
    path.write_bytes(b"old")

    def rows() -> Iterator[ExportRow]:
        yield row({"n": 1})
        raise LookupError

    with pytest.raises(LookupError):
        write_lines(path, parquet_chunks(rows(), OPTIONS))
    assert b"old" == path.read_bytes()
    assert [path] == list(tmp_path.iterdir())


def test_without_pyarrow_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest of Casework works without it."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigurationError, match="pyarrow") as caught:
        parquet_table.require_pyarrow()
    assert ("extra_missing", "pip install 'casework[parquet]'") == (
        caught.value.code,
        caught.value.remedy,
    )
