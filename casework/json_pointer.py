"""JSON Pointer (RFC 6901): naming a place in a value, and finding what stands there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from casework.strict_json import JSON

_ARRAY_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}")


def pointer_to(*parts: str | int) -> str:
    """Write the pointer that leads through these members and positions."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def value_at(whole: JSON, pointer: str) -> JSON:
    """Return what stands at a pointer; None where nothing does."""
    return lookup(whole, pointer)[1]


def lookup(whole: JSON, pointer: str) -> tuple[bool, JSON]:
    """Tell whether anything stands at a pointer, null included, and return it."""
    value = whole
    for name in parts_of(pointer):
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and _ARRAY_INDEX.fullmatch(name) and int(name) < len(value):
            value = value[int(name)]
        else:
            return False, None
    return True, value


def parts_of(pointer: str) -> list[str]:
    """Return the names that a pointer leads through, in order."""
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def with_value(whole: JSON, pointer: str, value: JSON) -> JSON:
    """Return a copy in which a value stands at a pointer; everything else is shared.

    A member of an object is replaced or added, an item of an array replaced; ``-`` or the position
    after the last one adds an item.

    Raises:
        LookupError: The pointer is none, or leads through something that is not there.
    """
    if not pointer:
        return value
    if not pointer.startswith("/"):
        raise LookupError(pointer)
    part, slash, rest = pointer[1:].partition("/")
    name, rest = part.replace("~1", "/").replace("~0", "~"), slash + rest
    if isinstance(whole, dict):
        if rest and name not in whole:
            raise LookupError(pointer)
        return {**whole, name: with_value(whole.get(name), rest, value)}
    if isinstance(whole, list):
        position = _position(name, len(whole))
        inner = whole[position] if position < len(whole) else None
        return [*whole[:position], with_value(inner, rest, value), *whole[position + 1 :]]
    raise LookupError(pointer)


def _position(name: str, length: int) -> int:
    """Return a position in an array, or just behind it."""
    if name == "-":
        return length
    if _ARRAY_INDEX.fullmatch(name) and int(name) <= length:
        return int(name)
    raise LookupError(name)


def flatten(value: JSON, pointer: str = "") -> Iterator[tuple[str, JSON]]:
    """Yield each leaf of a value under its pointer; empty arrays and objects are leaves."""
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from flatten(item, pointer + pointer_to(name))
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from flatten(item, pointer + pointer_to(index))
    else:
        yield pointer, value
