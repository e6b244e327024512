"""Values of the caller's, copied into the only kinds that JSON knows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from casework.errors import InvalidRequest
from casework.strict_json import DEPTH_MAX, INTEGER_DIGITS_MAX, JSON, JSONObject, is_unicode

_INTEGER_END: Final = 10**INTEGER_DIGITS_MAX


def json_copy(value: object, *, where: str, code: str, depth: int = 0) -> JSON:
    """Copy a value as JSON knows it, members in their order, tuples as arrays.

    Raises:
        InvalidRequest: Under the code given, for anything that JSON cannot say exactly: NaN, an
            infinity, an integer beyond binary64, a lone surrogate, a name that is no text, an
            object of another kind, nesting that is too deep. The value itself is never shown.
    """
    if depth > DEPTH_MAX:
        raise InvalidRequest("nested too deeply", code=code, where=where)
    if isinstance(value, Mapping):
        return _members(value, where=where, code=code, depth=depth + 1)
    if isinstance(value, list | tuple):
        return [json_copy(item, where=where, code=code, depth=depth + 1) for item in value]
    problem = _problem(value)
    if problem:
        raise InvalidRequest(f"holds {problem}", code=code, where=where)
    assert value is None or isinstance(value, bool | int | float | str), "no problem was found"
    return value


def _members(value: Mapping[object, object], *, where: str, code: str, depth: int) -> JSONObject:
    members: JSONObject = {}
    for name, item in value.items():
        if not isinstance(name, str) or not is_unicode(name):
            raise InvalidRequest("holds a name that is no text", code=code, where=where)
        members[name] = json_copy(item, where=where, code=code, depth=depth)
    return members


def _problem(value: object) -> str | None:
    match value:
        case None | bool():
            return None
        case int():
            return None if abs(value) < _INTEGER_END else "an integer beyond every number format"
        case float():
            return None if math.isfinite(value) else "NaN or an infinity"
        case str():
            return None if is_unicode(value) else "a lone surrogate"
        case _:
            return "a value of a kind that JSON does not know"
