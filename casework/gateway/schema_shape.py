"""Judge an output schema by its shape before any engine sees it.

What is refused here could make an engine open a file or a socket, loop, or work for ever:
references that leave the schema, a schema that applies itself to the same value again, and
repetition that doubles with every step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from casework.errors import InvalidRequest
from casework.json_pointer import pointer_to, value_at
from casework.strict_json import DEPTH_MAX, JSON, JSONObject, canonical

SCHEMA_BYTES_MAX: Final = 256 * 1024
SCHEMA_DEPTH_MAX: Final = 64
CHAIN_MAX: Final = 128
"""Most subschemas that may lead one to the next for one and the same value."""

WORK_MAX: Final = 200_000
"""Most rules that may be tried against one value and all that it lies in."""

STEPS_MAX: Final = 200_000
"""Most ways from values to their parts that are followed to judge a schema by its shape."""

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

MEMBERS: Final = "member"
ITEMS: Final = "item"

_SAME_VALUE: Final = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas")
_EVERY_PART: Final = {
    "additionalProperties": MEMBERS,
    "unevaluatedProperties": MEMBERS,
    "propertyNames": MEMBERS,
    "patternProperties": MEMBERS,
    "items": ITEMS,
    "contains": ITEMS,
    "unevaluatedItems": ITEMS,
}
_NAMED_PARTS: Final = {"properties": MEMBERS, "prefixItems": ITEMS}
_DEFINITIONS: Final = ("$defs", "definitions")
_ANCHORS: Final = ("$anchor", "$dynamicAnchor")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")


def schema_not_allowed(pointer: str, problem: str, remedy: str) -> InvalidRequest:
    """Make the error for one place in an output schema."""
    place = f"output_schema#{pointer}"
    return InvalidRequest(
        problem,
        code="schema_not_allowed",
        where=place if place.isprintable() else ascii(place),
        remedy=remedy,
    )


def canonical_schema(schema: JSONObject) -> bytes:
    """Return a schema's canonical form if it is small, flat and plain enough.

    Raises:
        InvalidRequest: It is not.
    """
    if nesting_exceeds(schema, SCHEMA_DEPTH_MAX):
        raise schema_not_allowed(
            "", f"nests deeper than {SCHEMA_DEPTH_MAX}", "move the inner parts to $defs"
        )
    try:
        content = canonical(schema)
    except (TypeError, ValueError):
        content = b""
    if not content:
        raise schema_not_allowed("", "holds a value that JSON cannot hold", "write plain JSON")
    if len(content) > SCHEMA_BYTES_MAX:
        raise schema_not_allowed("", f"is larger than {SCHEMA_BYTES_MAX} bytes", "shorten it")
    return content


def nesting_exceeds(value: JSON, depth_max: int) -> bool:
    """Tell whether arrays and objects nest deeper than so many levels."""
    level: list[JSON] = [value]
    for _ in range(depth_max + 1):
        level = [part for whole in level for part in _parts(whole)]
        if not level:
            return False
    return True


def data_depth_max(schema: JSONObject) -> int | None:
    """Return how deep a value may nest that is checked against a schema; None for any depth.

    A schema that tries several alternatives on the same member, each leading back to itself, takes
    work that doubles with the depth of the value; such a schema gets a bound.

    Raises:
        InvalidRequest: The schema leaves itself, applies itself to the same value for ever, or
            asks for too much work whatever the value.
    """
    shape = _Shape(schema)
    shape.explore()
    return shape.depth_max()


def _parts(value: JSON) -> Iterator[JSON]:
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list):
        yield from value


@dataclass(frozen=True, slots=True)
class _Step:
    """A way from a value down to a part of it, and the rule that waits there."""

    kind: str
    name: str | None
    """Member or position, as a pointer writes it; None for all of them."""
    target: str


@dataclass(slots=True)
class _Node:
    """One subschema: which others judge the same value, and which judge its parts."""

    same_value: list[str] = field(default_factory=list)
    steps: list[_Step] = field(default_factory=list)


@dataclass(slots=True)
class _Reach:
    """What one subschema comes to once everything that judges the same value is counted in."""

    rules: int
    steps: Counter[_Step]


class _Shape:
    def __init__(self, schema: JSONObject) -> None:
        self._schema = schema
        self._nodes: dict[str, _Node] = {}
        self._reach: dict[str, _Reach] = {}
        self._steps = 0
        """Steps gathered so far."""
        self._anchors: dict[str, str] = {}
        self._waiting: list[tuple[str, JSON]] = [("", schema)]

    def explore(self) -> None:
        """Visit every subschema that can be reached, and every one that is only defined."""
        references: list[tuple[str, str]] = []
        while self._waiting or references:
            if self._waiting:
                pointer, subschema = self._waiting.pop()
                if pointer not in self._nodes:
                    self._nodes[pointer] = _Node()
                    if isinstance(subschema, dict):
                        references += self._visit(pointer, subschema)
            else:
                self._follow(*references.pop())

    def depth_max(self) -> int | None:
        """Return the greatest depth of a value at which the work stays within its bound."""
        entries = {""} | {step.target for node in self._nodes.values() for step in node.steps}
        reach = {entry: self._reach_of(entry, ()) for entry in entries}
        work = {entry: found.rules for entry, found in reach.items()}
        if work[""] > WORK_MAX:
            raise schema_not_allowed(
                "", f"tries more than {WORK_MAX} rules on one value", "use fewer alternatives"
            )
        distinct = {id(found.steps): found.steps for found in reach.values()}
        cost = sum(map(len, distinct.values()))
        for depth in range(1, DEPTH_MAX + 1):
            if cost * depth > STEPS_MAX:
                return depth - 1
            below = {steps: _work(found, work) for steps, found in distinct.items()}
            deeper = {entry: found.rules + below[id(found.steps)] for entry, found in reach.items()}
            if deeper == work:
                return None
            if deeper[""] > WORK_MAX:
                return depth - 1
            work = deeper
        return None

    def _visit(self, pointer: str, schema: JSONObject) -> list[tuple[str, str]]:
        if _SPOKEN_OF.isdisjoint(schema):
            return []
        self._refuse_foreign(pointer, schema)
        node = self._nodes[pointer]
        for keyword in _SAME_VALUE:
            node.same_value += self._children(pointer, schema, keyword)
        for keyword, kind in _EVERY_PART.items():
            targets = self._children(pointer, schema, keyword)
            node.steps += [_Step(kind, None, target) for target in targets]
        for keyword, kind in _NAMED_PARTS.items():
            targets = self._children(pointer, schema, keyword)
            node.steps += [_Step(kind, target.rpartition("/")[2], target) for target in targets]
        for keyword in _DEFINITIONS:
            self._children(pointer, schema, keyword)
        for keyword in _ANCHORS:
            if keyword in schema:
                self._anchors[str(schema[keyword])] = pointer
        return [(pointer, keyword) for keyword in _REFERENCES if keyword in schema]

    def _children(self, pointer: str, schema: JSONObject, keyword: str) -> list[str]:
        """Return the pointers of the subschemas under a keyword, and queue them for a visit."""
        value = schema.get(keyword)
        here = pointer + pointer_to(keyword)
        found: list[tuple[str, JSON]] = []
        if isinstance(value, list):
            found = [(here + pointer_to(i), item) for i, item in enumerate(value)]
        elif isinstance(value, dict) and keyword in _MAPS:
            found = [(here + pointer_to(name), item) for name, item in value.items()]
        elif isinstance(value, dict | bool):
            found = [(here, value)]
        self._waiting += found
        return [child for child, _ in found]

    def _refuse_foreign(self, pointer: str, schema: JSONObject) -> None:
        for keyword in (*_REFERENCES, "$id"):
            value = schema.get(keyword)
            if isinstance(value, str) and not value.startswith("#"):
                raise schema_not_allowed(
                    pointer + pointer_to(keyword),
                    "leads out of the schema, where nothing is ever fetched",
                    "copy what it names to $defs and refer to it as #/$defs/NAME",
                )
        dialect = schema.get("$schema", DIALECT)
        if not isinstance(dialect, str) or dialect.removesuffix("#") != DIALECT:
            raise schema_not_allowed(
                pointer + pointer_to("$schema"),
                "names another dialect than draft 2020-12",
                f'remove it or write "{DIALECT}"',
            )

    def _follow(self, pointer: str, keyword: str) -> None:
        """Join a subschema to the one that it refers to."""
        node, reference = value_at(self._schema, pointer), ""
        if isinstance(node, dict):
            reference = str(node[keyword])
        fragment = unquote(reference[1:])
        target: str | None = fragment
        if fragment.startswith("/"):
            self._waiting.append((fragment, value_at(self._schema, fragment)))
        elif fragment:
            target = self._anchors.get(fragment)
        if target is not None:
            self._nodes[pointer].same_value.append(target)

    def _reach_of(self, pointer: str, trail: tuple[str, ...]) -> _Reach:
        known = self._reach.get(pointer)
        if known is not None:
            return known
        if pointer in trail or len(trail) > CHAIN_MAX:
            raise schema_not_allowed(
                pointer,
                f"leads to itself, or over {CHAIN_MAX} others, without going deeper into the value",
                "let it refer to itself only below properties or items",
            )
        node = self._nodes[pointer]
        inner = [self._reach_of(other, (*trail, pointer)) for other in node.same_value]
        if len(inner) == 1 and not node.steps:
            steps = inner[0].steps  # a mere reference, of which a schema may hold thousands
        else:
            self._steps += len(node.steps) + sum(len(other.steps) for other in inner)
            if self._steps > STEPS_MAX:
                raise schema_not_allowed(
                    pointer, f"joins more than {STEPS_MAX} rules", "join fewer subschemas"
                )
            steps = Counter(node.steps)
            for other in inner:
                steps.update(other.steps)
        self._reach[pointer] = _Reach(1 + sum(other.rules for other in inner), steps)
        return self._reach[pointer]


_MAPS: Final = frozenset(
    {"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"}
)


_SPOKEN_OF: Final = frozenset(
    {
        *(*_SAME_VALUE, *_EVERY_PART, *_NAMED_PARTS, *_DEFINITIONS, *_ANCHORS, *_REFERENCES),
        *("$id", "$schema"),
    }
)
"""Keywords that are looked at here."""


def _work(steps: Counter[_Step], work: dict[str, int]) -> int:
    """Return the rules tried on the worst of a value's parts."""
    named: Counter[tuple[str, str]] = Counter()
    every: Counter[str] = Counter()
    for step, times in steps.items():
        if step.name is None:
            every[step.kind] += times * work[step.target]
        else:
            named[step.kind, step.name] += times * work[step.target]
    parts = [every[kind] + rules for (kind, _), rules in named.items()]
    return max([*parts, *every.values()], default=0)
