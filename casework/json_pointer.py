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
    value = whole
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and _ARRAY_INDEX.fullmatch(name):
            value = value[int(name)] if int(name) < len(value) else None
        else:
            return None
    return value


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
