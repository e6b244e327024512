"""Places in a value are written and found as RFC 6901 says."""

from __future__ import annotations

import pytest

from casework.json_pointer import flatten, pointer_to, value_at
from casework.strict_json import JSON

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
