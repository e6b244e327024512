"""A reply is an answer or a controlled error, under both engines, in bounded time."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.errors import InvalidRequest
from casework.gateway.errors import FailureKind
from casework.gateway.messages import Finish, ProviderReply
from casework.gateway.outcomes import Validator
from casework.gateway.validation import (
    ENGINES,
    AcceptedAnswer,
    CompiledSchema,
    RejectedAnswer,
    compile_schema,
    judge_reply,
)
from casework.strict_json import JSON, JSONObject

SCHEMA: JSONObject = {
    "type": "object",
    "properties": {"answer": {"type": "string"}, "n": {"type": "number"}},
    "required": ["answer"],
}
CPU_SECONDS_MAX = 2.0


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    """Run a test once with each engine."""
    return str(request.param)


def reply(text: str, finish: Finish = Finish.STOP) -> ProviderReply:
    """Return a reply."""
    return ProviderReply(text=text, finish=finish)


def wrapped(value: JSON, times: int, wrap: Callable[[JSON], JSON]) -> JSON:
    """Return a value wrapped so many times."""
    for _ in range(times):
        value = wrap(value)
    return value


def judged(text: str, engine: str, schema: JSONObject | None = None) -> Any:
    """Return the verdict on a text."""
    return judge_reply(reply(text), compile_schema(schema or SCHEMA, engine=engine))


@pytest.mark.parametrize("finish", [Finish.STOP, Finish.UNKNOWN])
def test_a_sound_answer_is_accepted(engine: str, finish: Finish) -> None:
    """What fits the schema is taken as it is."""
    verdict = judge_reply(reply('{"answer": "x"}', finish), compile_schema(SCHEMA, engine=engine))
    assert AcceptedAnswer({"answer": "x"}, 0) == verdict


@pytest.mark.parametrize(
    ("text", "finish", "kind"),
    [
        ('{"answer": "x"}', Finish.REFUSED, FailureKind.REFUSAL),
        ("", Finish.REFUSED, FailureKind.REFUSAL),
        ('{"answer": "x"}', Finish.LENGTH, FailureKind.TRUNCATED),
        ("", Finish.LENGTH, FailureKind.TRUNCATED),
        ("", Finish.STOP, FailureKind.EMPTY_RESPONSE),
        (" \n\t\u00a0", Finish.UNKNOWN, FailureKind.EMPTY_RESPONSE),
        ("{", Finish.STOP, FailureKind.INVALID_JSON),
        ("{}", Finish.STOP, FailureKind.SCHEMA_VIOLATION),
    ],
)
def test_what_ended_badly_is_told_before_what_it_says(
    engine: str, text: str, finish: Finish, kind: FailureKind
) -> None:
    """Refusal, truncation, emptiness, JSON and schema are judged in this order."""
    verdict = judge_reply(reply(text, finish), compile_schema(SCHEMA, engine=engine))
    assert isinstance(verdict, RejectedAnswer)
    assert kind is verdict.kind


@pytest.mark.parametrize(
    "text",
    [
        '```json\n{"answer": "x"}\n```',
        '<think>maybe {"answer": "y"}</think>{"answer": "x"}',
        'Here you are: {"answer": "x"}',
        '{"answer": "x"} trailing',
        '{"answer": "x",}',
        "{'answer': 'x'}",
        '{"answer": "x", "answer": "y"}',
        '{"answer": "a\nb"}',
        '{"answer": "x", "n": NaN}',
        '{"answer": "x", "n": -Infinity}',
        '{"answer": "x", "n": 1e309}',
        '{"answer": "x", "n": ' + "7" * 5000 + "}",
        '\ufeff{"answer": "x"}',
        "[" * 100_000,
        '{"a":' * 200 + "1" + "}" * 200,
    ],
)
def test_nothing_is_repaired(engine: str, text: str) -> None:
    """What is not strict JSON as a whole is no answer, whatever a part of it might be."""
    assert RejectedAnswer(FailureKind.INVALID_JSON) == judged(text, engine)


@pytest.mark.parametrize("text", ["2,34", "1.234,56", "2.34"])
def test_numbers_in_words_are_not_coerced(engine: str, text: str) -> None:
    """A text that looks like a number is a text."""
    assert RejectedAnswer(FailureKind.SCHEMA_VIOLATION, "/properties/n/type") == judged(
        f'{{"answer": "x", "n": "{text}"}}', engine
    )


def test_half_characters_are_replaced_and_counted(engine: str) -> None:
    """A lone surrogate becomes U+FFFD, and the outcome says how many did."""
    verdict = judged('{"answer": "\\ud83d x \\udc00 \\ud83d\\ude00"}', engine)
    assert AcceptedAnswer({"answer": "\ufffd x \ufffd \U0001f600"}, 2) == verdict


def test_escaped_quotes_are_kept(engine: str) -> None:
    """A valid text comes out as it is."""
    verdict = judged('{"answer": "bar \\"foo\\", baz"}', engine)
    assert AcceptedAnswer({"answer": 'bar "foo", baz'}, 0) == verdict


def test_an_echo_of_the_schema_is_no_answer(engine: str) -> None:
    """A model that repeats the schema has not answered, even where the schema is open."""
    echo = '{"type": "object", "properties": {"answer": {"type": "string"}}, "answer": "x"}'
    assert RejectedAnswer(FailureKind.SCHEMA_VIOLATION, "/properties") == judged(echo, engine)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "object"}, '{"type": "object", "properties": {"a": 1}}'),
        (
            {"properties": {"type": {"type": "string"}, "answer": {}}},
            '{"type": "object", "properties": {"answer": 1}}',
        ),
        (SCHEMA, '{"answer": "x", "type": "object", "properties": {"other": 1}}'),
        (SCHEMA, '{"answer": "x", "properties": {"answer": 1}}'),
    ],
)
def test_an_answer_about_schemas_is_no_echo(engine: str, schema: JSONObject, text: str) -> None:
    """Members named type and properties are fine where the schema speaks of them or is silent."""
    assert isinstance(judged(text, engine, schema), AcceptedAnswer)


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        (
            "date-time",
            ["2026-01-01T10:00:00Z", "2016-12-31T23:59:60Z", "2026-01-01t10:00:00.5+02:00"],
            [
                "2026-01-01T10:00:00Z\n",
                "this should fail",
                "20-04",
                "2013-350T01:01:01",
                "2026-01-01T10:00:60Z",
                "2026-02-30T10:00:00Z",
                "2026-01-01 10:00:00",
            ],
        ),
        ("date", ["2024-02-29"], ["2026-01-01\n", "2023-02-29", "20260101", "2026-1-1"]),
        ("time", ["10:00:00Z", "23:59:60Z"], ["10:00:00Z\n", "10:00:00", "25:00:00Z", "10:00"]),
        ("regex", ["^a+$"], ["("]),
    ],
)
def test_formats_are_checked_alike(engine: str, name: str, good: list[str], bad: list[str]) -> None:
    """Times and dates are checked on a fresh install, with the traps of either engine closed."""
    compiled = compile_schema({"format": name}, engine=engine)
    assert {None} == {compiled.check(text) for text in good}
    assert {"/format"} == {compiled.check(text) for text in bad}
    assert compiled.check(7) is None


@pytest.mark.parametrize(
    ("schema", "value", "pointer"),
    [
        ({"type": "object"}, [], "/type"),
        ({"required": ["a"]}, {}, "/required"),
        ({"properties": {"a/b": {"enum": ["x"]}}}, {"a/b": "y"}, "/properties/a~1b/enum"),
        ({"items": {"minimum": 3}}, [3, 2], "/items/minimum"),
        ({"prefixItems": [{}, {"const": 1}]}, [0, 2], "/prefixItems/1/const"),
        (
            {"additionalProperties": False, "properties": {"a": {}}},
            {"b": 1},
            "/additionalProperties",
        ),
        (
            {"additionalProperties": {"type": "string"}},
            {"b": 1},
            "/additionalProperties/type",
        ),
        (
            {"patternProperties": {"^a": {"type": "string"}}},
            {"ab": 1},
            "/patternProperties/^a/type",
        ),
        ({"pattern": "^a+$"}, "ab", "/pattern"),
        ({"uniqueItems": True}, [{"a": 1, "b": 2}, {"b": 2.0, "a": 1}], "/uniqueItems"),
        ({"anyOf": [{"type": "null"}, {"type": "string"}]}, 1, "/anyOf"),
        (
            {"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"type": "string"}}},
            {"a": 1},
            "/$defs/x/type",
        ),
        (
            {"$defs": {"x": {"properties": {"$ref": {"type": "null"}}}}, "$ref": "#/$defs/x"},
            {"$ref": 1},
            "/$defs/x/properties/$ref/type",
        ),
    ],
)
def test_the_broken_rule_is_named_by_a_pointer_into_the_schema(
    engine: str, schema: JSONObject, value: JSON, pointer: str
) -> None:
    """The pointer leads into the schema, through references, and never into the answer."""
    assert pointer == compile_schema(schema, engine=engine).check(value)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"uniqueItems": True}, [1, True, "1", [1], {"a": 1}, None, 0, False]),
        ({"additionalProperties": False, "patternProperties": {"^a": {}}}, {"ab": 1}),
        ({"additionalProperties": False}, "text"),
        ({"patternProperties": {"^a": False}}, ["a"]),
        ({"pattern": "^a"}, 7),
        ({"uniqueItems": False}, [1, 1]),
        ({"type": "integer"}, 1.0),
        ({"pattern": r"^\p{L}+$"}, "\u00e4\u00f6"),
        ({"pattern": "(?<x>a)"}, "a"),
    ],
)
def test_sound_values_break_nothing(engine: str, schema: JSONObject, value: JSON) -> None:
    """Rules apply to their own kind of value only, and numbers are not truths."""
    assert compile_schema(schema, engine=engine).check(value) is None


@pytest.mark.parametrize(
    ("schema", "where"),
    [
        ({"type": "strin"}, "/type"),
        ({"properties": {"a": {"minimum": "x"}}}, "/properties/a/minimum"),
        ({"properties": {"a": {"pattern": "("}}}, "/properties/a/pattern"),
        ({"patternProperties": {"(": {}}}, "/patternProperties/("),
        ({"$ref": "#/$defs/none"}, ""),
        ({"$ref": "http://127.0.0.1:1/x"}, "/$ref"),
    ],
)
def test_an_unsound_schema_is_refused_before_any_call(
    engine: str, schema: JSONObject, where: str
) -> None:
    """The error names the place in the schema."""
    with pytest.raises(InvalidRequest) as caught:
        compile_schema(schema, engine=engine)
    assert ("schema_not_allowed", f"output_schema#{where}") == (
        caught.value.code,
        caught.value.where,
    )


def test_no_schema_opens_a_socket_or_a_file(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reference to a port we listen on, or to a file, is refused without a look."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        port = listener.getsockname()[1]
        opened: list[object] = []
        monkeypatch.setattr("builtins.open", lambda *a, **_: opened.append(a))
        for reference in (f"http://127.0.0.1:{port}/s", "file:///etc/hostname", "s.json"):
            schemas: list[JSONObject] = [
                {"$ref": reference},
                {"$defs": {"a": {"$dynamicRef": reference}}},
            ]
            for schema in schemas:
                with pytest.raises(InvalidRequest):
                    compile_schema(schema, engine=engine)
        with pytest.raises(BlockingIOError):
            listener.accept()
        assert [] == opened


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"pattern": "^(a+)+$"}, "a" * 40 + "!"),
        ({"pattern": "^(?=a)(a|a)*$"}, "a" * 5000 + "!"),
        (
            {"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False},
            {"a" * 40 + "!": 1},
        ),
        (
            {"items": {"anyOf": [{"pattern": f"^(?=a)(a|a)*(?!c)\\1[{i}]$"} for i in range(100)]}},
            [f"{'a' * 40}b{i}" for i in range(20)],
        ),
        ({"propertyNames": {"pattern": "^(a+)+$"}}, {"a" * 40 + "!": 1}),
        ({"items": {"pattern": "(x+x+)+y"}}, ["x" * 60_000]),
        ({"items": {"anyOf": [{"const": f"{i}"} for i in range(2000)]}}, ["none"] * 300),
        ({"uniqueItems": True, "minItems": 20_000}, [{"a": i} for i in range(10_000)]),
        ({"properties": {"a": {"oneOf": [{"$ref": "#"}, {"$ref": "#"}]}}, "required": ["b"]}, None),
    ],
)
def test_hostile_schemas_and_answers_end_in_bounded_time(
    engine: str, schema: JSONObject, value: JSON
) -> None:
    """Catastrophic patterns, many errors, long lists and doubling recursion end at once."""
    if value is None:
        value = wrapped({}, 120, lambda inner: {"a": inner, "b": 1})
    compiled = compile_schema(schema, engine=engine)
    begun = time.process_time()
    assert compiled.check(value) is not None
    assert time.process_time() - begun < CPU_SECONDS_MAX


def test_patterns_that_would_grow_without_end_are_refused(engine: str) -> None:
    """A line of a schema cannot become megabytes of machine, nor many lines together."""
    form = r"(\p{{L}}{{1,{}}}x){{1,20}}"
    several: list[JSON] = [{"pattern": form.format(i + 30)} for i in range(100)]
    schemas: list[JSONObject] = [{"pattern": form.format(3000)}, {"anyOf": several}]
    begun = time.process_time()
    for schema in schemas:
        with pytest.raises(InvalidRequest, match="pattern is too large"):
            compile_schema(schema, engine=engine)
    assert time.process_time() - begun < CPU_SECONDS_MAX


def test_many_patterns_as_people_write_them_are_taken(engine: str) -> None:
    """What is shared out among patterns is enough for those of a long form."""
    mail, date = r"^[\w.-]+@[\w.-]+\.\w{2,}$", r"^\d{4}-\d{2}-\d{2}$"
    fields: JSONObject = {}
    for i in range(300):
        fields |= {f"mail{i}": {"pattern": mail}, f"date{i}": {"pattern": date}}
        fields |= {f"name{i}": {"pattern": r"^[\p{L} '-]{1,100}$"}, f"id{i}": {"pattern": f"^{i}-"}}
    compiled = compile_schema({"properties": fields}, engine=engine)
    assert compiled.check({"mail7": "a@example.org", "id7": "7-1"}) is None
    assert "/properties/mail7/pattern" == compiled.check({"mail7": "!"})


@pytest.mark.parametrize("depth", [1, 60, 127])
def test_a_schema_that_refers_to_itself_judges_deep_answers(engine: str, depth: int) -> None:
    """Self-reference with deep data ends in the right verdict."""
    schema: JSONObject = {
        "type": "object",
        "properties": {"next": {"anyOf": [{"$ref": "#"}, {"type": "null"}]}},
        "required": ["next"],
    }
    sound = wrapped(None, depth, lambda inner: {"next": inner})
    broken = wrapped(7, depth, lambda inner: {"next": inner})
    compiled = compile_schema(schema, engine=engine)
    assert compiled.check(sound) is None
    assert compiled.check(broken) is not None


def test_arithmetic_beyond_the_engine_is_a_verdict(engine: str) -> None:
    """A number that an engine cannot divide ends in a verdict, not in an exception."""
    compiled = compile_schema({"multipleOf": 0.1}, engine=engine)
    assert compiled.check(10**300 + 1) in {None, "", "/multipleOf"}


def test_unevaluated_beside_patterns_needs_the_default_engine() -> None:
    """A combination that one engine cannot bound is refused under it, with the other as remedy."""
    schema: JSONObject = {"patternProperties": {"^a": {}}, "unevaluatedProperties": False}
    assert "/unevaluatedProperties" == compile_schema(schema).check({"b": 1})
    with pytest.raises(InvalidRequest, match="jsonschema-rs"):
        compile_schema(schema, engine="jsonschema")


def test_the_engine_and_its_version_are_named(engine: str) -> None:
    """Verdicts of engines differ, so each compiled schema says whose they are."""
    compiled = compile_schema(SCHEMA, engine=engine)
    assert Validator(engine, version(engine)) == compiled.validator


def test_an_unknown_engine_is_refused() -> None:
    """There is no third engine."""
    with pytest.raises(InvalidRequest):
        compile_schema(SCHEMA, engine="ajv")


def test_schemas_are_compiled_once_and_apart_from_the_callers_copy(engine: str) -> None:
    """Equal schemas share one compilation, which later changes to the caller's cannot reach."""
    schema: JSONObject = {"type": "string"}
    compiled = compile_schema(schema, engine=engine)
    assert compiled is compile_schema({"type": "string"}, engine=engine)
    schema["type"] = "integer"
    assert compiled.check("x") is None
    assert {"type": "string"} == compiled.schema


def test_a_compiled_schema_prints_no_schema() -> None:
    """Schemas may name what a document is about."""
    assert "canary" not in repr(compile_schema({"title": "canary"}))
    assert isinstance(compile_schema({"title": "canary"}), CompiledSchema)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([0.5, 1.0])
    | st.sampled_from("ab"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=6,
)
LEAVES = st.one_of(
    st.builds(lambda t: {"type": t}, st.sampled_from(["object", "array", "string", "integer"])),
    st.builds(lambda v: {"const": v}, VALUES),
    st.builds(lambda v: {"enum": [v]}, VALUES),
    st.sampled_from(
        [{"pattern": "^a"}, {"uniqueItems": True}, {"minimum": 0}, {"required": ["a"]}]
    ),
)
SCHEMAS: st.SearchStrategy[JSONObject] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(lambda a, b: {"properties": {"a": a}, "additionalProperties": b}, inner, inner),
        st.builds(lambda a: {"patternProperties": {"^[ab]": a}}, inner),
        st.builds(lambda a: {"items": a}, inner),
        st.builds(lambda a, b, k: {k: [a, b]}, inner, inner, st.sampled_from(["allOf", "oneOf"])),
        st.builds(lambda a: {"not": a}, inner),
    ),
    max_leaves=5,
)


@given(SCHEMAS, VALUES)
def test_both_engines_give_the_same_verdict(schema: JSONObject, value: Any) -> None:
    """On ordinary schemas the choice of engine changes no verdict."""
    verdicts = {compile_schema(schema, engine=name).check(value) is None for name in ENGINES}
    assert 1 == len(verdicts)
