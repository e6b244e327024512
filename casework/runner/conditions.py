"""Conditions on earlier answers: whether an operation is wanted for a case at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Final, TypeGuard

from casework.json_pointer import lookup, parts_of
from casework.strict_json import JSON, JSONObject

_REFERENCES_MAX: Final = 64
"""How many references in a row are followed in a schema; a circle of them tells nothing."""

_MAY_ALLOW_MORE: Final = (
    "$ref",
    "$dynamicRef",
    "allOf",
    "anyOf",
    "oneOf",
    "if",
    "not",
    "dependentSchemas",
    "patternProperties",
    "enum",
    "const",
)
"""Keywords beside which the members of a value cannot be told from ``properties`` alone."""


class ConditionKind(StrEnum):
    """What is asked of the value; the word of the pipeline file."""

    EQUALS = "equals"
    NOT_EQUALS = "not_equals"
    IN = "in"
    """It equals one of these."""
    EXISTS = "exists"
    """It is there (true) or is not (false); null is there."""
    AT_LEAST = "at_least"
    """It is a number and not less."""
    AT_MOST = "at_most"
    """It is a number and not more."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One thing that must hold of the answer of an earlier operation."""

    operation: str
    """The operation whose answer is looked at."""
    pointer: str
    """JSON Pointer into the answer."""
    kind: ConditionKind
    value: JSON = field(repr=False)

    def holds_of(self, answer: JSON) -> bool:
        """Tell whether it holds; of a value that is not there only ``exists = false`` does."""
        found, value = lookup(answer, self.pointer)
        if self.kind is ConditionKind.EXISTS:
            return found is self.value
        return found and _TESTS[self.kind](value, self.value)


def is_number(value: JSON) -> TypeGuard[int | float]:
    """Tell whether a value is a JSON number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def equal(one: JSON, other: JSON) -> bool:
    """Compare as JSON does: 1 equals 1.0, and neither ``"1"`` nor true."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    if is_number(one) and is_number(other):
        return one == other
    return type(one) is type(other) and one == other


def leads_nowhere(schema: JSONObject, pointer: str) -> bool:
    """Tell whether no answer that fits a schema has anything at a pointer, as far as one can tell.

    A member that an object's ``properties`` do not list counts as absent, unless the schema says
    in any way that there may be others.
    """
    return _schema_at(schema, pointer) is _Below.NOTHING


def asks_for_what_cannot_be(schema: JSONObject, condition: Condition) -> bool:
    """Tell whether a condition names a value that the schema's list at that place does not have.

    Only ``enum`` and ``const`` are looked at; where there are neither, any value may come.
    """
    if condition.kind not in {ConditionKind.EQUALS, ConditionKind.NOT_EQUALS, ConditionKind.IN}:
        return False
    found = _schema_at(schema, condition.pointer)
    here = _resolved(schema, found[0]) if isinstance(found, tuple) else None
    if not isinstance(here, dict):
        return False
    listed = [here["const"]] if "const" in here else here.get("enum")
    asked = condition.value if condition.kind is ConditionKind.IN else [condition.value]
    if not (isinstance(listed, list) and isinstance(asked, list)):
        return False
    return not all(_is_in(value, listed) for value in asked)


def _schema_at(schema: JSONObject, pointer: str) -> tuple[JSON] | _Below:
    """Return what the schema says of the value at a pointer, or what is known without that."""
    here: JSON = schema
    for name in parts_of(pointer):
        below = _below(_resolved(schema, here), name)
        if not isinstance(below, tuple):
            return below
        (here,) = below
    return (here,)


class _Below(StrEnum):
    NOTHING = "nothing"
    ANYTHING = "anything"


def _below(here: JSON, name: str) -> tuple[JSON] | _Below:
    """Return the schema of a member or item, or what is known of it without one."""
    if not isinstance(here, dict) or any(word in here for word in _MAY_ALLOW_MORE):
        return _Below.ANYTHING
    types = here.get("type", ["object", "array"])
    allowed = types if isinstance(types, list) else [types]
    match "object" in allowed, "array" in allowed:
        case False, False:
            return _Below.NOTHING
        case True, False:
            return _member(here, name)
        case False, True if "prefixItems" not in here:
            is_position = name.isascii() and name.isdecimal()
            return (here.get("items", True),) if is_position else _Below.NOTHING
        case _:
            return _Below.ANYTHING


def _member(here: JSONObject, name: str) -> tuple[JSON] | _Below:
    properties = here.get("properties")
    if not isinstance(properties, dict) or here.get("additionalProperties", False) is not False:
        return _Below.ANYTHING
    return (properties[name],) if name in properties else _Below.NOTHING


def _resolved(schema: JSONObject, here: JSON) -> JSON:
    """Follow references that stand alone, and only inside the schema."""
    for _ in range(_REFERENCES_MAX):
        if not isinstance(here, dict) or set(here) - {"title", "description"} != {"$ref"}:
            return here
        target = here["$ref"]
        if not isinstance(target, str) or not target.startswith("#/") or "%" in target:
            return here
        found, here = lookup(schema, target[1:])
        if not found:
            return True
    return True


def _is_in(value: JSON, among: JSON) -> bool:
    return isinstance(among, list) and any(equal(value, one) for one in among)


def _at_least(value: JSON, bound: JSON) -> bool:
    return is_number(value) and is_number(bound) and value >= bound


_TESTS: Final[Mapping[ConditionKind, Callable[[JSON, JSON], bool]]] = MappingProxyType(
    {
        ConditionKind.EQUALS: equal,
        ConditionKind.NOT_EQUALS: lambda value, other: not equal(value, other),
        ConditionKind.IN: _is_in,
        ConditionKind.AT_LEAST: _at_least,
        ConditionKind.AT_MOST: lambda value, bound: _at_least(bound, value),
    }
)
