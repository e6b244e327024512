"""A person orders the line about, and the status shows what holds it back."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from casework.strict_json import JSONObject
from tests.support.command_line import YES, CommandLine, make_project
from tests.support.scripted_line import objects

PRICES = """
[cost]
currency = "EUR"
[budget]
unknown_price_per_call = "0.02"
"""


def settings(cli: CommandLine, more: str) -> None:
    """Add to the project's settings."""
    path = cli.project / "config" / "llm.local.toml"
    path.write_text(path.read_text() + more)


@pytest.fixture
def cli(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> CommandLine:
    """Return a project with three cases and a provider that answers."""
    return CommandLine(make_project(tmp_path, [YES]), capsys).imported()


def line_of(cli: CommandLine) -> JSONObject:
    """Return what the status says of the line."""
    line = cli("status", "--json").document()["line"]
    assert isinstance(line, dict)
    return line


def test_a_pause_holds_until_it_is_lifted(cli: CommandLine) -> None:
    """Nothing is begun, the reason is shown, and resume lets the line go on."""
    assert 0 == cli("pause", "--reason", "the  server\nis moved").code
    held = cli("run", "--once")
    assert (5, True) == (held.code, "(casework resume)" in held.err)
    paused = line_of(cli)["paused"]
    assert isinstance(paused, dict)
    assert "the server is moved" == paused["reason"]
    assert "paused by hand since" in cli("status").out
    assert {"paused": False, "was_paused": True} == cli("resume", "--json").document()
    assert {"paused": False, "was_paused": False} == cli("resume", "--json").document()
    assert line_of(cli)["paused"] is None
    assert 0 == cli("run").code


def test_what_is_cancelled_waits_until_it_is_undone(cli: CommandLine) -> None:
    """One case is left out by every run, then begun after all."""
    told = cli("cancel", "a.txt", "--json").document()["cancelled"]
    assert [{"case_id": "a.txt", "operation_id": "first"}] == told
    assert 5 == cli("run").code
    again = cli("run")
    assert (5, False) == (again.code, "casework run goes on" in again.err)
    assert "cancelled  1 operation  (begin them after all: casework cancel --undo" in again.err
    assert "next:" not in cli("status").err
    assert 1 == line_of(cli)["cancelled"]
    assert "cancelled  1 operation" in cli("status").out
    assert {"lifted": 1} == cli("cancel", "a.txt", "--undo", "--json").document()
    assert 0 == cli("run").code
    assert [] == cli("cancel", "a.txt", "--json").document()["cancelled"]


def test_everything_can_be_cancelled_and_undone(cli: CommandLine) -> None:
    """No call is made while all is cancelled."""
    told = cli("cancel", "--all", "--json").document()["cancelled"]
    assert isinstance(told, list)
    assert 3 == len(told)
    assert 0 == cli("run", "--json").document()["calls"]
    assert {"lifted": 3} == cli("cancel", "--all", "--undo", "--json").document()
    assert 0 == cli("run").code


@pytest.mark.parametrize("words", [(), ("a.txt", "--all"), ("a.txt", "no-such"), ("no-such",)])
def test_a_cancel_that_means_nothing_is_refused(cli: CommandLine, words: tuple[str, ...]) -> None:
    """Nothing is cancelled by mistake."""
    assert 0 != cli("cancel", *words).code
    assert 0 == line_of(cli)["cancelled"]


def test_a_budget_ends_a_run_with_its_own_code(cli: CommandLine) -> None:
    """Two of three rounds fit; the sentence names the numbers, and the status shows them."""
    settings(cli, PRICES + 'total = "0.05"\n')
    ran = cli("run", "--json")
    document = ran.document()
    assert (8, "budget", 2) == (ran.code, document["ended"], document["calls"])
    assert (
        "the budget of the project is 0.05 EUR: 0.04 spent, the next round may cost 0.02"
        == document["held_by"]
    )
    assert 8 == cli("run").code
    (bound,) = objects(line_of(cli)["budget"])
    assert {
        "bound": "total",
        "limit": "0.05",
        "currency": "EUR",
        "spent": "0.04",
        "set_aside": "0",
    } == bound
    assert "budget  0.04 of 0.05 EUR in all (80%)" in cli("status").out


def test_a_run_may_have_a_budget_of_its_own(cli: CommandLine) -> None:
    """It bounds this run only."""
    settings(cli, PRICES)
    assert (8, 1) == (cli("run", "--budget", "0.03").code, 3 - waiting(cli))
    assert (2, 2) == (cli("run", "--budget", "lots").code, cli("run", "--budget=-1").code)
    assert 0 == cli("run", "--budget", "0.04").code


def waiting(cli: CommandLine) -> int:
    """Return how many operations wait."""
    counts = cli("status", "--json").document()["counts"]
    assert isinstance(counts, dict)
    return int(str(counts["waiting"]))


def test_a_limit_is_shown_with_its_reset(cli: CommandLine) -> None:
    """The provider's day is used up; the status says until when."""
    path = cli.project / "config" / "llm.local.toml"
    entry = 'file = "script.json"\n'
    limits = f"{entry}[providers.limits]\nrequests_per_day = 2\n"
    path.write_text(path.read_text().replace(entry, limits))
    assert 5 == cli("run", "--once").code
    (limit,) = objects(line_of(cli)["limits"])
    assert (2, 2, "requests_per_day") == (
        limit["calls_today"],
        limit["requests_per_day"],
        limit["reached"],
    )
    assert limit["opens_at"] == limit["resets_at"]
    assert "2 of 2 calls today" in cli("status").out


def test_a_run_that_ends_at_a_limit_says_which_and_until_when(cli: CommandLine) -> None:
    """The rest waits for the new day, and no time is told at which nothing begins."""
    path = cli.project / "config" / "llm.local.toml"
    limits = '[providers.limits]\nrequests_per_day = 1\n\n[[providers]]\nid = "cloud"'
    path.write_text(path.read_text().replace('[[providers]]\nid = "cloud"', limits))
    ended = cli("run", "--once")
    assert 5 == ended.code
    assert re.search(r"^limit  .+ is at requests_per_day until \d{4}-", ended.err, re.MULTILINE)
    assert "goes on" not in ended.err


def test_the_status_names_the_next_command(cli: CommandLine) -> None:
    """While there is something to begin, and no longer."""
    assert "next: casework run\n" == cli("status").err
    cli("run")
    assert "" == cli("status").err
