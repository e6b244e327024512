"""A value that satisfies a JSON Schema, of the kind that clients derive from their classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil, floor
from typing import Any, Final, TypeAlias

Json: TypeAlias = Any

DEPTH_MAX: Final = 12
"""Deeper than this, only what is required is written."""

FORMATS: Final = {
    "date": "2026-11-30",
    "date-time": "2026-11-30T12:00:00Z",
    "time": "12:00:00Z",
    "duration": "PT1H",
    "email": "someone@example.org",
    "hostname": "example.org",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.org/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}


def sample(schema: Json, *, root: Json = None, depth: int = 0) -> Json:
    """Return a value that the schema accepts.

    Patterns and negations are not read: what needs them is not a schema that a client sends.
    """
    root = schema if root is None else root
    match schema:
        case {"const": value} | {"enum": [value, *_]}:
            return value
        case {"$ref": reference}:
            return sample(_resolved(root, reference), root=root, depth=depth + 1)
        case {"allOf": [*parts]}:
            rest = {name: each for name, each in schema.items() if name != "allOf"}
            return sample(_merged(rest, parts, root), root=root, depth=depth + 1)
        case {"anyOf": [*variants]} | {"oneOf": [*variants]}:
            return sample(_simplest(variants, depth), root=root, depth=depth + 1)
        case Mapping():
            return _typed(schema, root, depth)
    return "text"


def _merged(rest: Json, parts: list[Json], root: Json) -> Json:
    """Return one schema that holds what several say; objects gather their properties."""
    for part in parts:
        said = _resolved(root, part["$ref"]) if "$ref" in part else part
        properties = {**rest.get("properties", {}), **said.get("properties", {})}
        required = [*rest.get("required", []), *said.get("required", [])]
        rest = {**rest, **said}
        if properties:
            rest |= {"properties": properties, "required": required}
    return rest


def _simplest(variants: list[Json], depth: int) -> Json:
    """Choose the first variant, or null where it would go too deep."""
    if depth > DEPTH_MAX:
        return next((each for each in variants if each.get("type") == "null"), variants[-1])
    return variants[0]


def _resolved(root: Json, reference: str) -> Json:
    found = root
    for part in reference.removeprefix("#").strip("/").split("/"):
        if part:
            found = found[part.replace("~1", "/").replace("~0", "~")]
    return found


def _typed(schema: Mapping[str, Json], root: Json, depth: int) -> Json:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((each for each in kind if each != "null"), "null")
    if kind is None:
        kind = "object" if "properties" in schema else "array" if "items" in schema else "string"
    if kind == "object":
        return _object(schema, root, depth)
    if kind == "array":
        return _array(schema, root, depth)
    simple: dict[str, Callable[[Mapping[str, Json]], Json]] = {
        "string": _string,
        "integer": _integer,
        "number": lambda each: float(_integer(each)),
        "boolean": lambda _: True,
        "null": lambda _: None,
    }
    return simple[kind](schema)


def _object(schema: Mapping[str, Json], root: Json, depth: int) -> Json:
    required = schema.get("required", [])
    return {
        name: sample(each, root=root, depth=depth + 1)
        for name, each in schema.get("properties", {}).items()
        if name in required or depth < DEPTH_MAX
    }


def _array(schema: Mapping[str, Json], root: Json, depth: int) -> Json:
    first = [sample(each, root=root, depth=depth + 1) for each in schema.get("prefixItems", [])]
    wanted = max(schema.get("minItems", 0), 0 if depth > DEPTH_MAX else 1)
    wanted = min(wanted, schema.get("maxItems", wanted))
    rest = max(wanted - len(first), 0)
    if not schema.get("items", not first):
        return first
    return first + [sample(schema["items"], root=root, depth=depth + 1) for _ in range(rest)]


def _string(schema: Mapping[str, Json]) -> str:
    text = FORMATS.get(schema.get("format", ""), "text")
    text = text.ljust(schema.get("minLength", 0), "x")
    return text[: schema["maxLength"]] if "maxLength" in schema else text


def _integer(schema: Mapping[str, Json]) -> int:
    low = max(1, ceil(schema.get("minimum", 1)), floor(schema.get("exclusiveMinimum", 0)) + 1)
    high = min(
        floor(schema.get("maximum", low)), ceil(schema.get("exclusiveMaximum", low + 1)) - 1, low
    )
    step = schema.get("multipleOf", 1)
    return int(high if high < low else ceil(low / step) * step)
