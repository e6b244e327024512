"""Which typed columns an answer fills, read from its schema alone, never from the answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final
from urllib.parse import unquote

from casework.errors import RunnerError
from casework.json_pointer import pointer_to, value_at
from casework.strict_json import JSON, JSONObject, canonical

COLUMNS_MAX: Final = 16_384
"""As many columns as the common spreadsheets have."""

OUTPUT: Final = "output"
"""Name of the column of an answer that is no object."""

_DEPTH_MAX: Final = 64
_INTEGER_MIN, _INTEGER_MAX = -(2**63), 2**63 - 1
_JUDGING: Final = frozenset({"type", "properties", "enum", "const", "anyOf", "oneOf", "allOf"})
_CHOICES: Final = ("anyOf", "oneOf")


class Kind(Enum):
    """What a column holds; every column may hold nothing."""

    INTEGER = auto()
    """Whole numbers of 64 bits."""
    NUMBER = auto()
    """Binary floating-point numbers of 64 bits."""
    STRING = auto()
    BOOLEAN = auto()
    JSON = auto()
    """Anything, as canonical JSON text."""


_KINDS: Final = {
    frozenset({"integer"}): Kind.INTEGER,
    frozenset({"number"}): Kind.NUMBER,
    frozenset({"integer", "number"}): Kind.NUMBER,
    frozenset({"string"}): Kind.STRING,
    frozenset({"boolean"}): Kind.BOOLEAN,
}


@dataclass(frozen=True, slots=True)
class Column:
    """A place in an answer and what stands there."""

    pointer: str
    kind: Kind
    is_list: bool = False
    """The column holds lists of its kind."""

    @property
    def name(self) -> str:
        """Return the column's name: the JSON Pointer, as in the CSV."""
        return self.pointer or OUTPUT


class Misfit:
    """Stands for a value that its column cannot hold without changing it."""


MISFIT: Final = Misfit()

Cell = int | float | str | bool | list["Cell"] | None


def columns_of(schema: JSONObject) -> tuple[Column, ...]:
    """Return the columns of a schema's answers, in the order of the schema.

    Objects with named members are taken apart; everything without one plain type is JSON.

    Raises:
        RunnerError: There are more than a table can have; code ``too_many_columns``.
    """
    found = []
    for column in _SchemaWalk(schema).columns(schema, "", frozenset({"#"})):
        found.append(column)
        if len(found) > COLUMNS_MAX:
            raise RunnerError(
                f"the answers need more than {COLUMNS_MAX} columns",
                code="too_many_columns",
                remedy="export JSON Lines, or name the fields that you want",
            )
    return tuple(found)


def column_at(schemas: Iterable[JSONObject], pointer: str) -> Column:
    """Return the column of one place that a person chose; unknown and composite places are JSON."""
    kinds = [_SchemaWalk(schema).column_at(pointer) for schema in schemas]
    known = [column for column in kinds if column is not None]
    merged = known[0] if known else Column(pointer, Kind.JSON)
    for column in known[1:]:
        merged = _merged(merged, column)
    return merged


def united(tables: Iterable[tuple[Column, ...]]) -> Mapping[str, Column]:
    """Return the columns of several schemas by their pointer; where types differ it is JSON."""
    columns: dict[str, Column] = {}
    for table in tables:
        for column in table:
            before = columns.get(column.pointer, column)
            columns[column.pointer] = _merged(before, column)
    return columns


def typed(column: Column, value: JSON) -> Cell | Misfit:
    """Return a value as its column holds it, or that the column cannot hold it unchanged."""
    if value is None:
        return None
    if column.kind is Kind.JSON:
        return canonical(value).decode()
    if not column.is_list:
        return _scalar(column.kind, value)
    if not isinstance(value, list):
        return MISFIT
    cells: list[Cell] = []
    for item in value:
        cell = None if item is None else _scalar(column.kind, item)
        if isinstance(cell, Misfit):
            return MISFIT
        cells.append(cell)
    return cells


def _scalar(kind: Kind, value: JSON) -> Cell | Misfit:
    match kind, value:
        case (Kind.STRING, str(text)):
            return text
        case (Kind.BOOLEAN, bool(truth)):
            return truth
        case (Kind.INTEGER | Kind.NUMBER, bool()):
            return MISFIT
        case (Kind.INTEGER, int(number) | float(number)) if number == int(number):
            return int(number) if _INTEGER_MIN <= number <= _INTEGER_MAX else MISFIT
        case (Kind.NUMBER, int(number) | float(number)) if number == float(number):
            return float(number)
        case _:
            return MISFIT


def _merged(one: Column, other: Column) -> Column:
    if one == other:
        return one
    if one.is_list == other.is_list and {one.kind, other.kind} == {Kind.INTEGER, Kind.NUMBER}:
        return Column(one.pointer, Kind.NUMBER, one.is_list)
    return Column(one.pointer, Kind.JSON)


@dataclass(frozen=True, slots=True)
class _SchemaWalk:
    """Reads one schema, whose local references it follows."""

    root: JSONObject

    def columns(self, schema: JSON, pointer: str, seen: frozenset[str]) -> Iterator[Column]:
        """Yield the columns at and below a place.

        Args:
            schema: The rules of the place.
            pointer: The place.
            seen: References that led here; one that leads back to itself ends in JSON.
        """
        plain, seen = self._plain(schema, seen)
        properties = plain.get("properties")
        maybe_object = self._types(plain, seen) <= {"object"} and not {"enum", "const"} & set(plain)
        shallow = pointer.count("/") < _DEPTH_MAX
        if maybe_object and shallow and isinstance(properties, dict) and properties:
            for name, inner in properties.items():
                yield from self.columns(inner, pointer + pointer_to(name), seen)
            return
        yield self._leaf(plain, pointer, seen)

    def column_at(self, pointer: str) -> Column | None:
        """Return the column of one place; None where the schema names no such place."""
        schema, seen = self._plain(self.root, frozenset({"#"}))
        for part in pointer.split("/")[1:]:
            properties = schema.get("properties")
            name = part.replace("~1", "/").replace("~0", "~")
            inner: JSON = None
            if isinstance(properties, dict):
                inner = properties.get(name)
            elif name.isdecimal() and "prefixItems" not in schema:
                inner = schema.get("items")
            if inner is None:
                return None
            schema, seen = self._plain(inner, seen)
        return self._leaf(schema, pointer, seen)

    def _leaf(self, plain: JSONObject, pointer: str, seen: frozenset[str]) -> Column:
        types = self._types(plain, seen)
        if types == {"array"} and "prefixItems" not in plain:
            items, below = self._plain(plain.get("items"), seen)
            kind = _KINDS.get(self._types(items, below))
            return Column(pointer, Kind.JSON) if kind is None else Column(pointer, kind, True)
        return Column(pointer, _KINDS.get(types, Kind.JSON))

    def _plain(self, schema: JSON, seen: frozenset[str]) -> tuple[JSONObject, frozenset[str]]:
        """Follow references, and choices that leave but one thing beside null."""
        for _ in range(_DEPTH_MAX):
            if not isinstance(schema, dict):
                return {}, seen
            reference = schema.get("$ref")
            if isinstance(reference, str):
                if _JUDGING & schema.keys() or reference in seen:
                    return {}, seen
                seen |= {reference}
                schema = self._target(reference)
                continue
            only = _only_choice(schema)
            if only is None:
                return schema, seen
            schema = only
        return {}, seen

    def _target(self, reference: str) -> JSON:
        pointer = unquote(reference.removeprefix("#"))
        local = reference.startswith("#") and pointer.startswith("/")
        return value_at(self.root, pointer) if local else None

    def _types(self, plain: JSONObject, seen: frozenset[str]) -> frozenset[str]:
        """Return the types that a place may have beside null; none where nobody says."""
        named = plain.get("type")
        if isinstance(named, str):
            return frozenset({named})
        if isinstance(named, list):
            return frozenset(name for name in named if isinstance(name, str) and name != "null")
        if "const" in plain or isinstance(plain.get("enum"), list):
            values = [plain["const"]] if "const" in plain else plain["enum"]
            assert isinstance(values, list)
            return frozenset(_type_of(value) for value in values if value is not None)
        for word in _CHOICES:
            choices = plain.get(word)
            if isinstance(choices, list) and len(_JUDGING & plain.keys()) == 1:
                found = [self._types(*self._plain(choice, seen)) for choice in choices]
                scalar = all(types in _KINDS or types == {"null"} for types in found)
                return frozenset().union(*found) - {"null"} if scalar else frozenset()
        return frozenset()


def _only_choice(schema: JSONObject) -> JSON:
    judging = _JUDGING & schema.keys()
    if len(judging) != 1:
        return None
    (word,) = judging
    choices = schema[word] if word in {*_CHOICES, "allOf"} else None
    if not isinstance(choices, list):
        return None
    rest = [choice for choice in choices if not _is_null(choice)]
    return rest[0] if len(rest) == 1 else None


def _is_null(schema: JSON) -> bool:
    if not isinstance(schema, dict):
        return False
    only_null = schema.get("type") == "null" or schema.get("enum") == [None]
    return only_null or ("const" in schema and schema["const"] is None)


def _type_of(value: JSON) -> str:
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"
