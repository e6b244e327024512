"""A schema that could fetch, loop or explode is refused by its shape alone."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable

import pytest

from casework.errors import InvalidRequest
from casework.gateway.schema_shape import (
    WORK_MAX,
    canonical_schema,
    data_depth_max,
    nesting_exceeds,
)
from casework.strict_json import JSON, JSONObject


def refused(judge: Callable[[JSONObject], object], schema: JSONObject) -> str:
    """Return where a schema is refused."""
    with pytest.raises(InvalidRequest) as caught:
        judge(schema)
    assert "schema_not_allowed" == caught.value.code
    assert "\n" not in str(caught.value)
    assert caught.value.remedy
    return (caught.value.where or "").removeprefix("output_schema#")


def nested(depth: int) -> JSONObject:
    """Return a schema of so many levels."""
    return functools.reduce(lambda inner, _: {"not": inner}, range(depth), {})


def doubling(levels: int) -> JSONObject:
    """Return a schema of which each level refers twice to the next."""
    rules: dict[str, JSON] = {
        f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}, {"$ref": f"#/$defs/a{i + 1}"}]}
        for i in range(levels)
    }
    return {"$defs": {**rules, f"a{levels}": {"type": "string"}}, "$ref": "#/$defs/a0"}


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        ({"$ref": "http://127.0.0.1:1/s.json"}, "/$ref"),
        ({"$ref": "//127.0.0.1/s.json"}, "/$ref"),
        ({"$ref": "other.json"}, "/$ref"),
        ({"$ref": ""}, "/$ref"),
        ({"properties": {"a/b": {"$ref": "file:///etc/passwd"}}}, "/properties/a~1b/$ref"),
        ({"items": {"$dynamicRef": "https://x/y#z"}}, "/items/$dynamicRef"),
        ({"anyOf": [{}, {"$recursiveRef": "x"}]}, "/anyOf/1/$recursiveRef"),
        ({"$defs": {"unused": {"$ref": "https://x"}}}, "/$defs/unused/$ref"),
        ({"definitions": {"unused": {"$ref": "https://x"}}}, "/definitions/unused/$ref"),
        ({"dependentSchemas": {"a": {"$ref": "x"}}}, "/dependentSchemas/a/$ref"),
        ({"patternProperties": {"^a": {"$ref": "x"}}}, "/patternProperties/^a/$ref"),
        ({"prefixItems": [{"$ref": "x"}]}, "/prefixItems/0/$ref"),
        ({"$ref": "#/x/y", "x": {"y": {"$ref": "https://x"}}}, "/x/y/$ref"),
        ({"$id": "https://example.com/s"}, "/$id"),
        ({"items": {"$id": "s"}}, "/items/$id"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "/$schema"),
        ({"$schema": "https://evil.example/meta"}, "/$schema"),
        ({"items": {"$schema": 3}}, "/items/$schema"),
    ],
)
def test_what_leads_out_is_refused_where_it_stands(schema: JSONObject, where: str) -> None:
    """Remote, file and relative references, other identities and dialects are all refused."""
    assert where == refused(data_depth_max, schema)


@pytest.mark.parametrize(
    "schema",
    [
        {"$schema": "https://json-schema.org/draft/2020-12/schema"},
        {"$schema": "https://json-schema.org/draft/2020-12/schema#"},
        {"$ref": "#/$defs/a", "$defs": {"a": {}}},
        {"$ref": "#a", "$defs": {"b": {"$anchor": "a"}}},
        {"$dynamicRef": "#a", "$defs": {"b": {"$dynamicAnchor": "a"}}},
        {"$ref": "#/$defs/a%20b~1c", "$defs": {"a b/c": {}}},
        {"properties": {"$ref": {"type": "string"}, "$id": {}, "$schema": {}}},
        {"enum": [{"$ref": "https://x"}], "const": {"$id": "x"}, "default": {"$ref": "y"}},
        {"examples": [{"$ref": "https://x"}]},
    ],
)
def test_what_stays_inside_is_taken(schema: JSONObject) -> None:
    """Local references, and names or constants that only look like references, are fine."""
    assert data_depth_max(schema) is None


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"allOf": [{"$ref": "#"}]},
        {"not": {"$ref": "#"}},
        {"if": {}, "then": {"$ref": "#"}},
        {"dependentSchemas": {"a": {"$ref": "#"}}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
        {"properties": {"x": {"$anchor": "x", "anyOf": [{"$ref": "#x"}]}}},
    ],
)
def test_a_rule_that_applies_itself_to_the_same_value_is_refused(schema: JSONObject) -> None:
    """Recursion that never goes deeper into the value never ends."""
    assert refused(data_depth_max, schema) is not None


def test_recursion_into_the_value_is_allowed_at_any_depth() -> None:
    """Trees and linked lists are ordinary schemas."""
    tree: JSONObject = {
        "type": ["object", "null"],
        "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}, "n": {"type": "integer"}},
        "additionalProperties": False,
    }
    items: JSONObject = {"type": ["array", "string"], "items": {"$ref": "#"}}
    choice: JSONObject = {
        "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
    }
    assert [None, None, None] == [data_depth_max(s) for s in (tree, items, choice)]


def test_alternatives_that_lead_back_bound_the_depth_of_values() -> None:
    """Where work doubles with depth, values may only be so deep that it stays in bounds."""
    twice: JSONObject = {"properties": {"a": {"oneOf": [{"$ref": "#"}, {"$ref": "#"}]}}}
    depth = data_depth_max(twice)
    assert depth is not None
    assert 10 < depth < 20
    assert 4 ** (depth + 1) > WORK_MAX


def test_doubling_without_a_value_is_refused_at_once() -> None:
    """A schema of a few kilobytes cannot ask for billions of steps."""
    begun = time.process_time()
    assert "" == refused(data_depth_max, doubling(63))
    assert data_depth_max(doubling(8)) is None
    assert time.process_time() - begun < 2.0


def test_a_long_chain_of_references_is_refused() -> None:
    """A chain that would exhaust a stack ends in an error."""
    rules: dict[str, JSON] = {f"a{i}": {"$ref": f"#/$defs/a{i + 1}"} for i in range(3000)}
    schema: JSONObject = {"$defs": {**rules, "a3000": {}}, "$ref": "#/$defs/a0"}
    assert refused(data_depth_max, schema).startswith("/$defs/a")


def web(*, rules: int, members: int) -> JSONObject:
    """Return a schema in which every member of every rule leads to another rule, and back."""
    return {
        "$ref": "#/$defs/a0",
        "$defs": {
            f"a{i}": {
                "properties": {
                    f"p{j}": {"$ref": f"#/$defs/a{(i + j) % rules}"} for j in range(members)
                }
            }
            for i in range(rules)
        },
    }


def test_a_web_of_references_is_judged_at_once() -> None:
    """Rules that thousands refer to are gone through once for each depth, not for each of them."""
    begun = time.process_time()
    depth = data_depth_max(web(rules=60, members=100))
    assert depth is not None
    assert depth > 30
    assert time.process_time() - begun < 2.0
    assert data_depth_max(web(rules=10, members=20)) is None


def test_rules_that_are_joined_over_and_over_are_refused() -> None:
    """Each of a hundred rules takes over the hundreds of members of all before it."""
    rules: dict[str, JSON] = {
        f"a{i}": {
            "allOf": [{"$ref": f"#/$defs/a{i + 1}"}],
            "properties": {f"p{j}": {} for j in range(150)},
        }
        for i in range(60)
    }
    schema: JSONObject = {"$defs": {**rules, "a60": {}}, "$ref": "#/$defs/a0"}
    assert refused(data_depth_max, schema).startswith("/$defs/a")
    assert data_depth_max({**schema, "$ref": "#/$defs/a50"}) is None


def test_size_depth_and_values_have_limits() -> None:
    """A schema is small, flat and plain JSON."""
    assert "" == refused(canonical_schema, {"description": "x" * 262_144})
    assert "" == refused(canonical_schema, nested(65))
    assert "" == refused(canonical_schema, nested(50_000))
    assert "" == refused(canonical_schema, {"const": float("nan")})
    assert "" == refused(canonical_schema, {"const": "\ud800"})
    assert b'{"a":1,"b":2}' == canonical_schema({"b": 2, "a": 1})
    assert canonical_schema(nested(64))


def test_a_pointer_with_a_line_end_stays_on_one_line() -> None:
    """Names in a schema cannot break an error's line."""
    assert "\\n" in refused(data_depth_max, {"properties": {"a\nb": {"$ref": "x"}}})


def test_nesting_is_counted_without_recursion() -> None:
    """Depth is measured however deep a value is."""
    deep: JSON = []
    for _ in range(100_000):
        deep = [deep]
    assert nesting_exceeds(deep, 99_999)
    assert not nesting_exceeds([[1], 2], 2)
    assert nesting_exceeds([[1], 2], 1)
    assert not nesting_exceeds("text", 0)
