from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from casework.config.privacy_profile import PrivacyProfile
from casework.errors import ConfigurationError
from casework.runner.data_selection import DataSelector
from casework.runner.pipeline import Pipeline

WHOLE = r"""
name = "claims"

[[operations]]
id = "triage"
template = "prompts/triage_v2.txt"
task_file = "tasks/triage.md"
output_schema = "schemas/triage.json"
schema_name = "triage"
data = ["*.md", "case/facts.json"]
privacy_profile = "local_only"
max_input_bytes = 1000
min_pages_with_text = 0.25

[operations.parameters]
temperature = 0.5
stop = "\n\n"
max_tokens = 64

[[operations]]
id = "summary"
task = 'Summarise {braces} and C:\Users.'

[operations.output_schema]
type = "object"
properties = { sum = { type = "string", maxLength = 100 }, share = { maximum = 0.5 } }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("prompts", "tasks", "schemas"):
        (tmp_path / name).mkdir()
    (tmp_path / "prompts" / "triage_v2.txt").write_bytes(b"{{task}}\n{{data}}\n")
    (tmp_path / "tasks" / "triage.md").write_bytes("\ufeffJudge.\r\n".encode())
    (tmp_path / "schemas" / "triage.json").write_text('{"type": "object"}', encoding="utf-8")
    (tmp_path / "pipeline.toml").write_text(WHOLE, encoding="utf-8")
    return tmp_path


def complaint(text: str, folder: Path) -> str:
    with pytest.raises(ConfigurationError) as caught:
        Pipeline.parse(text, folder=folder, source="p.toml")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def operation(extra: str, *, task: str = 'task = "T"', schema: str = "output_schema = {}") -> str:
    return f'name = "n"\n[[operations]]\nid = "a"\n{task}\n{schema}\n{extra}\n'


def test_a_pipeline_is_read_with_every_file_that_it_names(folder: Path) -> None:
    """What is loaded needs no file any more."""
    pipeline = Pipeline.load(folder / "pipeline.toml")
    triage, summary = pipeline.operations
    assert ("claims", ["triage", "summary"]) == (pipeline.name, [o.id for o in (triage, summary)])
    assert ("triage_v2", b"{{task}}\n{{data}}\n") == (
        triage.template.name,
        triage.template.content,
    )
    assert "Judge." == triage.task
    assert {"type": "object"} == triage.output_schema
    assert DataSelector(("*.md", "case/facts.json")) == triage.data
    assert PrivacyProfile.LOCAL_ONLY is triage.privacy_profile
    assert {"temperature": 0.5, "stop": ["\n\n"], "max_tokens": 64} == triage.parameters
    assert (1000, 0.25, "triage") == (
        triage.input_bytes_max,
        triage.pages_with_text_min,
        triage.schema_name,
    )
    assert f"{folder / 'pipeline.toml'}:5:1" == triage.where


def test_what_is_left_out_has_a_default(folder: Path) -> None:
    """An id, a task and a schema are enough."""
    summary = Pipeline.load(folder / "pipeline.toml").operation("summary")
    assert ("structured_json_v1", None) == (summary.template.name, summary.template.content)
    assert r"Summarise {braces} and C:\Users." == summary.task
    assert (DataSelector(), None, {}) == (
        summary.data,
        summary.privacy_profile,
        summary.parameters,
    )
    assert {
        "type": "object",
        "properties": {"sum": {"type": "string", "maxLength": 100}, "share": {"maximum": 0.5}},
    } == summary.output_schema
    assert 512 * 1024 == summary.input_bytes_max


def test_a_pipeline_cannot_be_changed(folder: Path) -> None:
    """Records are frozen, and so are the parameters inside."""
    spec = Pipeline.load(folder / "pipeline.toml").operations[0]
    with pytest.raises(dataclasses.FrozenInstanceError):
        spec.id = "other"  # type: ignore[misc]
    with pytest.raises(TypeError):
        spec.parameters["seed"] = 1  # type: ignore[index]


def test_an_unknown_operation_is_answered_with_the_known_ones(folder: Path) -> None:
    """The way out is named."""
    with pytest.raises(ConfigurationError, match="its operations are triage, summary"):
        Pipeline.load(folder / "pipeline.toml").operation("other")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "p.toml:1:1: name is missing"),
        ('name = "n"', "p.toml:1:1: operations is missing"),
        ('name = "n"\noperations = []', "p.toml:2:1: operations lists nothing"),
        ('nmae = "n"\n' + operation(""), 'p.toml:1:1: unknown key "nmae"; did you mean "name"?'),
        (
            operation('tempalte = "x"'),
            'p.toml:6:1: unknown key "tempalte"; did you mean "template"',
        ),
        (operation("parameters = { temprature = 1 }"), 'did you mean "temperature"?'),
        (operation("parameters = { model = 'x' }"), 'p.toml:6:16: unknown key "model"'),
        (operation("parameters = { temperature = 'hot' }"), "6:16: temperature is no number"),
        (operation("temperature = 0"), 'key "temperature"; it belongs below parameters'),
        (operation('needs = "b"'), "needs is no list; write it in brackets, also a single one"),
        (operation("parameters = { temperature = nan }"), "p.toml:6:16: temperature"),
        (operation("parameters = { max_tokens = 0 }"), "p.toml:6:16: max_tokens is out of range"),
        (operation("parameters = { seed = 1.5 }"), "p.toml:6:16: seed is no whole number"),
        (operation("max_input_bytes = 0"), "p.toml:6:1: max_input_bytes is out of range"),
        (operation("min_pages_with_text = 2"), "p.toml:6:1: min_pages_with_text is out of range"),
        (operation('privacy_profile = "none"'), "p.toml:6:1: privacy_profile is none of the words"),
        (operation('schema_name = "a b"'), "p.toml:6:1: schema_name"),
        (operation('data = "all"'), "p.toml:6:1: data selects nothing"),
        (operation("data = []"), "p.toml:6:1: data selects nothing"),
        (operation('data = ["a", "../b"]'), "p.toml:6:14: data must be a pattern"),
        (operation("data = [1]"), "p.toml:6:9: data is no text"),
        (operation("", task=""), "p.toml:2:1: operations needs a task"),
        (operation("", task='task = "T"\ntask_file = "t"'), "p.toml:2:1: operations needs a task"),
        (operation("", task='task = "  "'), "p.toml:4:1: task is blank"),
        (operation("", task='task_file = "absent"'), "p.toml:4:1: task_file names a file that"),
        (operation("", schema=""), "p.toml:2:1: output_schema is missing"),
        (operation("", schema="output_schema = 1"), "p.toml:5:1: output_schema is neither"),
        (operation("", schema='output_schema = "absent.json"'), "p.toml:5:1: output_schema names"),
        (operation("", schema="output_schema = {const = 2026-01-01}"), "p.toml:5:1: output_schema"),
        (operation("", schema="output_schema = {const = inf}"), "p.toml:5:1: output_schema holds"),
        (operation('template = "absent.txt"'), "p.toml:6:1: template names a file that cannot"),
        (
            operation('[[operations]]\nid = "a"\ntask = "T"\noutput_schema = {}'),
            "p.toml:7:1: id is",
        ),
        (operation('path = "C:\\Users"'), "p.toml:6:"),
        ("\ufeffname = 'n'", "p.toml:1:1: begins with a byte order mark"),
    ],
)
def test_a_mistake_is_one_line_with_its_place_and_the_way_out(
    text: str, expected: str, tmp_path: Path
) -> None:
    """File, line, column, what is wrong."""
    line = complaint(text, tmp_path)
    assert expected in line
    assert line.startswith("p.toml:")
    assert line.endswith("]")


@pytest.mark.parametrize(
    "schema",
    [
        '{ "$ref" = "http://127.0.0.1:9/x.json" }',
        '{ "$ref" = "file:///etc/passwd" }',
        '{ type = "strange" }',
        "{ properties = 3 }",
        '{ pattern = "(" }',
    ],
)
def test_a_schema_that_the_gateway_refuses_is_refused_at_load(schema: str, tmp_path: Path) -> None:
    """Before any case is touched, and with the place in the pipeline."""
    line = complaint(operation("", schema=f"output_schema = {schema}"), tmp_path)
    assert line.startswith("p.toml:5:1: ")
    assert line.endswith("[schema_not_allowed]")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", "bad.json:1:1: is not strict JSON"),
        (b'{"type":\n nope}', "bad.json:2:2: is not strict JSON"),
        (b'{"type": "object", "type": "array"}', "bad.json: is not strict JSON (duplicate_key)"),
        (b"[]", "bad.json: a schema must be a JSON object"),
        (b'{"type": "strange"}', "bad.json: output_schema#"),
        (b"\xff", "bad.json: is not strict JSON (encoding)"),
        (b" " * (1024 * 1024 + 1), "p.toml:5:1: output_schema names a file of more than"),
    ],
)
def test_a_bad_schema_file_is_named_with_the_place_inside(
    content: bytes, expected: str, tmp_path: Path
) -> None:
    """The mistake is in that file, so that file is named."""
    (tmp_path / "bad.json").write_bytes(content)
    line = complaint(operation("", schema='output_schema = "bad.json"'), tmp_path)
    assert expected in line
    assert line.endswith(("[schema_not_allowed]", "[config_error]"))


@pytest.mark.parametrize("content", [b"", b" \n", b"\xff"])
def test_a_bad_task_file_is_named(content: bytes, tmp_path: Path) -> None:
    """A task is words in UTF-8."""
    (tmp_path / "t.md").write_bytes(content)
    line = complaint(operation("", task='task_file = "t.md"'), tmp_path)
    assert line.startswith(str(tmp_path / "t.md"))


def test_both_engines_judge_the_schemas(folder: Path) -> None:
    """The engine that will judge the answers is the one that is asked."""
    loaded = [
        Pipeline.load(folder / "pipeline.toml", engine=e) for e in ("jsonschema-rs", "jsonschema")
    ]
    assert loaded[0] == loaded[1]


def test_a_missing_pipeline_is_named(tmp_path: Path) -> None:
    """The path is the user's own."""
    with pytest.raises(ConfigurationError) as caught:
        Pipeline.load(tmp_path / "absent.toml")
    assert str(tmp_path / "absent.toml") in str(caught.value)


def test_a_schema_from_a_table_equals_the_one_from_a_file(tmp_path: Path) -> None:
    """Both ways of writing a schema give the same request."""
    schema = {"type": "object", "properties": {"n": {"type": "number", "minimum": 0.25}}}
    (tmp_path / "s.json").write_text(json.dumps(schema), encoding="utf-8")
    table = '{ type = "object", properties = { n = { type = "number", minimum = 0.25 } } }'
    by_file = Pipeline.parse(operation("", schema='output_schema = "s.json"'), folder=tmp_path)
    by_table = Pipeline.parse(operation("", schema=f"output_schema = {table}"), folder=tmp_path)
    assert by_file.operations[0].output_schema == by_table.operations[0].output_schema
