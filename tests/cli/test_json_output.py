"""With ``--json`` standard output is JSON and nothing else, for every verb."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main

from casework.runtime.cli.command_line import app
from casework.strict_json import parse
from tests.support.command_line import YES, CommandLine, write_script

DOCUMENTS = [
    ("init",),
    ("doctor",),
    ("import", "inputs"),
    ("import", "inputs", "--dry-run"),
    ("run",),
    ("status",),
    ("status", "--by", "op"),
    ("status", "--by", "provider"),
    ("status", "--by", "reason"),
    ("status", "--by", "stale"),
    ("explain",),
    ("plan",),
    ("run", "--dry-run"),
    ("pause", "--reason", "a look"),
    ("resume",),
    ("cancel", "--all"),
    ("cancel", "--all", "--undo"),
    ("inspect", "a.txt"),
    ("inspect", "a.txt", "--request"),
    ("inspect", "a.txt", "--outcome"),
    ("inbox", "show", "a.txt"),
    ("inbox", "approve", "b.txt"),
    ("inbox", "correct", "b.txt", "--set-text", "/answer=no"),
    ("inbox", "reject", "a.txt", "--reason", "no JSON"),
    ("forget", "c.txt", "--yes"),
    ("export", "--format", "csv", "-o", "out.csv"),
    ("export", "--format", "parquet", "-o", "out.parquet"),
    ("export", "--format", "html", "-o", "out.html"),
    ("export", "--format", "zip", "-o", "zips"),
    ("diff", "first", "."),
    ("config", "show"),
    ("config", "show", "--origin"),
    ("completion", "bash"),
    ("keys", "create", "web"),
    ("keys", "revoke", "intake"),
]
LINES = [
    ("retry", "--failed"),
    ("retry", "--stale"),
    ("revise", "a.txt", "--reason", "new rules"),
    ("inbox", "list"),
    ("inbox", "release", "--all"),
    ("inbox", "receive"),
    ("inspect", "a.txt", "--timeline"),
    ("audit", "--all"),
    ("audit", "a.txt"),
    ("verify",),
    ("export",),
    ("logs",),
    ("logs", "--requests"),
    ("keys", "list"),
]
ELSEWHERE = {"demo", "model install", "serve", "worker"}
"""Tried where they need no network, or end by themselves: below, or in their own tests."""


def verbs(command: object, trail: str = "") -> Iterator[str]:
    """Yield the verbs of the command line."""
    for name, child in getattr(command, "commands", {}).items():
        path = f"{trail} {name}".strip()
        if getattr(child, "commands", None):
            yield from verbs(child, path)
        else:
            yield path


@pytest.fixture
def worked(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Give a project after a run in which one case failed."""
    monkeypatch.chdir(cli.project)
    write_script(cli.project, [{"do": "reply", "text": "no JSON"}, YES])
    cli.imported()("run", "--concurrency", "1")
    cli("keys", "create", "intake")
    return cli


@pytest.mark.parametrize("words", DOCUMENTS, ids=" ".join)
def test_a_document_is_one_strict_json_object(worked: CommandLine, words: tuple[str, ...]) -> None:
    """Standard output is exactly one object."""
    ran = worked(*words, "--json")
    assert isinstance(parse(ran.out), dict)
    assert ran.code in {0, 3}


@pytest.mark.parametrize("words", LINES, ids=" ".join)
def test_a_list_is_one_object_a_line(worked: CommandLine, words: tuple[str, ...]) -> None:
    """Standard output is JSON lines."""
    ran = worked(*words, "--json")
    assert all(isinstance(parse(line), dict) for line in ran.out.splitlines())
    assert ran.code in {0, 3, 5}


def test_every_verb_is_tried() -> None:
    """No verb is missing from the lists above."""
    known = set(verbs(typer.main.get_command(app)))
    tried = {" ".join(words) for words in DOCUMENTS + LINES}
    untried = {
        verb
        for verb in known
        if not any(words == verb or words.startswith(f"{verb} ") for words in tried)
    }
    assert ELSEWHERE == untried


def test_times_in_json_are_utc(worked: CommandLine) -> None:
    """Every time ends with Z."""
    line = worked("audit", "a.txt", "--json").lines()[0]
    document = worked("inspect", "a.txt", "--json").document()
    assert str(line["started_at"]).endswith("Z")
    assert str(document["created_at"]).endswith("Z")


def test_the_run_document_reconciles(cli: CommandLine) -> None:
    """States add up to the operations of the imported cases."""
    counts = cli.imported()("run", "--json").document()["counts"]
    assert isinstance(counts, dict)
    parts = ("success", "error", "blocked", "retry_pending", "waiting", "running")
    assert (3, 3, True) == (
        counts["operations"],
        sum(int(str(counts[part])) for part in parts),
        counts["reconciles"],
    )


def test_the_demonstration_speaks_json_and_reuses_everything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A second demonstration makes no call."""
    cli = CommandLine(tmp_path / "demo", capsys)
    first, second = cli("demo", "--json"), cli("demo", "--json")
    cases = first.document()["calls"]
    assert (0, 0) == (first.code, second.code)
    assert (0, cases) == (second.document()["calls"], second.document()["reused"])


def test_unknown_is_null(cli: CommandLine) -> None:
    """Tokens that no call told are null, not zero."""
    usage = cli.imported()("run", "--json").document()["usage"]
    assert isinstance(usage, dict)
    assert (None, 3) == (usage["prompt_tokens"], usage["calls_without_price"])
    assert json.loads("{}") == usage["cost"]
