"""Pipelines whose operations need each other, from a file and from code, with the same checks."""

from __future__ import annotations

from pathlib import Path

import pytest

from casework.config.privacy_profile import PrivacyProfile
from casework.errors import ConfigurationError
from casework.gateway.messages import OnInvalidOutput, RequestLimits
from casework.gateway.validation import compile_schema
from casework.runner.bundled_steps import STEPS
from casework.runner.conditions import Condition, ConditionKind
from casework.runner.data_selection import DataSelector, OutputSelector
from casework.runner.operation_spec import Chunking
from casework.runner.pipeline import Operation, Pipeline

SCHEMA = """
[operations.output_schema]
type = "object"
additionalProperties = false
properties = { severity = { enum = ["low", "high"] }, facts = { type = "array" } }
"""


def table(operation_id: str, extra: str = "") -> str:
    """Return one operation of a pipeline file; its own keys begin on the fourth line."""
    return f'[[operations]]\nid = "{operation_id}"\ntask = "T"\n{extra}\n{SCHEMA}'


def parse(*tables: str) -> Pipeline:
    """Read a pipeline of these operations."""
    return Pipeline.parse('name = "n"\n' + "".join(tables), folder=Path(), source="p.toml")


def complaint(*tables: str) -> str:
    """Return the one line with which a pipeline is refused."""
    with pytest.raises(ConfigurationError) as caught:
        parse(*tables)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_operations_stand_behind_those_that_they_need() -> None:
    """Whatever their order in the file; otherwise that order stays."""
    pipeline = parse(table("c", 'needs = ["a", "b"]'), table("z"), table("b"), table("a"))
    assert ["z", "b", "a", "c"] == [spec.id for spec in pipeline.operations]
    assert ("a", "b") == pipeline.operation("c").needs


def test_conditions_data_limits_and_parts_are_read() -> None:
    """Everything that an operation may say about others and about its calls."""
    spec = parse(
        table("a"),
        table(
            "b",
            'needs = ["a"]\n'
            'when = { operation = "a", pointer = "/severity", in = ["high"] }\n'
            'data = ["**/*", { operation = "a", pointer = "/facts" }, { operation = "a" }]\n'
            "max_attempts = 2\nretry_delay_seconds = 5.0\ntimeout_seconds = 9.0\n"
            'on_invalid_output = "reask"\n'
            'chunk = { max_bytes = 200, overlap_bytes = 20 }\nmerge_task = "Join."',
        ),
    ).operation("b")
    assert (Condition("a", "/severity", ConditionKind.IN, ["high"]),) == spec.when
    assert (
        DataSelector(("**/*", OutputSelector("a", "/facts"), OutputSelector("a", ""))) == spec.data
    )
    assert ["a /facts", "a"] == [output.name for output in spec.data.outputs]
    assert (
        RequestLimits(
            rounds_max=2,
            retry_delay_seconds=5.0,
            timeout_seconds=9.0,
            on_invalid_output=OnInvalidOutput.REASK,
        )
        == spec.limits
    )
    assert Chunking(bytes_max=200, overlap_bytes=20, merge_task="Join.") == spec.chunking


def test_several_conditions_are_a_list() -> None:
    """Each with one test; numbers with and without a fraction."""
    when = (
        'when = [{ operation = "a", pointer = "/severity", exists = true }, '
        '{ operation = "a", pointer = "/facts/0", at_least = 2 }, '
        '{ operation = "a", pointer = "", not_equals = { severity = 0.5 } }]'
    )
    spec = parse(table("a"), table("b", f'needs = ["a"]\n{when}')).operation("b")
    assert [
        (ConditionKind.EXISTS, True),
        (ConditionKind.AT_LEAST, 2.0),
        (ConditionKind.NOT_EQUALS, {"severity": 0.5}),
    ] == [(condition.kind, condition.value) for condition in spec.when]


NEEDS_A = 'needs = ["a"]\n'


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ('needs = ["x"]', "p.toml:14:10: needs names no operation of this pipeline"),
        ('needs = ["b"]', "p.toml:14:10: needs names the operation itself"),
        ('needs = ["a", "a"]', "p.toml:14:15: needs names an operation twice"),
        ('when = { operation = "a", pointer = "", exists = true }', "14:1: when looks at an"),
        ('data = [{ operation = "a" }]', "p.toml:14:9: data reads an operation that is not needed"),
        (
            NEEDS_A + 'when = { operation = "a", pointer = "/sevrity", exists = true }',
            "p.toml:15:1: the schema of 'a' has nothing at /sevrity",
        ),
        (
            NEEDS_A + 'data = [{ operation = "a", pointer = "/sevrity" }]',
            "p.toml:15:9: the schema of 'a' has nothing at /sevrity",
        ),
        (
            NEEDS_A + 'when = { operation = "a", pointer = "/severity", equals = "hihg" }',
            "p.toml:15:1: the schema of 'a' has no such value at /severity",
        ),
        (NEEDS_A + 'when = "severity == high"', "p.toml:15:1: when is no condition"),
        (NEEDS_A + 'when = { operation = "a", pointer = "s", exists = true }', "no JSON Pointer"),
        (NEEDS_A + 'when = { operation = "a", pointer = "/~2", exists = true }', "no JSON Pointer"),
        (NEEDS_A + 'when = { operation = "a", pointer = "" }', "when needs exactly one test"),
        (
            NEEDS_A + 'when = { operation = "a", pointer = "", equals = 1, in = [1] }',
            "when needs exactly one test",
        ),
        (NEEDS_A + 'when = { operation = "a", pointer = "", in = 1 }', "in is no list of values"),
        (NEEDS_A + 'when = { operation = "a", pointer = "", at_least = "1" }', "is no number"),
        (
            NEEDS_A + 'when = { operation = "a", pointer = "", equal = 1 }',
            'unknown key "equal"; did you mean "equals"?',
        ),
        ('data = [{ operation = "a", path = "" }]', "data has an unknown key"),
        ("data = [{ pointer = '' }]", "data names no part of an answer"),
        ("max_attempts = 0", "p.toml:14:1: max_attempts is out of range"),
        ("timeout_seconds = 0.0", "p.toml:14:1: timeout_seconds is out of range"),
        ('on_invalid_output = "repair"', "p.toml:14:1: on_invalid_output is none of the words"),
        ('merge_task = "M"', "merge_task needs both chunk and merge_task"),
        ("chunk = { max_bytes = 100 }", "chunk needs both chunk and merge_task"),
        ('chunk = { max_bytes = 100 }\nmerge_task = " "', "p.toml:15:1: merge_task is blank"),
        (
            'merge_task = "M"\nchunk = { max_bytes = 100, overlap_bytes = 51 }',
            "overlap_bytes repeats more than half of a part; it must be at most 50",
        ),
        (
            'merge_task = "M"\nmax_input_bytes = 99\nchunk = { max_bytes = 100 }',
            "max_bytes makes parts longer than max_input_bytes",
        ),
        ('uses = "other"', "p.toml:14:1: uses names nothing that comes with Casework"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(extra: str, expected: str) -> None:
    """Before any case is touched."""
    assert expected in complaint(table("a"), table("b", extra))


def test_a_circle_is_named_whole_at_the_first_operation_in_it() -> None:
    """However long it is."""
    line = complaint(
        table("a", 'needs = ["b"]'),
        table("b", 'needs = ["c"]'),
        table("c", 'needs = ["d"]'),
        table("d", 'needs = ["b"]'),
    )
    assert "p.toml:14:1: needs go in a circle: b -> c -> d -> b" in line


def test_an_id_that_parts_get_is_refused() -> None:
    """A part of another operation could not be told from it."""
    assert "has the form of an id" in complaint(table("a#1of2"))


def test_code_and_file_make_the_same_pipeline() -> None:
    """The options are the keys of the file."""
    written = parse(table("a"), table("b", NEEDS_A + 'privacy_profile = "local_only"'))
    schema = {
        "type": "object",
        "additionalProperties": False,
        "properties": {"severity": {"enum": ["low", "high"]}, "facts": {"type": "array"}},
    }
    made = Pipeline(
        name="n",
        operations=[
            Operation(
                "b",
                task="T",
                output_schema=schema,
                needs=("a",),
                privacy_profile=PrivacyProfile.LOCAL_ONLY,
            ),
            Operation("a", task="T", output_schema=schema),
        ],
    )
    assert ["a", "b"] == [spec.id for spec in made.operations]
    for one, other in zip(written.operations, made.operations, strict=True):
        assert (one.id, one.task, one.output_schema, one.needs, one.privacy_profile) == (
            other.id,
            other.task,
            other.output_schema,
            other.needs,
            other.privacy_profile,
        )


@pytest.mark.parametrize(
    ("operations", "expected"),
    [
        ([], "pipeline.operations: operations lists nothing"),
        ([Operation("a")], "pipeline.operations[0]: operations needs a task"),
        (
            [Operation("a", task="T", output_schema={}, needs=["b"])],
            "pipeline.operations[0].needs[0]: needs names no operation of this pipeline",
        ),
        (
            [Operation("a", task="T", output_schema={}, tsak="T")],  # type: ignore[call-arg]
            'unknown key "tsak"; did you mean "task"?',
        ),
        (
            [Operation("a", task="T", output_schema={"type": "strange"})],
            "pipeline.operations[0].output_schema: ",
        ),
    ],
)
def test_a_mistake_in_code_is_one_line_too(operations: list[Operation], expected: str) -> None:
    """With the place as the code writes it."""
    with pytest.raises(ConfigurationError) as caught:
        Pipeline("n", operations)
    assert expected in str(caught.value)


@pytest.mark.parametrize("step", STEPS)
def test_what_comes_with_casework_is_sound(step: str) -> None:
    """Its schema compiles, and it brings everything that an operation needs."""
    spec = Pipeline("n", [Operation("a", uses=step)]).operation("a")
    assert compile_schema(spec.output_schema).schema == spec.output_schema
    assert (step, None, STEPS[step].task) == (spec.template.name, spec.template.content, spec.task)


def test_what_is_written_goes_before_what_a_step_brings() -> None:
    """Each of task, schema and template."""
    spec = Pipeline(
        "n",
        [
            Operation(
                "a",
                uses="case_interpretation_v1",
                task="Mine.",
                output_schema={"type": "string"},
                template="structured_json_v1",
            )
        ],
    ).operation("a")
    assert ("Mine.", {"type": "string"}, "structured_json_v1", "answer") == (
        spec.task,
        spec.output_schema,
        spec.template.name,
        spec.schema_name,
    )
