"""Believe a reply or not: strict JSON first, then the output schema. The door to its engines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import version
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

import jsonschema_rs

from casework.errors import InvalidRequest
from casework.gateway.errors import FailureKind
from casework.gateway.messages import Finish, ProviderReply
from casework.gateway.outcomes import Validator
from casework.gateway.schema_shape import (
    canonical_schema,
    data_depth_max,
    nesting_exceeds,
    schema_not_allowed,
)
from casework.json_pointer import pointer_to, value_at
from casework.strict_json import (
    JSON,
    InvalidJSON,
    JSONObject,
    canonical,
    parse_replacing_surrogates,
)

BACKTRACK_MAX: Final = 100_000
"""Most steps that a pattern may take back on one string, shared out where there are several."""
BACKTRACK_ALLOWED: Final = 5000
"""So many steps a pattern may take back however many there are."""

PATTERN_BYTES_MAX: Final = 1024 * 1024
"""Largest pattern, compiled."""
PATTERNS_BYTES_MAX: Final = 4 * 1024 * 1024
"""About the most that all patterns of a schema may take, compiled; making as much takes 40 ms."""
PATTERN_BYTES_ALLOWED: Final = 8 * 1024
"""So large a pattern may be however many there are; few that people write are larger."""

COMPILED_MAX: Final = 128
"""Schemas kept ready."""

ENGINES: Final = ("jsonschema-rs", "jsonschema")

_Judge: TypeAlias = Callable[[JSON], "str | None"]


@dataclass(frozen=True, slots=True)
class CompiledSchema:
    """An output schema made ready for one engine."""

    schema: JSONObject = field(repr=False)
    validator: Validator
    """The engine and its version, for the outcome."""
    depth_max: int | None
    """Deepest value that is judged; a deeper one is refused unread. None for any depth."""
    _judge: _Judge = field(repr=False)

    def check(self, value: JSON) -> str | None:
        """Return the JSON Pointer, into the schema, of a rule that the value breaks.

        None says that the value is valid. The empty pointer stands for the schema as a whole. Of
        several broken rules, which one is named is up to the engine.
        """
        if self.depth_max is not None and nesting_exceeds(value, self.depth_max):
            return ""
        return self._judge(value)


@dataclass(frozen=True, slots=True)
class AcceptedAnswer:
    """The reply is an answer."""

    output: JSON
    surrogates_replaced: int
    """Halves of character pairs that became U+FFFD."""


@dataclass(frozen=True, slots=True)
class RejectedAnswer:
    """The reply is none, and why."""

    kind: FailureKind
    schema_pointer: str | None = None


_ENDED_BADLY: Final = {
    Finish.REFUSED: FailureKind.REFUSAL,
    Finish.LENGTH: FailureKind.TRUNCATED,
}


def judge_reply(reply: ProviderReply, schema: CompiledSchema) -> AcceptedAnswer | RejectedAnswer:
    """Decide whether a reply is an answer; nothing in it is ever repaired."""
    ended = _ENDED_BADLY.get(reply.finish)
    if ended is not None:
        return RejectedAnswer(ended)
    if not reply.text.strip():
        return RejectedAnswer(FailureKind.EMPTY_RESPONSE)
    try:
        output, replaced = parse_replacing_surrogates(reply.text)
    except InvalidJSON:
        return RejectedAnswer(FailureKind.INVALID_JSON)
    if _echoes(schema.schema, output):
        return RejectedAnswer(FailureKind.SCHEMA_VIOLATION, pointer_to("properties"))
    pointer = schema.check(output)
    if pointer is not None:
        return RejectedAnswer(FailureKind.SCHEMA_VIOLATION, pointer)
    return AcceptedAnswer(output, replaced)


def compile_schema(schema: JSONObject, *, engine: str = ENGINES[0]) -> CompiledSchema:
    """Make an output schema ready, or refuse it; opens neither files nor sockets.

    Args:
        schema: JSON Schema, draft 2020-12, all references local.
        engine: ``jsonschema-rs`` or ``jsonschema``.

    Raises:
        InvalidRequest: The schema is invalid, too big, too deep, leads out of itself, or holds a
            pattern that cannot be compiled. ``where`` ends in a JSON Pointer.
    """
    return _compiled(canonical_schema(schema), engine)


@lru_cache(maxsize=COMPILED_MAX)
def _compiled(content: bytes, engine: str) -> CompiledSchema:
    schema: JSONObject = json.loads(content)
    depth_max = data_depth_max(schema)
    fast = _rust_validator(schema)
    match engine:
        case "jsonschema-rs":
            judge = _rust_judge(fast)
        case "jsonschema":
            judge = _python_judge(schema)
        case _:
            raise InvalidRequest(
                "unknown validation engine", remedy=f"choose one of {', '.join(ENGINES)}"
            )
    return CompiledSchema(schema, Validator(engine, version(engine)), depth_max, judge)


def _rust_validator(schema: JSONObject) -> jsonschema_rs.Draft202012Validator:
    count = max(_patterns_in(schema), 1)
    patterns = jsonschema_rs.FancyRegexOptions(
        backtrack_limit=max(BACKTRACK_MAX // count, BACKTRACK_ALLOWED),
        size_limit=min(max(PATTERNS_BYTES_MAX // count, PATTERN_BYTES_ALLOWED), PATTERN_BYTES_MAX),
    )
    try:
        return jsonschema_rs.Draft202012Validator(
            schema,
            offline=True,
            validate_formats=True,
            pattern_options=patterns,
        )
    except jsonschema_rs.ValidationError as error:
        pointer = pointer_to(*error.instance_path)
    except ValueError:
        pointer = ""
    raise schema_not_allowed(
        pointer,
        "is no valid JSON Schema (draft 2020-12): a keyword, pattern or reference is not sound, "
        "or a pattern is too large",
        "correct the schema",
    )


def _patterns_in(schema: JSON) -> int:
    count = 0
    waiting: list[JSON] = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            named = value.get("patternProperties")
            count += ("pattern" in value) + (len(named) if isinstance(named, dict) else 0)
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
    return count


def _rust_judge(validator: jsonschema_rs.Draft202012Validator) -> _Judge:
    def judge(value: JSON) -> str | None:
        if validator.is_valid(value):
            return None
        try:
            validator.validate(value)  # stops at the first error; a list of all may take minutes
        except jsonschema_rs.ValidationError as error:
            return pointer_to(*error.schema_path)
        return ""

    return judge


@lru_cache(maxsize=1024)
def _rust_predicate(keyword: str, argument: str) -> Callable[[JSON], bool]:
    """Return the verdict of one keyword on strings, bounded in time whatever the pattern."""
    return _rust_validator({keyword: argument}).is_valid


def _rust_format(name: str) -> Callable[[object], bool]:
    """Return the verdict on one format; values that are no strings have none."""
    is_valid = _rust_predicate("format", name)
    return lambda value: not isinstance(value, str) or is_valid(value)


def _python_judge(schema: JSONObject) -> _Judge:
    import jsonschema  # noqa: PLC0415 - takes 0.1 s, and only those who choose it need it
    import referencing  # noqa: PLC0415 - the same

    if _mixes_unevaluated_and_patterns(schema):
        raise schema_not_allowed(
            "",
            "uses unevaluatedProperties beside patternProperties, which this engine cannot bound",
            'choose the engine "jsonschema-rs"',
        )
    draft = jsonschema.Draft202012Validator
    formats = jsonschema.FormatChecker(formats=())
    formats.checkers = {
        name: checker
        for name, checker in draft.FORMAT_CHECKER.checkers.items()
        if name not in _RUST_FORMATS
    }
    for name in _RUST_FORMATS:
        formats.checkers[name] = (_rust_format(name), ())
    extend: Any = jsonschema.validators.extend
    bounded = extend(draft, _BOUNDED_KEYWORDS)
    validator = bounded(schema, registry=referencing.Registry(), format_checker=formats)

    def judge(value: JSON) -> str | None:
        try:
            error = next(validator.iter_errors(value), None)
        except (RecursionError, ArithmeticError):
            return ""
        return None if error is None else _location(schema, list(error.absolute_schema_path))

    return judge


_RUST_FORMATS: Final = frozenset({"date-time", "date", "time", "regex"})
"""Formats that the Python engine gets wrong (leap seconds, trailing newlines) or cannot bound."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """One keyword of a schema, about to judge one value."""

    validator: Any
    argument: Any
    """What stands behind the keyword."""
    value: JSON
    schema: Mapping[str, Any]


def _pattern(rule: _Rule) -> Iterator[Any]:
    if isinstance(rule.value, str) and not _rust_predicate("pattern", rule.argument)(rule.value):
        yield _violation("pattern")


def _pattern_properties(rule: _Rule) -> Iterator[Any]:
    members = rule.value if isinstance(rule.value, dict) else {}
    for pattern, inner in rule.argument.items():
        matches = _rust_predicate("pattern", pattern)
        for name, value in members.items():
            if matches(name):
                yield from rule.validator.descend(value, inner, path=name, schema_path=pattern)


def _additional_properties(rule: _Rule) -> Iterator[Any]:
    members = rule.value if isinstance(rule.value, dict) else {}
    matchers = [_rust_predicate("pattern", p) for p in rule.schema.get("patternProperties", {})]
    known = rule.schema.get("properties", {})
    for name, value in members.items():
        if name not in known and not any(matches(name) for matches in matchers):
            yield from rule.validator.descend(value, rule.argument, path=name)


def _unique_items(rule: _Rule) -> Iterator[Any]:
    items = rule.value if isinstance(rule.value, list) and rule.argument else []
    if len({canonical(_plain_numbers(item)) for item in items}) < len(items):
        yield _violation("uniqueItems")


def _as_engine_calls(judge: Callable[[_Rule], Iterator[Any]]) -> Callable[..., Iterator[Any]]:
    return lambda *arguments: judge(_Rule(*arguments))


_BOUNDED_KEYWORDS: Final = {
    "pattern": _as_engine_calls(_pattern),
    "patternProperties": _as_engine_calls(_pattern_properties),
    "additionalProperties": _as_engine_calls(_additional_properties),
    "uniqueItems": _as_engine_calls(_unique_items),
}
"""Keywords whose work the Python engine does not bound, done anew."""


def _violation(keyword: str) -> Any:
    import jsonschema  # noqa: PLC0415 - loaded already by the engine that calls

    return jsonschema.ValidationError(f"breaks {keyword}")


def _plain_numbers(value: JSON) -> JSON:
    """Write numbers that are equal in one way, since 1 and 1.0 are the same to a schema."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, list):
        return [_plain_numbers(item) for item in value]
    if isinstance(value, dict):
        return {name: _plain_numbers(item) for name, item in value.items()}
    return value


def _mixes_unevaluated_and_patterns(schema: JSON) -> bool:
    text = json.dumps(schema)
    return '"unevaluatedProperties"' in text and '"patternProperties"' in text


def _location(schema: JSONObject, parts: list[str | int]) -> str:
    """Turn the way that the Python engine took, which skips references, into a pointer."""
    pointer = ""
    for part in parts:
        here = value_at(schema, pointer)
        while isinstance(here, dict) and str(part) not in here:
            reference = here.get("$ref")
            if not isinstance(reference, str) or not reference.startswith("#/"):
                break
            pointer = unquote(reference[1:])
            here = value_at(schema, pointer)
        pointer += pointer_to(part)
    return pointer


def _echoes(schema: JSONObject, output: JSON) -> bool:
    """Tell whether a model gave the schema back instead of an answer.

    Never says so of a schema that itself speaks of members named type or properties.
    """
    rules = schema.get("properties")
    if not isinstance(output, dict) or not isinstance(rules, dict) or not rules:
        return False
    echoed = output.get("properties")
    if "properties" in rules or "type" in rules or not isinstance(echoed, dict):
        return False
    return output.get("type") == "object" and not echoed.keys().isdisjoint(rules)
