"""A sample satisfies the schema that it was made from."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fault_upstream.json_samples import sample

TREE = {
    "$defs": {
        "node": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "below": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
            },
            "required": ["name", "below"],
        }
    },
    "$ref": "#/$defs/node",
}

LEAVES = st.one_of(
    st.just({"type": "boolean"}),
    st.just({"type": ["string", "null"]}),
    st.just({"enum": ["b", 3]}),
    st.just({"const": None}),
    st.builds(
        lambda low: {"type": "string", "minLength": low, "maxLength": low + 2}, st.integers(0, 9)
    ),
    st.builds(
        lambda low, span: {"type": "integer", "minimum": low, "maximum": low + span},
        st.integers(-9, 9),
        st.integers(0, 9),
    ),
    st.builds(lambda low: {"type": "integer", "exclusiveMinimum": low}, st.integers(-9, 9)),
    st.builds(lambda high: {"type": "number", "maximum": high}, st.integers(-9, 9)),
    st.builds(
        lambda step: {"type": "integer", "minimum": 5, "multipleOf": step}, st.integers(1, 7)
    ),
    st.sampled_from(["date", "date-time", "email", "uuid", "ipv4"]).map(
        lambda name: {"type": "string", "format": name}
    ),
)


def _grown(below: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    fields = st.dictionaries(st.sampled_from("abcd"), below, max_size=3)
    return st.one_of(
        fields.map(
            lambda each: {
                "type": "object",
                "properties": each,
                "required": sorted(each),
                "additionalProperties": False,
            }
        ),
        st.builds(
            lambda items, low: {"type": "array", "items": items, "minItems": low},
            below,
            st.integers(0, 3),
        ),
        st.lists(below, min_size=1, max_size=3).map(lambda each: {"anyOf": each}),
    )


@given(st.recursive(LEAVES, _grown, max_leaves=8))
def test_a_sample_satisfies_its_schema(schema: dict[str, Any]) -> None:
    """Whatever is nested in it."""
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    validator = jsonschema.Draft202012Validator(schema, format_checker=checker)
    assert [] == list(validator.iter_errors(sample(schema)))


@pytest.mark.parametrize(
    "schema",
    [
        TREE,
        {
            "allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}],
            "type": "object",
        },
        {"prefixItems": [{"const": 1}, {"const": 2}], "type": "array", "items": False},
        {"oneOf": [{"type": "integer"}, {"type": "string"}]},
        {},
    ],
)
def test_a_sample_ends(schema: dict[str, Any]) -> None:
    """Schemas that refer to themselves, combine or say nothing have samples too."""
    assert [] == list(jsonschema.Draft202012Validator(schema).iter_errors(sample(schema)))
