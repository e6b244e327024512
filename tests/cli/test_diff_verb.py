"""Comparing runs as a person names them."""

from __future__ import annotations

from pathlib import Path

import pytest

from casework.strict_json import JSONObject
from tests.support.command_line import CommandLine, make_project, write_script
from tests.support.page_reader import PageReader

NO: JSONObject = {"do": "reply", "text": '{"answer": "no", "n": 1}'}
BROKEN: JSONObject = {"do": "reply", "text": "no JSON"}


@pytest.fixture
def worked(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Give a project whose three cases were answered with yes, from inside its folder."""
    monkeypatch.chdir(cli.project)
    assert 0 == cli.imported()("run").code
    return cli


def other_project(folder: Path, captured: pytest.CaptureFixture[str]) -> CommandLine:
    """Give a project with one more case, answered with no."""
    texts = {"a.txt": "One.", "b.txt": "Two.", "c.txt": "Three.", "d.txt": "Four."}
    other = CommandLine(make_project(folder, [NO], texts=texts), captured)
    assert 0 == other.imported()("run").code
    return other


def test_a_run_equals_itself(worked: CommandLine) -> None:
    """Whether it is named by its operation, its project or its export."""
    worked("export", "-o", "out.jsonl")
    for name in ("first", ".", ".:first", "out.jsonl", "out.jsonl:first", str(worked.project)):
        ran = worked("diff", "first", name, "--json")
        assert 0 == ran.code
        assert {"same": 3, "changed": 0, "only_a": 0, "only_b": 0} == ran.document()["counts"]


def test_another_project_is_compared_case_by_case(
    worked: CommandLine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Changed answers, cases that only one has, and a sample; the code stays 0."""
    other = other_project(tmp_path / "other", capsys)
    ran = worked("diff", "first", f"{other.project}:first", "--sample", "1")
    assert 0 == ran.code
    assert "same 0, changed 3, only in A 0, only in B 1" in ran.out
    assert '/answer  3        "yes" -> "no" (3)' in ran.out
    assert "/n       3        (absent) -> 1 (3)" in ran.out
    assert 1 == ran.out.count("case ")


def test_a_campaign_is_compared_with_what_came_before(cli: CommandLine) -> None:
    """Only what was asked again is in both; its outcome changed."""
    write_script(cli.project, [BROKEN, NO])
    cli.imported()("run")
    cli("retry", "--failed")
    write_script(cli.project, [NO])
    assert 0 == cli("run").code
    document = cli("diff", "first", "first@2", "--json").document()
    assert {"same": 0, "changed": 1, "only_a": 2, "only_b": 0} == document["counts"]
    outcomes = document["outcomes"]
    assert isinstance(outcomes, list)
    assert isinstance(outcomes[0], dict)
    assert ("SUCCESS", True) == (
        outcomes[0]["b"],
        str(outcomes[0]["a"]).startswith("ERROR "),
    )


def test_a_project_or_file_stands_for_the_answers_that_hold_now(cli: CommandLine) -> None:
    """After failures were asked again, the later campaign counts for their cases."""
    write_script(cli.project, [BROKEN, NO])
    cli.imported()("run")
    cli("retry", "--failed")
    write_script(cli.project, [NO])
    cli("run")
    everything = str(cli.project / "all.jsonl")
    cli("export", "--campaigns", "-o", everything)
    ran = cli("diff", str(cli.project), everything, "--op", "first", "--json")
    assert {"same": 3, "changed": 0, "only_a": 0, "only_b": 0} == ran.document()["counts"]


def test_an_export_with_a_byte_order_mark_is_read_as_one_without(worked: CommandLine) -> None:
    """Editors write one in passing; the answers are the same."""
    lines = worked("export", "--campaigns").out
    marked = worked.project / "marked.jsonl"
    marked.write_text(lines, encoding="utf-8-sig")
    ran = worked("diff", "first", f"{marked}:first", "--json")
    assert {"same": 3, "changed": 0, "only_a": 0, "only_b": 0} == ran.document()["counts"]


def test_parts_of_a_long_document_are_no_answers_of_the_case(worked: CommandLine) -> None:
    """A file that holds them is compared by what joins them; named exactly, they are a run."""
    rows = worked("export").out
    parts = rows.replace('"first"', '"first#2of3"').replace("yes", "part")
    Path("parts.jsonl").write_text(rows + parts, encoding="utf-8")
    whole = worked("diff", "first", "parts.jsonl", "--json").document()["counts"]
    exact = worked("diff", "first", "parts.jsonl:first#2of3", "--json").document()["counts"]
    assert {"same": 3, "changed": 0, "only_a": 0, "only_b": 0} == whole
    assert {"same": 0, "changed": 3, "only_a": 0, "only_b": 0} == exact


def test_fields_can_be_chosen(
    worked: CommandLine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What differs elsewhere is the same."""
    other = other_project(tmp_path / "other", capsys)
    ran = worked("diff", "first", str(other.project), "--field", "/n", "--json")
    fields = ran.document()["fields"]
    assert isinstance(fields, list)
    assert ["/n"] == [field["field"] for field in fields if isinstance(field, dict)]


def test_a_page_can_be_written(worked: CommandLine) -> None:
    """It is whole, and JSON is the same with --json and with --format json."""
    page = PageReader(worked("diff", "first", ".", "--format", "html").out.encode())
    assert "same 3, changed 0" in page.text
    assert [] == page.open
    assert (
        worked("diff", "first", ".", "--json").out
        == worked("diff", "first", ".", "--format", "json").out
    )


def test_a_damaged_case_is_left_out_and_named(worked: CommandLine) -> None:
    """The others are compared, and the code tells of it."""
    worked("export", "-o", "out.jsonl")
    outcome = next(worked.project.glob("runtime/cases/*/*/llm/operations/*/outcome-0001.json"))
    outcome.write_bytes(outcome.read_bytes().replace(b"yes", b"yeS"))
    ran = worked("diff", "first", "out.jsonl")
    assert (6, True) == (ran.code, "same 2, changed 0, only in A 0, only in B 1" in ran.out)
    assert "is left out" in ran.err


def test_runs_that_are_not_there_are_refused_with_a_way_out(worked: CommandLine) -> None:
    """The names that there are, the line that is none, the option that is missing or of no use."""
    Path("bad.jsonl").write_bytes(b'{"case_id": 1}\n')
    rows = worked("export").out
    Path("two.jsonl").write_text(rows + rows.replace('"first"', '"second"'), encoding="utf-8")
    refusals = [
        (("first", "nobody"), "there are: first", "operation_not_found"),
        (("first", "nowhere.jsonl"), "No such file", "file_unreadable"),
        (("first", "bad.jsonl"), "bad.jsonl:1", "export_line_invalid"),
        (("first", "two.jsonl"), "several operations: first, second", "operation_not_named"),
        (("first", "first", "--op", "first"), "leave it out", "nothing_to_choose"),
        (("first", "first", "--field", "answer"), "JSON Pointer", "field_invalid"),
    ]
    for words, part, code in refusals:
        ran = worked("diff", *words)
        assert (2, "", 1) == (ran.code, ran.out, ran.err.count("\n"))
        assert part in ran.err
        assert f"[{code}]" in ran.err
