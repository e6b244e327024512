"""The order of operations, and circles in it."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from casework.runner.graph import circle_in, in_order


def test_the_order_of_the_file_stays_where_nothing_speaks_against_it() -> None:
    """What needs something stands right behind the last that it needs, or where it stood."""
    assert ("a", "b", "c") == in_order({"a": (), "b": (), "c": ()})
    assert ("b", "a", "c") == in_order({"a": ("b",), "b": (), "c": ("a",)})


def test_a_circle_is_named_whole() -> None:
    """And nothing that only leads into it."""
    assert ("b", "c", "d", "b") == circle_in({"a": ("b",), "b": ("c",), "c": ("d",), "d": ("b",)})
    assert circle_in({"a": ("b", "c"), "b": ("c",), "c": ()}) is None


@given(st.dictionaries(st.integers(0, 9), st.lists(st.integers(0, 9), max_size=3), max_size=10))
def test_either_there_is_a_circle_or_an_order(edges: dict[int, list[int]]) -> None:
    """Never both and never neither; a circle is one, and an order respects every need."""
    names = {str(key) for key in edges}
    needs = {
        str(key): tuple(str(value) for value in values if str(value) in names)
        for key, values in edges.items()
    }
    circle = circle_in(needs)
    if circle is not None:
        assert circle[0] == circle[-1]
        pairs = pairwise(circle)
        assert all(after in needs[before] for before, after in pairs)
        return
    order = in_order(needs)
    assert sorted(needs) == sorted(order)
    assert all(
        order.index(need) < order.index(name) for name, wanted in needs.items() for need in wanted
    )
