"""Places in a value are written and found as RFC 6901 says."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.json_pointer import flatten, pointer_to, value_at, with_value
from casework.strict_json import JSON

values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("ab/~", max_size=2), inner, max_size=3)
    ),
    max_leaves=8,
)

WHOLE: JSON = {"a/b": [{"m~n": 7}], "": 8}


def test_pointers_are_written_and_followed() -> None:
    """Escapes go both ways."""
    assert "/a~1b/0/m~0n" == pointer_to("a/b", 0, "m~n")
    assert 7 == value_at(WHOLE, "/a~1b/0/m~0n")
    assert 8 == value_at(WHOLE, "/")
    assert WHOLE == value_at(WHOLE, "")


@pytest.mark.parametrize("pointer", ["/x", "/a~1b/1", "/a~1b/-1", "/a~1b/00", "/a~1b/0/m~0n/x"])
def test_a_pointer_to_nothing_finds_none(pointer: str) -> None:
    """Absent members, positions beyond the end or misspelt, and ways through a leaf."""
    assert value_at(WHOLE, pointer) is None


def test_each_leaf_is_yielded_under_its_pointer() -> None:
    """Arrays and objects are leaves only where they are empty."""
    value: JSON = {"a": [1, {"b/c": None}], "d": [], "e": {}}
    assert [("/a/0", 1), ("/a/1/b~1c", None), ("/d", []), ("/e", {})] == list(flatten(value))
    assert [("", "word")] == list(flatten("word"))


@given(values, st.data(), values)
def test_a_value_put_at_a_leaf_stands_there_and_nothing_else_changed(
    value: JSON, data: st.DataObject, new: JSON
) -> None:
    """What was put is found, the other leaves stay, and the original is not touched."""
    leaves = dict(flatten(value))
    pointer = data.draw(st.sampled_from(sorted(leaves)))
    changed = with_value(value, pointer, new)
    assert new == value_at(changed, pointer)
    assert leaves == dict(flatten(value))
    others = {p: v for p, v in flatten(changed) if p != pointer and not p.startswith(f"{pointer}/")}
    assert others == {p: v for p, v in leaves.items() if p != pointer}


@pytest.mark.parametrize(
    ("value", "pointer", "expected"),
    [
        ({}, "/a", {"a": 1}),
        ([], "/-", [1]),
        ([5], "/1", [5, 1]),
        ([5], "/0", [1]),
        ({"a~/b": 0}, "/a~0~1b", {"a~/b": 1}),
        ({"": 0}, "/", {"": 1}),
        ("text", "", 1),
    ],
)
def test_members_and_items_are_replaced_or_added(value: JSON, pointer: str, expected: JSON) -> None:
    """A member that is not there is added; an item goes behind the last one."""
    assert expected == with_value(value, pointer, 1)


@pytest.mark.parametrize(
    ("value", "pointer"),
    [
        ({}, "/a/b"),
        ([], "/-/a"),
        ([5], "/2"),
        ([5], "/01"),
        ([5], "/-1"),
        (5, "/a"),
        ({}, "a"),
        (None, "/a"),
    ],
)
def test_a_pointer_through_nothing_is_refused(value: JSON, pointer: str) -> None:
    """Nothing is made up on the way."""
    with pytest.raises(LookupError):
        with_value(value, pointer, 1)
