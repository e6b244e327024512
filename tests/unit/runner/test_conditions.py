"""Conditions on earlier answers are strict, and mistakes in them are found from the schema."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.runner.conditions import (
    Condition,
    ConditionKind,
    asks_for_what_cannot_be,
    equal,
    leads_nowhere,
)
from casework.strict_json import JSON, JSONObject, canonical

ANSWER: JSONObject = {
    "severity": "high",
    "score": 3,
    "share": 0.5,
    "flag": True,
    "none": None,
    "list": [{"a": 1}],
    "a/b": {"~": "x"},
}

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from([0.5, 1.0]) | st.text("a1"),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("ab"), inner, max_size=2),
)


def holds(pointer: str, word: str, value: JSON) -> bool:
    """Tell whether a condition holds of the answer."""
    return Condition("triage", pointer, ConditionKind(word), value).holds_of(ANSWER)


@pytest.mark.parametrize(
    ("pointer", "word", "value", "expected"),
    [
        ("/severity", "equals", "high", True),
        ("/severity", "equals", "High", False),
        ("/severity", "in", ["high", "critical"], True),
        ("/severity", "in", ["low"], False),
        ("/severity", "not_equals", "low", True),
        ("/severity", "not_equals", "high", False),
        ("/score", "equals", 3.0, True),
        ("/score", "equals", "3", False),
        ("/score", "at_least", 3, True),
        ("/score", "at_least", 3.5, False),
        ("/score", "at_most", 3, True),
        ("/score", "at_most", 2, False),
        ("/severity", "at_least", 0, False),
        ("/flag", "at_least", 1, False),
        ("/flag", "equals", 1, False),
        ("/flag", "equals", True, True),
        ("/none", "exists", True, True),
        ("/none", "equals", None, True),
        ("/none", "exists", False, False),
        ("/list/0/a", "equals", 1, True),
        ("/list/1/a", "exists", False, True),
        ("/a~1b/~0", "equals", "x", True),
        ("", "exists", True, True),
    ],
)
def test_conditions_hold_strictly(pointer: str, word: str, value: JSON, *, expected: bool) -> None:
    """A number is no text, true is no number, and null is there."""
    assert expected is holds(pointer, word, value)


@pytest.mark.parametrize("word", ["equals", "not_equals", "in", "at_least", "at_most", "exists"])
def test_of_what_is_not_there_only_its_absence_holds(word: str) -> None:
    """Also a negation does not hold of nothing."""
    values: dict[str, JSON] = {"in": ["x"], "exists": True}
    assert not holds("/gone", word, values.get(word, 1))
    assert holds("/gone", "exists", value=False)


@given(VALUES, VALUES)
def test_equality_is_that_of_json(one: JSON, other: JSON) -> None:
    """It is symmetric, and agrees with canonical JSON but for the spelling of numbers."""
    assert equal(one, one)
    assert equal(one, other) is equal(other, one)
    if canonical(one) == canonical(other):
        assert equal(one, other)


CLOSED: JSONObject = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "severity": {"type": "string"},
        "facts": {"type": "array", "items": {"$ref": "#/$defs/fact"}},
        "any": {},
        "either": {"anyOf": [{"type": "object"}, {"type": "null"}]},
        "open": {"type": "object", "properties": {"a": {}}, "additionalProperties": True},
        "pattern": {"type": "object", "properties": {}, "patternProperties": {"^x": {}}},
        "tuple": {"type": "array", "prefixItems": [{}], "items": False},
        "maybe": {"type": ["object", "null"], "properties": {"b": {"type": "integer"}}},
        "level": {"enum": ["low", "high", 1]},
        "kind": {"$ref": "#/$defs/kind"},
    },
    "$defs": {
        "fact": {"type": "object", "properties": {"text": {"type": "string"}}},
        "kind": {"const": "claim"},
    },
}


@pytest.mark.parametrize(
    ("pointer", "nowhere"),
    [
        ("", False),
        ("/severity", False),
        ("/sevrity", True),
        ("/severity/deeper", True),
        ("/facts/0/text", False),
        ("/facts/0/txt", True),
        ("/facts/first", True),
        ("/facts", False),
        ("/any/thing/at/all", False),
        ("/either/x", False),
        ("/open/b", False),
        ("/pattern/xy", False),
        ("/tuple/7", False),
        ("/maybe/b", False),
        ("/maybe/c", True),
        ("/maybe/b/c", True),
    ],
)
def test_a_pointer_that_the_schema_rules_out_is_known(pointer: str, *, nowhere: bool) -> None:
    """Where the schema leaves it open, nothing is refused."""
    assert nowhere is leads_nowhere(CLOSED, pointer)


def test_a_schema_that_refers_to_itself_tells_nothing() -> None:
    """Following references ends."""
    assert not leads_nowhere({"$ref": "#"}, "/a")


@pytest.mark.parametrize(
    ("pointer", "word", "value", "impossible"),
    [
        ("/level", "equals", "high", False),
        ("/level", "equals", "hihg", True),
        ("/level", "equals", 1.0, False),
        ("/level", "equals", True, True),
        ("/level", "not_equals", "medium", True),
        ("/level", "in", ["low", "high"], False),
        ("/level", "in", ["low", "medium"], True),
        ("/level", "exists", True, False),
        ("/level", "at_least", 2, False),
        ("/kind", "equals", "claim", False),
        ("/kind", "equals", "clam", True),
        ("/severity", "equals", "anything", False),
        ("/any", "equals", "anything", False),
        ("/open/b", "equals", "anything", False),
        ("/sevrity", "equals", "anything", False),
    ],
)
def test_a_value_that_the_schema_never_lets_come_is_known(
    pointer: str, word: str, value: JSON, *, impossible: bool
) -> None:
    """A misspelt value would skip the operation in every case, and nobody would be told."""
    condition = Condition("a", pointer, ConditionKind(word), value)
    assert impossible is asks_for_what_cannot_be(CLOSED, condition)
