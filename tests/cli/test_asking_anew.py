"""A person changes what is asked, is told what that makes stale, and lets it be asked anew."""

from __future__ import annotations

import pytest

from casework.strict_json import JSONObject
from tests.support.command_line import PIPELINE, CommandLine


@pytest.fixture
def edited(cli: CommandLine) -> CommandLine:
    """Give a project whose results were made with another task than its pipeline has now."""
    cli.imported()("run")
    changed = PIPELINE.replace("Answer.", "Answer kindly.")
    (cli.project / "pipeline.toml").write_text(changed, encoding="utf-8")
    return cli


def counts(cli: CommandLine) -> JSONObject:
    """Return the counts of the status."""
    found = cli("status", "--json").document()["counts"]
    assert isinstance(found, dict)
    return found


def test_status_names_what_is_stale_and_the_way_out(edited: CommandLine) -> None:
    """By a sample at first, and counted on demand; a fresh project tells nothing of it."""
    told = edited("status")
    assert (0, True) == (told.code, "stale  first: made from other messages: " in told.out)
    assert [{"operation_id": "first", "differs": ["messages"]}] == (
        edited("status", "--json").document()["stale"]
    )
    rows = edited("status", "--by", "stale", "--json").document()["rows"]
    assert [{"stale": "first: messages", "total": 3, "SUCCESS": 3}] == rows
    (edited.project / "pipeline.toml").write_text(PIPELINE, encoding="utf-8")
    assert [] == edited("status", "--json").document()["stale"]


def test_exactly_what_is_stale_is_asked_again(edited: CommandLine) -> None:
    """The run is refused first, then everything is asked once; old results can be exported."""
    refused = edited("run")
    assert (2, True) == (refused.code, "casework retry --stale" in refused.err)
    one = edited("retry", "--stale", "--case", "b.txt", "--json").lines()
    assert [("b.txt", "first@2", "messages")] == [
        (line["case_id"], line["new_operation_id"], line["reason"]) for line in one
    ]
    others = edited("retry", "--stale", "--op", "first")
    assert (0, True) == (others.code, "2 asked again" in others.err)
    assert 0 == edited("run").code
    assert (3, 0) == (counts(edited)["success"], counts(edited)["waiting"])
    assert "nothing of that kind was found\n" == edited("retry", "--stale").err
    assert 3 == len(edited("export").lines())
    assert 6 == len(edited("export", "--campaigns").lines())
    assert 0 == edited("verify").code


def test_what_a_person_decided_about_is_asked_again_only_by_name(edited: CommandLine) -> None:
    """An approved answer stays, unless somebody says that it need not."""
    edited("inbox", "approve", "a.txt")
    asked = edited("retry", "--stale", "--json")
    assert ["b.txt", "c.txt"] == [line["case_id"] for line in asked.lines()]
    assert "left as decided: 1 result; --stale --reviewed" in asked.err
    assert [] == edited("status", "--json").document()["stale"]
    again = edited("retry", "--stale", "--reviewed", "--json").lines()
    assert ["a.txt"] == [line["case_id"] for line in again]


@pytest.mark.parametrize(
    "words",
    [
        ("retry", "--stale", "--failed"),
        ("retry", "--stale", "--op", "other"),
        ("revise", "--reason", "why"),
        ("revise", "--all", "--reason", "why"),
        ("revise", "a.txt", "--all", "--yes", "--reason", "why"),
        ("revise", "a.txt", "--reason", " "),
        ("revise", "a.txt"),
    ],
)
def test_a_choice_that_says_too_little_or_too_much_changes_nothing(
    edited: CommandLine, words: tuple[str, ...]
) -> None:
    """One line, and the exit code of a usage error."""
    before = counts(edited)
    assert 2 == edited(*words).code
    assert before == counts(edited)


def test_a_revised_case_is_asked_anew_by_the_next_run(cli: CommandLine) -> None:
    """The others are not, and what was found before can be exported."""
    cli.imported()("run")
    done = cli("revise", "b.txt", "--reason", "new rules", "--json").lines()
    assert [("b.txt", "revised", 2)] == [
        (line["case_id"], line["answer"], line["analysis_revision"]) for line in done
    ]
    assert (2, 1) == (counts(cli)["success"], counts(cli)["waiting"])
    assert 1 == cli("run", "--json").document()["calls"]
    assert 3 == len(cli("export").lines())
    assert 4 == len(cli("export", "--campaigns").lines())
    assert 0 == cli("verify").code


def test_every_case_can_be_revised(cli: CommandLine) -> None:
    """Where somebody confirms it."""
    cli.imported()("run")
    assert 3 == len(cli("revise", "--all", "--yes", "--reason", "why", "--json").lines())
    assert 3 == cli("run", "--json").document()["calls"]
