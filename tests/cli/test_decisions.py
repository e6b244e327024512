"""A person works the inbox: looks, decides, is told what comes next, and forgets a case."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from casework.strict_json import JSONObject
from tests.support.command_line import YES, CommandLine, make_project, write_script

REFUSAL: JSONObject = {"do": "fail", "kind": "refusal"}


@pytest.fixture
def refused(cli: CommandLine) -> CommandLine:
    """Give a project in which every case ended in an error that a person has to settle."""
    write_script(cli.project, [REFUSAL])
    cli.imported()("run")
    return cli


@pytest.fixture
def answered(cli: CommandLine) -> CommandLine:
    """Give a project in which every case has its answer."""
    cli.imported()("run")
    return cli


def waiting(cli: CommandLine, *options: str) -> list[object]:
    """Return the cases of the inbox."""
    return [line["case_id"] for line in cli("inbox", "list", "--json", *options).lines()]


def output(cli: CommandLine, case: str) -> object:
    """Return what stands for a case, as `inbox show` tells it."""
    operations = cli("inbox", "show", case, "--json").document()["operations"]
    assert isinstance(operations, list)
    first = operations[0]
    assert isinstance(first, dict)
    return first["output"]


def view(cli: CommandLine, case: str) -> str:
    """Return the view of a case's operation."""
    text = cli("inbox", "show", case).out
    return text.split("view ")[1].split()[0]


def test_the_cases_of_a_project_are_listed(answered: CommandLine) -> None:
    """With the generation and status of each, for people and for programs."""
    listed = answered("inspect", "--all").out.splitlines()
    assert ["CASE", "STATUS", "GENERATION", "REVISION", "PHASE"] == listed[0].split()
    assert ["a.txt", "SUCCESS", "2", "1", "BUILDING_CASE"] == listed[1].split()
    told = [json.loads(line) for line in answered("inspect", "--all", "--json").out.splitlines()]
    assert "a.txt" == told[0]["case_id"]
    assert 2 == answered("inspect").code
    assert 2 == answered("inspect", "a.txt", "--all").code


def test_items_leave_the_inbox_one_by_one(refused: CommandLine) -> None:
    """Each decision names the next item, and the last one says that nothing waits."""
    assert ["a.txt", "b.txt", "c.txt"] == waiting(refused)
    done = refused("inbox", "correct", "a.txt", "--set", '={"answer": "by hand"}')
    assert (0, True) == (done.code, "next: casework inbox show b.txt first" in done.err)
    refused("inbox", "reject", "b.txt", "--reason", "illegible")
    last = refused("inbox", "reject", "c.txt", "first", "--reason", "illegible")
    assert "next: nothing waits for a person" in last.err
    assert [] == waiting(refused)
    assert ["a.txt", "b.txt", "c.txt"] == waiting(refused, "--reviewed")
    counts = refused("status", "--json").document()["counts"]
    assert isinstance(counts, dict)
    assert (1, 2, True) == tuple(counts[n] for n in ("success", "error", "reconciles"))


def test_decided_operations_are_asked_again_only_by_name_of_the_option(
    refused: CommandLine,
) -> None:
    """What a person closed stays closed until somebody says otherwise; what stands, stands."""
    refused("inbox", "correct", "b.txt", "--set", '={"answer": "by hand"}')
    refused("inbox", "reject", "a.txt", "--reason", "illegible")
    again = refused("retry", "--failed", "--json").lines()
    assert ["c.txt"] == [line["case_id"] for line in again]
    again = refused("retry", "--failed", "--reviewed", "--json").lines()
    assert ["a.txt"] == [line["case_id"] for line in again]


def test_a_rejected_answer_can_be_asked_for_again(answered: CommandLine) -> None:
    """An answer that no longer stands lives on as a new operation, which the next run asks."""
    answered("inbox", "reject", "a.txt", "--reason", "wrong pump")
    again = answered("retry", "--case", "a.txt", "--reviewed", "--json").lines()
    assert [("first@2", "rejected")] == [(one["new_operation_id"], one["reason"]) for one in again]
    assert 0 == answered("run").code
    assert [] == waiting(answered, "--reviewed")
    assert {"a.txt", "b.txt", "c.txt"} == set(map(str, waiting(answered, "--unreviewed")))


def test_a_view_is_good_until_the_result_changes(answered: CommandLine) -> None:
    """The second person, who saw the older answer, is told to look again."""
    seen = view(answered, "a.txt")
    corrected = answered("inbox", "correct", "a.txt", "--set-text", "/answer=no", "--view", seen)
    assert (0, {"answer": "no"}) == (corrected.code, output(answered, "a.txt"))
    late = answered("inbox", "approve", "a.txt", "--view", seen)
    assert (7, True) == (late.code, "[stale_view]" in late.err)
    assert 0 == answered("inbox", "approve", "a.txt", "--view", view(answered, "a.txt")).code


def test_who_decided_and_what_the_model_said_is_shown(answered: CommandLine) -> None:
    """The correction stands beside the model's own word, under the person's name."""
    answered("inbox", "correct", "a.txt", "--set", '/answer="no"', "--actor", "Ada")
    shown = answered("inbox", "show", "a.txt").out
    assert ("corrected by Ada" in shown, "(the model: yes)" in shown) == (True, True)
    assert "Ada" in answered("inspect", "a.txt", "--timeline").out


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("approve", "nobody"), "package_not_found"),
        (("approve", "a.txt", "second"), "operation_not_found"),
        (("correct", "a.txt"), "bad_decision"),
        (("correct", "a.txt", "--set", "/answer"), "bad_correction"),
        (("correct", "a.txt", "--set", "answer=1"), "bad_correction"),
        (("correct", "a.txt", "--set", "/answer=no"), "bad_correction"),
        (("correct", "a.txt", "--set", "/a=1", "--set-text", "/a=1"), "bad_correction"),
        (("correct", "a.txt", "--set", "/a/b=1"), "pointer_not_found"),
        (("correct", "a.txt", "--set", "=5"), "schema_violation"),
        (("reject", "a.txt", "--reason", " "), "bad_decision"),
        (("reject", "a.txt"), "usage"),
    ],
)
def test_a_mistake_decides_nothing(
    answered: CommandLine, words: tuple[str, ...], code: str
) -> None:
    """One line with a stable code, exit 2, and the result as it was."""
    ran = answered("inbox", *words)
    assert (2, f"[{code}]") == (ran.code, ran.err.split()[-1])
    assert {"answer": "yes"} == output(answered, "a.txt")


def test_unreviewed_answers_can_be_signed_one_by_one(answered: CommandLine) -> None:
    """Who signs every result sees what is left."""
    answered("inbox", "approve", "b.txt")
    assert ["a.txt", "c.txt"] == waiting(answered, "--unreviewed")


def test_packages_travel_with_their_decisions(
    answered: CommandLine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sealed here and received there, what a person decided stands there too."""
    answered("inbox", "correct", "a.txt", "--set-text", "/answer=no")
    answered("export", "--format", "zip", "-o", str(tmp_path / "zips"))
    other = CommandLine(make_project(tmp_path / "other"), capsys)
    sealed = [str(path) for path in sorted((tmp_path / "zips").iterdir())]
    received = other("inbox", "receive", *sealed, "--json")
    assert ["imported"] * 3 == [line["arrival"] for line in received.lines()]
    assert {"answer": "no"} == output(other, "a.txt")
    again = other("inbox", "receive", sealed[0], "--json")
    assert (0, ["duplicate"]) == (again.code, [line["arrival"] for line in again.lines()])
    broken = tmp_path / "broken.zip"
    broken.write_bytes(Path(sealed[0]).read_bytes()[:-9])
    assert 5 == other("inbox", "receive", str(broken)).code
    assert 2 == other("inbox", "receive", str(tmp_path / "nowhere.zip")).code


def test_a_hostile_file_ends_with_6(answered: CommandLine, tmp_path: Path) -> None:
    """The reason lies beside the file in runtime/rejected."""
    answered("export", "--format", "zip", "-o", str(tmp_path))
    sealed = next(tmp_path.glob("a.txt*.zip"))
    content = sealed.read_bytes()
    sealed.write_bytes(content.replace(b'"kind":"created"', b'"kind":"creatEd"'))
    assert 6 == answered("inbox", "receive", str(sealed)).code
    (note,) = (answered.project / "runtime" / "rejected").glob("*.json")
    assert "rejected" == json.loads(note.read_bytes())["result"]


def test_a_forgotten_case_is_gone_from_everything_but_its_records(answered: CommandLine) -> None:
    """It needs a yes; then only records are left, and every verb says so or leaves it out."""
    assert 2 == answered("forget", "a.txt").code
    assert 0 == answered("forget", "a.txt", "--yes", "--reason", "asked", "--actor", "Ada").code
    assert [2, 2] == [
        answered(verb, *words).code
        for verb, *words in (("audit", "a.txt"), ("export", "--case", "a.txt"))
    ]
    assert 0 == answered("verify").code
    exported = [line["case_id"] for line in answered("export").lines()]
    assert ["b.txt", "c.txt"] == exported
    counts = answered("status", "--json").document()["counts"]
    assert isinstance(counts, dict)
    assert (2, True) == (counts["cases"], counts["reconciles"])
    for words in (("inbox", "show", "a.txt"), ("inbox", "approve", "a.txt")):
        ran = answered(*words)
        assert (2, True) == (ran.code, "[case_forgotten]" in ran.err)
    again = answered("import", str(answered.project / "inputs"))
    assert (3, True) == (again.code, "[case_forgotten]" in again.err)
    audited = {line["case_id"] for line in answered("audit", "--all", "--json").lines()}
    assert {"b.txt", "c.txt"} == audited
    assert "forgotten" in answered("inspect", "a.txt", "--timeline").out


def test_a_blocked_item_that_was_closed_is_not_released(cli: CommandLine) -> None:
    """Bulk release takes what waits, not what a person decided about."""
    write_script(cli.project, [{"do": "fail", "kind": "http_5xx", "http_status": 503}])
    cli.imported()("run")
    cli("inbox", "reject", "a.txt", "--reason", "withdrawn")
    released = cli("inbox", "release", "--reason", "LLM_UNAVAILABLE", "--all", "--json")
    assert ["b.txt", "c.txt"] == [line["case_id"] for line in released.lines()]
    write_script(cli.project, [YES])
    assert 5 == released.code


def test_what_lives_on_elsewhere_is_shown_as_history(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody waits for the old operation any more: its successor is named, and its revision."""
    down: JSONObject = {"do": "fail", "kind": "http_5xx", "http_status": 503}
    cli = CommandLine(make_project(tmp_path, [down], blocked=0), capsys).imported()
    cli("run")
    assert "may go on from" in cli("inbox", "show", "a.txt").out
    write_script(cli.project, [YES])
    cli("retry", "--reason", "LLM_UNAVAILABLE", "--case", "a.txt")
    shown = cli("inbox", "show", "a.txt").out
    assert (True, False) == ("  lives on as first@2" in shown, "may go on from" in shown)
    assert "REVISION" in cli("inspect", "a.txt").out
