"""Streams that break: before something sound has come others are asked, afterwards nobody is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from casework.gateway.clock import ManualClock
from casework.gateway.health import COOLDOWN_SECONDS_MAX
from tests.facade.faults.stage import QUICK, Stage, stage
from tests.facade.serving import Told

IMPATIENT = QUICK + "idle_seconds = 0.05\n"

AFTER = {
    "reset=3": "connect_error",
    "close=3": "connect_error",
    "ends=3": "malformed_response",
    "error=4": "http_5xx",
    "error-choices=4": "http_5xx",
    "malformed=4": "malformed_response",
    "hang=3": "timeout",
}
"""What happens once two words were said, and what the client is told."""

BEFORE = (
    *("reset", "close", "reset=0", "reset=1", "close=1", "ends=0", "ends=1"),
    *("error=1", "error=2", "error-choices=1", "malformed=1", "malformed=2"),
    *("body=empty", "401", "403", "404", "408", "409", "429", "500", "502", "503", "504", "529"),
    *("json body=html", "json body=null", "json body=empty-choices", "json truncated"),
)
"""What happens before anything that can be seen, so that the next one is asked."""


async def streamed(staged: Stage, text: str = "Hello.", **changes: object) -> Told:
    """Ask for a stream, and return it whole."""
    return await staged.served.say(text, stream=True, **changes)


def errors_in(reply: Told) -> list[Any]:
    """Return the events that tell of an error."""
    return [one["error"] for one in reply.events if one != "[DONE]" and "error" in one]


def finishes_in(reply: Told) -> list[str]:
    """Return every reason that is told for an end."""
    chunks = [one for one in reply.events if one != "[DONE]"]
    reasons = [c["finish_reason"] for one in chunks for c in one.get("choices", [])]
    return [reason for reason in reasons if reason]


@pytest.mark.parametrize(("fault", "code"), AFTER.items())
async def test_what_breaks_after_it_began_is_told_once_and_asked_of_nobody_else(
    tmp_path: Path, fault: str, code: str
) -> None:
    """The last event is an error and no end is invented; nobody pays twice."""
    async with stage(tmp_path, IMPATIENT, many=2) as staged:
        staged.near.queue(fault)
        reply = await streamed(staged, stream_options={"include_usage": True})
        assert 200 == reply.status
        assert "text/event-stream" == reply.headers["content-type"].partition(";")[0]
        (error,) = errors_in(reply)
        assert (code, "server_error", None) == (error["code"], error["type"], error["param"])
        assert {"error": error} == reply.events[-1]
        assert ("You said:", []) == (reply.text, finishes_in(reply))
        assert [1, 0] == staged.calls
        assert (200, code, None) == (staged.line.status, staged.line.code, staged.line.total_tokens)
        await staged.near.until(lambda upstream: upstream.active == 0)
        if fault.partition("=")[0] in {"reset", "close", "hang"}:
            await streamed(staged)
            assert [1, 2] == [asked.connection for asked in staged.near.asked]


async def test_what_breaks_before_it_began_is_made_good_by_the_next_one(tmp_path: Path) -> None:
    """The client sees one sound stream, and each was asked exactly once."""
    clock = ManualClock()
    async with stage(tmp_path, many=2, clock=clock) as staged:
        for number, fault in enumerate(BEFORE, start=1):
            staged.near.queue(fault)
            reply = await streamed(staged)
            assert (200, [], ["stop"]) == (reply.status, errors_in(reply), finishes_in(reply)), (
                fault
            )
            assert ("You said: Hello.", "[DONE]") == (reply.text, reply.events[-1]), fault
            assert 1 == reply.body.count(b"[DONE]")
            assert [number, number] == staged.calls, fault
            assert ("far", "2") == (
                reply.headers["x-casework-provider"],
                reply.headers["x-casework-attempts"],
            )
            clock.advance(COOLDOWN_SECONDS_MAX)


async def test_a_silence_before_the_first_word_is_made_good_by_the_next_one(
    tmp_path: Path,
) -> None:
    """Half of the deadline is kept for those who come after."""
    async with stage(tmp_path, QUICK + "deadline_seconds = 2.0\n", many=2) as staged:
        for number, fault in enumerate(("hang", "hang=0", "hang=1"), start=1):
            staged.near.queue(fault)
            reply = await streamed(staged)
            assert ("You said: Hello.", [number, number]) == (reply.text, staged.calls)
        await staged.near.until(lambda upstream: upstream.open_connections == 0)


@pytest.mark.parametrize("fault", ["503", "reset=1", "error=1"])
async def test_when_nobody_begins_the_client_is_told_by_the_status(
    tmp_path: Path, fault: str
) -> None:
    """Nothing has been sent yet, so the reply is an error and no stream."""
    async with stage(tmp_path, many=2) as staged:
        for upstream in staged.upstreams:
            upstream.queue(fault)
        reply = await streamed(staged)
        assert (502, "application/json") == (reply.status, reply.headers["content-type"])
        assert "server_error" == reply.json["error"]["type"]
        assert [1, 1] == staged.calls


@pytest.mark.parametrize("fault", ["reset=3", "503", "hang=3", "error=1"])
async def test_a_strict_name_stays_strict_on_every_path(tmp_path: Path, fault: str) -> None:
    """Whoever asked for one provider is answered by it, or by nobody, whole or streamed."""
    async with stage(tmp_path, IMPATIENT, many=2) as staged:
        for stream in (True, False):
            staged.near.queue(fault if stream else "503")
            reply = await staged.served.say("Hello.", model="near/echo", stream=stream)
            assert b'"error"' in reply.body
        assert [2, 0] == staged.calls


async def test_a_stream_without_its_last_mark_is_whole_if_every_choice_has_ended(
    tmp_path: Path,
) -> None:
    """Some servers leave out the mark; the client gets one, and the answer counts."""
    async with stage(tmp_path) as staged:
        staged.near.queue("no-done")
        reply = await streamed(staged, n=2)
        assert (["stop", "stop"], "[DONE]") == (finishes_in(reply), reply.events[-1])
        staged.near.queue("ends=6")
        cut = await streamed(staged, n=2)
        assert ["malformed_response"] == [error["code"] for error in errors_in(cut)]
        assert [None, "malformed_response"] == [line.code for line in staged.served.lines]


async def test_an_answer_that_is_whole_survives_the_end_of_its_connection(tmp_path: Path) -> None:
    """A reset between the last chunk and the mark takes nothing away from what was said."""
    async with stage(tmp_path) as staged:
        whole = await streamed(staged)
        chunks = len(whole.events) - 1
        for fault in (f"reset={chunks}", f"close={chunks}"):
            staged.near.queue(fault)
            reply = await streamed(staged)
            assert (["stop"], "[DONE]") == (finishes_in(reply), reply.events[-1])
        assert [3] == staged.calls
