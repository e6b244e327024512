"""The schema in a request's ``response_format``, made ready to judge the answers.

The server is sent the format byte for byte; this copy is ours. A schema that cannot be judged here
is refused, since an answer that nobody judged must not look like one that was.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from casework.errors import InvalidRequest
from casework.gateway.chat.json_members import Raw, is_null, is_object, members_of, text_or_none
from casework.gateway.chat.refusals import out_of_range, wrong_type
from casework.gateway.schema_shape import DIALECT, SCHEMA_BYTES_MAX
from casework.gateway.validation import CompiledSchema, compile_schema
from casework.json_pointer import pointer_to
from casework.strict_json import JSON, InvalidJSON, JSONObject, parse

KEPT_MAX: Final = 64
"""Formats kept ready, by their bytes."""

WHERE: Final = "response_format.json_schema.schema"

_EARLIER_DIALECTS: Final = frozenset(
    {
        "http://json-schema.org/draft-06/schema",
        "http://json-schema.org/draft-07/schema",
        "https://json-schema.org/draft/2019-09/schema",
    }
)
_MEANS_ANOTHER_THING: Final = ("additionalItems", "dependencies", "$recursiveRef")
"""Keywords that the dialects before draft 2020-12 read in another way, or alone."""


def schema_of(response_format: bytes, engine: str) -> CompiledSchema | None:
    """Return what each answer must satisfy; None where the format holds no schema.

    Raises:
        InvalidRequest: The format or its schema cannot be used.
    """
    if len(response_format) > SCHEMA_BYTES_MAX:
        raise out_of_range("response_format", f"send at most {SCHEMA_BYTES_MAX} bytes")
    return _schema_of(response_format, engine)


@lru_cache(maxsize=KEPT_MAX)
def _schema_of(response_format: bytes, engine: str) -> CompiledSchema | None:
    value = Raw(response_format)
    if is_null(value):
        return None
    if not is_object(value):
        raise wrong_type("response_format", "an object or null")
    members = members_of(value)
    if text_or_none(members.get("type")) != "json_schema":
        return None
    wanted = members.get("json_schema")
    if wanted is None or not is_object(wanted):
        raise wrong_type("response_format.json_schema", "an object")
    schema = members_of(wanted).get("schema")
    if schema is None or is_null(schema):
        return None
    if not is_object(schema):
        raise wrong_type(WHERE, "an object")
    return _compiled(bytes(schema), engine)


def _compiled(content: bytes, engine: str) -> CompiledSchema:
    try:
        schema = parse(content)
        problem = ""
    except InvalidJSON as error:
        schema, problem = None, f"the schema is {error}"
    if not isinstance(schema, dict):
        raise InvalidRequest(
            problem, code="schema_not_allowed", where=WHERE, remedy="write plain JSON"
        )
    try:
        return compile_schema(_in_our_dialect(schema), engine=engine)
    except InvalidRequest as error:
        where = (error.where or "").partition("#")[2]
        refused = InvalidRequest(
            error.message, code=error.code, where=WHERE + where, remedy=error.remedy
        )
    raise refused


def _in_our_dialect(schema: JSONObject) -> JSONObject:
    """Read a schema of an earlier dialect as draft 2020-12 where both mean the same by it."""
    dialect = schema.get("$schema")
    if not isinstance(dialect, str) or dialect.removesuffix("#") not in _EARLIER_DIALECTS:
        return schema
    pointer = _first_other_meaning(schema)
    if pointer is not None:
        raise InvalidRequest(
            "means another thing in the dialect that the schema names",
            code="schema_not_allowed",
            where=f"output_schema#{pointer}",
            remedy=f'write it for "{DIALECT}"',
        )
    return {name: value for name, value in schema.items() if name != "$schema"}


def _first_other_meaning(schema: JSON) -> str | None:
    waiting: list[tuple[str, JSON]] = [("", schema)]
    while waiting:
        pointer, value = waiting.pop()
        if isinstance(value, dict):
            found: str | None = next((word for word in _MEANS_ANOTHER_THING if word in value), None)
            if found is None and isinstance(value.get("items"), list):
                found = "items"
            if found is not None:
                return pointer + pointer_to(found)
            waiting += [(pointer + pointer_to(name), part) for name, part in value.items()]
        elif isinstance(value, list):
            waiting += [(pointer + pointer_to(i), part) for i, part in enumerate(value)]
    return None
