"""Calls of clients lie beside the cases of a pipeline, and no verb takes one for the other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from casework.checkpoints.records import OperationStatus
from casework.gateway.errors import FailureKind, ProviderFailure
from tests.support.command_line import CommandLine
from tests.support.kept_calls import Kept, answered, chat_request, completion, refused

DONE, FAILED, PENDING = "call:alice:done", "call:alice:failed", "call:alice:pending"
CUT_OFF = "call:alice:cut-off"


async def make_calls(project: Path) -> None:
    """Keep a call of every state, and two in imported cases."""
    kept = Kept(project)
    answered(await kept.answer(key="done"))
    answered(await kept.answer(key="own", case="a.txt", operation="first"))
    failing = Kept(project, [ProviderFailure(FailureKind.CONTEXT_TOO_LONG, http_status=400)])
    refused(await failing.answer(key="failed"))
    refused(await failing.answer(key="failed", case="b.txt"))
    down = Kept(project, [ProviderFailure(FailureKind.HTTP_5XX, http_status=503)])
    refused(await down.answer(key="pending"))
    hanging = Kept(project, [asyncio.Event(), completion()])
    call = asyncio.ensure_future(hanging.answer(chat_request("cut off"), key="cut-off"))
    await hanging.provider.asked.wait()
    call.cancel()
    await asyncio.wait({call})
    await hanging.calls.aclose()


@pytest.fixture
def beside(cli: CommandLine) -> CommandLine:
    """Give a project with three imported texts and the calls."""
    cli.imported()
    asyncio.run(make_calls(cli.project))
    return cli


def test_a_run_asks_for_its_own_cases_only_and_counts_reconcile(beside: CommandLine) -> None:
    """Nothing of the calls is planned, run, waited for or counted."""
    planned = beside("plan", "--json").document()
    assert 3 == planned["cases"]
    ran = beside("run")
    assert (0, 3) == (ran.code, len(beside("export").lines()))
    status = beside("status", "--json").document()
    counts = status["counts"]
    assert isinstance(counts, dict)
    assert (3, 3, 3, 0, 0, 0, True) == tuple(
        counts[name]
        for name in (
            "cases",
            "operations",
            "success",
            "error",
            "retry_pending",
            "running",
            "reconciles",
        )
    )
    assert ({}, 0, [], None) == (
        status["reasons"],
        status["inbox"],
        status["stale"],
        status["next_due_at"],
    )
    usage = status["usage"]
    assert isinstance(usage, dict)
    assert 3 == usage["calls"]


async def test_a_call_under_way_is_none_of_the_lines(cli: CommandLine) -> None:
    """The status counts what the pipeline has to do, and a call takes nothing from that."""
    kept = Kept(cli.imported().project, [asyncio.Event()])
    call = asyncio.ensure_future(kept.answer(case="a.txt"))
    await kept.provider.asked.wait()
    counts = cli("status", "--json").document()["counts"]
    assert isinstance(counts, dict)
    assert (3, 0, True) == (counts["waiting"], counts["running"], counts["reconciles"])
    call.cancel()
    await asyncio.wait({call})
    await kept.calls.aclose()


def test_no_verb_that_asks_again_takes_a_call(beside: CommandLine) -> None:
    """Failed, pending and old calls are their client's to send again."""
    beside("run")
    for words in (("--failed",), ("--pending",), ("--stale",), ("--reason", "context_too_long")):
        assert "nothing of that kind was found\n" == beside("retry", *words).err
    assert [] == beside("inbox", "list", "--json").lines()
    assert 0 == beside("inbox", "approve", "a.txt").code
    revised = beside("revise", "--all", "--yes", "--reason", "new rules", "--json").lines()
    assert ["a.txt", "b.txt", "c.txt"] == [line["case_id"] for line in revised]


def test_what_a_crash_cut_off_is_named(beside: CommandLine) -> None:
    """The audit, the status and the doctor tell which call may have been paid twice."""
    rows = beside("audit", CUT_OFF, "--json").lines()
    assert [("remote", "unconfirmed", None)] == [
        (row["provider"], row["result"], row["sent"]) for row in rows
    ]
    assert f"case {CUT_OFF}  {CUT_OFF} round 1: may have been paid twice" in beside("status").out
    everything = beside("audit", "--all", "--json").lines()
    assert {DONE, FAILED, PENDING, CUT_OFF, "a.txt", "b.txt"} == {
        str(row["case_id"]) for row in everything
    }


def test_packages_of_calls_are_looked_into_and_judged_like_others(beside: CommandLine) -> None:
    """Whole packages, and the record of a request and of a reply."""
    assert 0 == beside("verify").code
    cases = {str(row["case_id"]): row for row in beside("inspect", "--all", "--json").lines()}
    assert {DONE, FAILED, PENDING, CUT_OFF, "a.txt", "b.txt", "c.txt"} == set(cases)
    assert ("INTERACTIVE", "BUILDING_CASE") == (cases[DONE]["phase"], cases["a.txt"]["phase"])
    package = beside("inspect", PENDING, "--json").document()
    assert OperationStatus.RETRY_PENDING.value == package["status"]
    outcome = beside("inspect", DONE, "--outcome", "--json").document()
    assert "success" == outcome["result"]
    request = beside("inspect", DONE, "--request", "--json").document()
    assert ("openai_chat", "alice", "done") == (
        request["protocol"],
        request["client"],
        request["idempotency_key"],
    )


def test_exports_hold_calls_where_they_are_asked_for(beside: CommandLine, tmp_path: Path) -> None:
    """Tables and reports are those of the pipeline; sealed packages are all of them."""
    beside("run")
    assert {"first"} == {str(row["operation_id"]) for row in beside("export").lines()}
    rows = beside("export", "--calls").lines()
    assert 3 + 5 == len(rows)
    (done,) = (row for row in rows if row["case_id"] == DONE)
    assert ("SUCCESS", "remote") == (done["status"], done["provider"])
    assert DONE not in beside("export", "--format", "html").out
    assert DONE in beside("export", "--format", "html", "--calls").out
    assert 0 == beside("export", "--format", "zip", "-o", str(tmp_path / "sealed")).code
    sealed = sorted((tmp_path / "sealed").glob("*.zip"))
    assert 7 == len(sealed)
    assert 0 == beside("verify", *map(str, sealed)).code


def test_a_pipeline_cannot_name_an_operation_like_a_call(cli: CommandLine) -> None:
    """Whatever begins like the id of a call is refused when the pipeline is read."""
    file = cli.project / "pipeline.toml"
    file.write_text(file.read_text().replace('"first"', '"call:alice:first"'), encoding="utf-8")
    told = cli.imported()("plan").err
    assert "has the form of an id that calls of clients get" in told
