"""The examples of the page on pipelines run as they are printed, through the whole line."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from casework.checkpoints.verify import verify
from casework.runner.pipeline import Pipeline
from casework.strict_json import JSONObject
from tests.support.command_line import CommandLine, make_project, write_script

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "pipelines.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
TOML = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)

INTERPRETED: JSONObject = {
    "summary": "A pump failed twice.",
    "parties": [{"name": "Ada", "role": None}],
    "facts": [{"statement": "It failed.", "stated_by": "Ada", "quote": "The pump failed twice."}],
    "conclusions": [{"conclusion": "It is worn.", "rests_on": [0]}],
    "conflicts": [],
    "open_questions": ["Since when?"],
}


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Give a project with one text, whose provider judges first and interprets then."""
    steps: list[JSONObject] = [
        {"do": "reply", "text": '{"severity": "high"}'},
        {"do": "reply", "text": json.dumps(INTERPRETED)},
    ]
    folder = make_project(
        tmp_path / "claims-2026", steps, texts={"a.txt": "The pump failed twice."}
    )
    return CommandLine(folder, capsys).imported()


def test_a_pipeline_written_in_python_runs_as_the_page_says(
    cli: CommandLine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both printed blocks, one after the other; the package verifies."""
    monkeypatch.chdir(cli.project.parent)
    exec(compile("\n".join(PYTHON), "docs/pipelines.md", "exec"), {})
    assert "settled StateCounts(cases=1, total=2, success=2" in capsys.readouterr().out
    (package,) = cli.project.glob("runtime/cases/*/*")
    assert verify(package).ok
    outputs = {str(line["operation_id"]): line["output"] for line in cli("export").lines()}
    assert {"triage": {"severity": "high"}, "interpretation": INTERPRETED} == outputs


def test_an_interpretation_is_asked_for_in_two_lines_of_toml(cli: CommandLine) -> None:
    """The step that comes with Casework, through import, run, export and verify."""
    write_script(cli.project, [{"do": "reply", "text": json.dumps(INTERPRETED)}])
    (table,) = [block for block in TOML if "uses = " in block]
    (cli.project / "pipeline.toml").write_text(f'name = "claims"\n{table}', encoding="utf-8")
    assert 0 == cli("run").code
    (line,) = cli("export").lines()
    assert (INTERPRETED, "case_interpretation_v1") == (line["output"], line["prompt_version"])
    assert 0 == cli("verify").code
    shown = cli("inspect", "a.txt", "interpretation", "--request").out
    assert "case_interpretation" in shown


@pytest.mark.parametrize("block", [b for b in TOML if "[[operations]]" in b])
def test_every_pipeline_on_the_page_can_be_read(block: str, tmp_path: Path) -> None:
    """With the files that it names, and the operations that it needs, beside it."""
    (tmp_path / "schemas").mkdir()
    for name in re.findall(r'"(schemas/[a-z]+\.json)"', block):
        (tmp_path / name).write_text("{}", encoding="utf-8")
    needed = "".join(
        f'[[operations]]\nid = "{name}"\ntask = "T"\noutput_schema = {{}}\n'
        for name in ("triage", "facts")
        if f'"{name}"' in block and f'id = "{name}"' not in block
    )
    text = block if block.startswith("name") else f'name = "n"\n{block}'
    pipeline = Pipeline.parse(f"{text}\n{needed}", folder=tmp_path)
    assert 1 <= len(pipeline.operations)
