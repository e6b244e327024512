"""Every key of a TOML text has a line and a column."""

from __future__ import annotations

import string
from typing import Any

import pytest
import tomli
from hypothesis import given
from hypothesis import strategies as st

from casework.config.toml_places import Path, TomlPlaces

TEXT = '''# comment with [brackets] and "quotes"
top = "a # no comment"
many = [ 1, # one ]
  "two, ]", { three = 3, "four.five" = '4' } ]
long = """
[not.a.table]
key = 'no key' \\""" still inside
"""
raw = \'\'\'
[[neither]]
\'\'\'

[[providers]]
id = "a"
rates.input = 1
[providers.more]
deep = 1

[[providers]]
  "id" = "b"
\t'model' = "c"
[[providers.inner]]
x = 1
[[providers.inner]]
x = 2
[a.b.c]
d = 2026-01-01T00:00:00Z
'''


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ((), (1, 1)),
        (("top",), (2, 1)),
        (("many",), (3, 1)),
        (("many", 1), (4, 3)),
        (("many", 2, "three"), (4, 15)),
        (("many", 2, "four.five"), (4, 26)),
        (("long",), (5, 1)),
        (("raw",), (9, 1)),
        (("providers",), (13, 1)),
        (("providers", 0, "id"), (14, 1)),
        (("providers", 0, "rates", "input"), (15, 1)),
        (("providers", 0, "more", "deep"), (17, 1)),
        (("providers", 1), (19, 1)),
        (("providers", 1, "id"), (20, 3)),
        (("providers", 1, "model"), (21, 2)),
        (("providers", 1, "inner", 1, "x"), (25, 1)),
        (("a", "b", "c", "d"), (27, 1)),
    ],
)
def test_a_key_is_found_where_it_stands(path: Path, expected: tuple[int, int]) -> None:
    """Tables, arrays of tables, dotted keys, inline tables and strings are told apart."""
    assert tomli.loads(TEXT)
    assert expected == TomlPlaces(TEXT).line_and_column(path)


def test_an_absent_key_stands_where_its_table_does() -> None:
    """A key that is missing is reported at the table that misses it."""
    assert (19, 1) == TomlPlaces(TEXT).line_and_column(("providers", 1, "adapter", "deeper"))


NAMES = st.text(string.ascii_lowercase, min_size=1, max_size=4)
SCALARS = st.one_of(
    st.integers(-9, 9),
    st.booleans(),
    st.text(string.printable, max_size=12).filter(str.isprintable),
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=8,
)


def written(value: object) -> str:
    """Write a value as TOML does inline."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        case list():
            return "[" + ", ".join(written(item) for item in value) + "]"
        case dict():
            return (
                "{" + ", ".join(f"{name} = {written(item)}" for name, item in value.items()) + "}"
            )
        case _:
            return str(value)


def paths(value: object, at: Path = ()) -> list[Path]:
    """List every path into a value."""
    match value:
        case list():
            pairs: list[tuple[str | int, object]] = list(enumerate(value))
        case dict():
            pairs = list(value.items())
        case _:
            return []
    return [path for name, item in pairs for path in [(*at, name), *paths(item, (*at, name))]]


@given(st.dictionaries(NAMES, VALUES, min_size=1, max_size=4))
def test_every_path_that_the_parser_sees_has_a_place(table: dict[str, Any]) -> None:
    """The scan agrees with the parser about which keys there are, and never loses its way."""
    text = "\n".join(f"{name} = {written(value)}" for name, value in table.items())
    assert table == tomli.loads(text)
    assert {(), *paths(table)} == set(TomlPlaces(text).offsets)
