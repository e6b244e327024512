"""The failure log and the request log as a person asks for them."""

from __future__ import annotations

import pytest

from casework.facade.request_line import FailedAttempt, RequestLine
from casework.gateway.clock import ManualClock
from casework.runtime.http import request_log
from casework.runtime.http.request_log import open_request_log
from tests.support.command_line import DOWN, YES, CommandLine, write_script


@pytest.fixture
def failed(cli: CommandLine) -> CommandLine:
    """Give a project in which one answer was no JSON and nobody was there for two cases."""
    write_script(cli.project, [{"do": "reply", "text": "no JSON"}, DOWN])
    assert 3 == cli.imported()("run", "--concurrency", "1").code
    return cli


def test_failures_are_listed_as_they_were_written(failed: CommandLine) -> None:
    """One line for each round without an answer, with who failed and how."""
    lines = failed("logs", "--json").lines()
    assert sorted(str(line["ts"]) for line in lines) == [line["ts"] for line in lines]
    assert {"operation_error", "round_failed", "operation_blocked"} == {
        line["event"] for line in lines
    }
    text = failed("logs").out
    assert len(lines) + 1 == len(text.splitlines())
    assert "desk: http_5xx (503)" in text


def test_lines_can_be_chosen(failed: CommandLine) -> None:
    """By case, by event, by time, and the newest of what is left."""
    everything = failed("logs", "--json").lines()
    blocked = failed("logs", "--event", "operation_blocked", "--json").lines()
    case = str(blocked[0]["case_id"])
    of_case = failed("logs", "--case", case, "--json").lines()
    assert [line for line in everything if line["event"] == "operation_blocked"] == blocked
    assert [line for line in everything if line["case_id"] == case] == of_case
    assert everything[-2:] == failed("logs", "-n", "2", "--json").lines()
    assert of_case[-1:] == failed("logs", "-n", "1", "--case", case, "--json").lines()
    assert everything == failed("logs", "--since", "1h", "--json").lines()
    assert [] == failed("logs", "--since", "2999-01-01", "--json").lines()


def test_a_torn_line_is_told_and_the_others_are_shown(failed: CommandLine) -> None:
    """Standard output stays whole."""
    log = failed.project / "runtime" / "logs" / "llm.jsonl"
    before = failed("logs", "--json").lines()
    log.write_bytes(log.read_bytes() + b'{"event":"round_fai')
    ran = failed("logs", "--json", "--quiet")
    assert (0, before) == (ran.code, ran.lines())
    assert "1 line skipped" in ran.err


def test_a_project_without_failures_has_an_empty_log(cli: CommandLine) -> None:
    """Whether it ran or not."""
    write_script(cli.project, [YES])
    assert (0, "") == (cli("logs").code, cli("logs").out)
    cli.imported()("run")
    assert (0, []) == (cli("logs").code, cli("logs", "--json").lines())


def test_a_time_that_is_none_is_refused(cli: CommandLine) -> None:
    """With the forms that are known."""
    ran = cli("logs", "--since", "yesterday")
    assert (2, "") == (ran.code, ran.out)
    assert "[time_invalid]" in ran.err


@pytest.mark.parametrize("number", ["0", "-1", "1000001", "9" * 30])
def test_a_number_of_lines_that_is_none_is_refused(cli: CommandLine, number: str) -> None:
    """However many digits it has."""
    ran = cli("logs", "--lines", number)
    assert (2, True) == (ran.code, "[usage]" in ran.err)


@pytest.fixture
def served(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> CommandLine:
    """Give a project in which three requests were served, and the log had room for two."""
    monkeypatch.setattr(request_log, "LINES_MAX", 2)
    monkeypatch.setattr(request_log, "BATCH_SECONDS", 60.0)
    clock = ManualClock()
    log = open_request_log(cli.project / "runtime", clock)
    for number, status in enumerate((200, 502, 200)):
        log.take(
            RequestLine(
                request_id=f"req_{number}",
                at=clock.now(),
                client="web",
                route="chat_completions",
                status=status,
                elapsed_ms=1.5,
                asked_model="auto\x1b[2J",
                failures=(FailedAttempt("desk", "http_5xx", 503),) * number,
            )
        )
        clock.advance(60)
    log.close()
    return cli


def test_requests_are_listed_as_they_were_written(served: CommandLine) -> None:
    """One line for each, and one for those that were lost; no name moves the cursor."""
    lines = served("logs", "--requests", "--json").lines()
    assert ["request", "request", "lines_lost"] == [line["event"] for line in lines]
    text = served("logs", "--requests").out.splitlines()
    assert ["time", "client", "route", "model", "provider", "status", "code", "ms", "failed"] == (
        text[0].lower().split()
    )
    assert "desk: http_5xx (503)" in text[2]
    assert "1 line lost" in text[3]
    assert "\x1b" not in "".join(text)


def test_requests_can_be_chosen_too(served: CommandLine) -> None:
    """By event, by time, and the newest; a case is no part of them."""
    everything = served("logs", "--requests", "--json").lines()
    requests = served("logs", "--requests", "--event", "request", "--json").lines()
    assert everything[:2] == requests
    newest = served("logs", "--requests", "--since", "2026-01-01T10:00:30Z", "-n", "2", "--json")
    assert everything[1:] == newest.lines()
    ran = served("logs", "--requests", "--case", "a.txt")
    assert (2, True) == (ran.code, "[bad_options]" in ran.err)


def test_a_project_that_served_nobody_has_no_requests(failed: CommandLine) -> None:
    """Its failures stand in the other log."""
    assert (0, "") == (failed("logs", "--requests").code, failed("logs", "--requests").out)
