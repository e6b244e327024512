"""Exports as a person asks for them."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest

from casework.checkpoints.store import CheckpointStore
from casework.runtime.views.evidence import case_evidence
from tests.support.command_line import YES, CommandLine, child, make_project, write_script
from tests.support.page_reader import PageReader

TYPED = """
name = "review"
[[operations]]
id = "first"
task = "Answer."
[operations.output_schema]
type = "object"
required = ["answer"]
[operations.output_schema.properties]
answer = { type = "string" }
pages = { type = "integer" }
"""


@pytest.fixture
def worked(cli: CommandLine) -> CommandLine:
    """Give a project with three answers."""
    (cli.project / "pipeline.toml").write_text(TYPED, encoding="utf-8")
    assert 0 == cli.imported()("run").code
    return cli


def test_a_parquet_file_holds_every_case_with_types_from_the_pipeline(
    worked: CommandLine,
) -> None:
    """A member that no answer has is a column all the same."""
    parquet = pytest.importorskip("pyarrow.parquet")
    target = worked.project / "out.parquet"
    ran = worked("export", "--format", "parquet", "-o", str(target), "--json")
    found = parquet.read_table(target)
    assert (0, 3) == (ran.code, ran.document()["rows"])
    assert {"yes"} == set(found.column("/answer").to_pylist())
    assert "int64" == str(found.schema.field("/pages").type)
    assert ["a.txt", "b.txt", "c.txt"] == found.column("case_id").to_pylist()


def test_parquet_goes_through_a_pipe(worked: CommandLine) -> None:
    """The bytes on standard output are those of the file."""
    parquet = pytest.importorskip("pyarrow.parquet")
    target = worked.project / "out.parquet"
    worked("export", "--format", "parquet", "-o", str(target))
    piped = child("export", "--format", "parquet", "--project", str(worked.project))
    assert target.read_bytes() == piped.stdout
    assert 3 == parquet.read_table(io.BytesIO(piped.stdout)).num_rows


def test_a_report_shows_each_text_beside_its_answer(worked: CommandLine) -> None:
    """The page is whole, counts its cases, and holds what was imported."""
    target = worked.project / "out.html"
    ran = worked("export", "--format", "html", "-o", str(target), "--json")
    page = PageReader(target.read_bytes())
    assert (0, 3) == (ran.code, ran.document()["cases"])
    assert {"One.", "Two.", "Three."} <= set(page.text.replace("1  ", "").split("\n"))
    assert [] == page.open


def test_a_report_of_failures_holds_only_them(cli: CommandLine) -> None:
    """With --only the other cases are not there."""
    write_script(cli.project, [{"do": "reply", "text": "no JSON"}, YES])
    cli.imported()("run")
    page = PageReader(cli("export", "--format", "html", "--only", "error").out.encode())
    assert 1 == [tag for tag, _ in page.elements].count("details")


def test_a_damaged_case_is_left_out_of_a_report(worked: CommandLine) -> None:
    """The others are there, and the code tells of it."""
    outcome = next(worked.project.glob("runtime/cases/*/*/llm/operations/*/outcome-0001.json"))
    outcome.write_bytes(outcome.read_bytes().replace(b"yes", b"yeS"))
    ran = worked("export", "--format", "html")
    page = PageReader(ran.out.encode())
    assert (6, 2) == (ran.code, [tag for tag, _ in page.elements].count("details"))
    assert "is left out" in ran.err


def test_a_csv_export_can_be_imported_again(
    cli: CommandLine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a byte order mark, every letter and every id comes back as it went out."""
    texts = ['=HYPERLINK("http://x","y")', "\u2028 a;b\r\n\t'\"\u00e9", "-5"]
    write_script(
        cli.project,
        [{"do": "reply", "text": json.dumps({"answer": text})} for text in texts],
    )
    cli.imported()("run", "--concurrency", "1")
    target = tmp_path / "out.csv"
    cli("export", "--format", "csv", "--bom", "--keep-formulas", "-o", str(target))
    other = CommandLine(make_project(tmp_path / "other"), capsys)
    named = ("--id-field", "case_id", "--text-field", "/answer")
    assert 0 == other("import", str(target), *named).code
    store = CheckpointStore(other.project / "runtime")
    back = {
        case_id: case_evidence(store, case_id).texts[0][1]
        for case_id in ("a.txt", "b.txt", "c.txt")
    }
    assert {line["case_id"]: line["output"]["answer"] for line in cli("export").lines()} == back  # type: ignore[index,call-overload]
