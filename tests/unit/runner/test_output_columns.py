from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.errors import RunnerError
from casework.runner.output_columns import (
    MISFIT,
    Column,
    Kind,
    Misfit,
    column_at,
    columns_of,
    typed,
    united,
)
from casework.strict_json import JSON, JSONObject, parse


def kinds(properties: JSONObject, **rest: JSON) -> dict[str, tuple[Kind, bool]]:
    schema: JSONObject = {"type": "object", "properties": properties, **rest}
    return {column.pointer: (column.kind, column.is_list) for column in columns_of(schema)}


@pytest.mark.parametrize(
    ("schema", "kind"),
    [
        ({"type": "integer"}, Kind.INTEGER),
        ({"type": "number"}, Kind.NUMBER),
        ({"type": ["integer", "number", "null"]}, Kind.NUMBER),
        ({"type": "string", "format": "date"}, Kind.STRING),
        ({"type": ["boolean", "null"]}, Kind.BOOLEAN),
        ({"enum": ["low", "high", None]}, Kind.STRING),
        ({"enum": [1, 2]}, Kind.INTEGER),
        ({"enum": ["low", 2]}, Kind.JSON),
        ({"const": True}, Kind.BOOLEAN),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, Kind.INTEGER),
        ({"oneOf": [{"type": "string"}, {"const": None}]}, Kind.STRING),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, Kind.JSON),
        ({"anyOf": [{"type": "integer"}, {"type": "number"}]}, Kind.NUMBER),
        ({"anyOf": [{"type": "string"}, {"type": "object"}]}, Kind.JSON),
        ({"allOf": [{"type": "string"}]}, Kind.STRING),
        ({"type": ["string", "integer"]}, Kind.JSON),
        ({"type": "null"}, Kind.JSON),
        ({"type": "object"}, Kind.JSON),
        ({"type": "array"}, Kind.JSON),
        ({"type": "array", "items": {"type": "object"}}, Kind.JSON),
        ({"type": "array", "prefixItems": [{}], "items": {"type": "string"}}, Kind.JSON),
        ({"$ref": "#/$defs/absent"}, Kind.JSON),
        ({"$ref": "#anchor"}, Kind.JSON),
        ({"$ref": "#/$defs/word", "enum": [1]}, Kind.JSON),
        ({"$ref": "#/$defs/word", "description": "a word"}, Kind.STRING),
        (True, Kind.JSON),
        ({}, Kind.JSON),
    ],
)
def test_a_place_with_one_plain_type_gets_it_and_every_other_is_json(
    schema: JSON, kind: Kind
) -> None:
    """Null beside a type changes nothing, since every column may be null."""
    definitions: JSON = {"word": {"type": "string"}}
    found = kinds({"x": schema}, **{"$defs": definitions})
    assert {"/x": (kind, False)} == found


def test_objects_are_taken_apart_and_lists_of_scalars_are_lists() -> None:
    """The names are those of the CSV, slashes escaped, in the order of the schema."""
    schema: JSONObject = {
        "z": {"type": "object", "properties": {"a/b": {"type": "string"}, "c": {}}},
        "tags": {"type": "array", "items": {"type": ["string", "null"]}},
        "maybe": {"anyOf": [{"properties": {"d": {"type": "integer"}}}, {"type": "null"}]},
    }
    assert {
        "/z/a~1b": (Kind.STRING, False),
        "/z/c": (Kind.JSON, False),
        "/tags": (Kind.STRING, True),
        "/maybe/d": (Kind.INTEGER, False),
    } == kinds(schema)
    assert ["/z/a~1b", "/z/c", "/tags", "/maybe/d"] == list(kinds(schema))


def test_an_answer_that_is_no_object_has_one_column() -> None:
    """Its name is output."""
    (column,) = columns_of({"type": "array", "items": {"type": "number"}})
    assert ("output", Kind.NUMBER, True) == (column.name, column.kind, column.is_list)


def test_a_schema_that_leads_back_to_itself_ends_in_json() -> None:
    """A tree has no end, and its columns have."""
    node: JSONObject = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "child": {"$ref": "#/$defs/node"}},
    }
    schema: JSONObject = {"$ref": "#/$defs/node", "$defs": {"node": node}}
    assert ["/name", "/child"] == [column.pointer for column in columns_of(schema)]
    own: JSONObject = {"type": "object", "properties": {"child": {"$ref": "#"}}}
    assert [Column("/child", Kind.JSON)] == list(columns_of(own))


def test_references_that_double_at_each_step_are_refused() -> None:
    """A schema of a few lines may not make a million columns."""
    levels: JSONObject = {
        f"l{n}": {
            "type": "object",
            "properties": {side: {"$ref": f"#/$defs/l{n + 1}"} for side in ("a", "b")},
        }
        for n in range(30)
    }
    with pytest.raises(RunnerError) as caught:
        columns_of({"$ref": "#/$defs/l0", "$defs": levels})
    assert "too_many_columns" == caught.value.code


def test_columns_of_several_operations_are_united() -> None:
    """Equal types stay, whole numbers and numbers are numbers, and everything else is JSON."""
    one = (Column("/a", Kind.STRING), Column("/n", Kind.INTEGER), Column("/x", Kind.STRING))
    two = (Column("/a", Kind.STRING), Column("/n", Kind.NUMBER), Column("/x", Kind.STRING, True))
    assert [
        Column("/a", Kind.STRING),
        Column("/n", Kind.NUMBER),
        Column("/x", Kind.JSON),
    ] == list(united([one, two]).values())


def test_a_place_that_a_person_names_takes_its_type_from_the_schema() -> None:
    """Elements of a list too; a whole object, or what no schema names, is JSON."""
    schema: JSONObject = {
        "properties": {
            "tags": {"type": "array", "items": {"type": "string"}},
            "who": {"type": "object", "properties": {"age": {"type": "integer"}}},
        }
    }
    found = {p: column_at([schema], p).kind for p in ("/tags/0", "/who/age", "/who", "/no", "")}
    assert {
        "/tags/0": Kind.STRING,
        "/who/age": Kind.INTEGER,
        "/who": Kind.JSON,
        "/no": Kind.JSON,
        "": Kind.JSON,
    } == found


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Kind.INTEGER, 2**63),
        (Kind.INTEGER, -(2**63) - 1),
        (Kind.INTEGER, 1.5),
        (Kind.INTEGER, 1e300),
        (Kind.INTEGER, True),
        (Kind.INTEGER, "1"),
        (Kind.NUMBER, 2**53 + 1),
        (Kind.NUMBER, False),
        (Kind.NUMBER, "2,34"),
        (Kind.STRING, 1),
        (Kind.BOOLEAN, 0),
        (Kind.STRING, ["a"]),
        (Kind.STRING, {}),
    ],
)
def test_a_value_that_would_change_does_not_fit(kind: Kind, value: JSON) -> None:
    """Nothing is rounded, cut or turned into another type."""
    assert MISFIT is typed(Column("/x", kind), value)
    assert MISFIT is typed(Column("/x", kind, True), [None, value])


def test_whole_numbers_may_be_written_as_fractions() -> None:
    """JSON has one kind of number: 3.0 is a whole number, and 3 is a number."""
    cells = [typed(Column("", Kind.INTEGER), 3.0), typed(Column("", Kind.NUMBER), 3)]
    assert [int, float] == [type(cell) for cell in cells]
    assert [3, 3] == cells


SCALARS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(-1e20, 1e20)
VALUES: st.SearchStrategy[JSON] = st.recursive(
    SCALARS | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab"), inner, max_size=2),
    max_leaves=4,
)


@given(VALUES, st.sampled_from(Kind), st.booleans())
def test_what_fits_comes_back_equal(value: JSON, kind: Kind, is_list: bool) -> None:  # noqa: FBT001
    """A cell is the value itself, or its JSON."""
    cell = typed(Column("", kind, is_list), value)
    if kind is Kind.JSON and isinstance(cell, str):
        assert value == parse(cell)
    else:
        assert isinstance(cell, Misfit) or value == cell
