"""Whatever a server makes of the framing of its events, clients get the same sound stream."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.facade.faults.stage import QUICK, Stage, stage
from tests.facade.faults.test_broken_streams import errors_in, finishes_in
from tests.facade.serving import Told

FOREIGN = "안녕하세요 세계 🦊👩‍👩‍👧‍👦 — Grüße\u2028ß\x7f"

FRAMINGS = (
    *("crlf", "cr", "comments", "multiline", "fields", "tight", "bom", "bytes", "sparse"),
    *("no-choices=1", "no-choices=3", "usage=last", "usage=always", "usage=none", "usage=null"),
    *("encoding=gzip", "encoding=br", "encoding=zstd", "encoding=deflate", "encoding=chained"),
    *("encoding=gzip bytes crlf comments", "fields multiline cr bytes", "encoding=zstd bytes"),
    *("encoding=mislabelled", "encoding=mislabelled bytes"),
)


async def said(staged: Stage, **changes: object) -> Told:
    """Ask for a stream of foreign characters."""
    return await staged.served.say(f"[[say:{FOREIGN}]]", stream=True, **changes)


async def test_the_framing_of_a_server_is_its_own_affair(tmp_path: Path) -> None:
    """The client gets plain events, every character whole, one end and nothing of the rest."""
    async with stage(tmp_path) as staged:
        for number, fault in enumerate(FRAMINGS, start=1):
            staged.near.queue(fault)
            reply = await said(staged)
            told = (reply.text, errors_in(reply), finishes_in(reply))
            assert (FOREIGN, [], ["stop"]) == told, fault
            assert reply.body.endswith(b"\n\ndata: [DONE]\n\n"), fault
            lines = reply.body.decode().split("\n")
            assert [] == [line for line in lines if line and not line.startswith("data: ")], fault
            assert "content-encoding" not in reply.headers
            usages = [one for one in reply.events if one != "[DONE]" and one.get("usage")]
            assert ([], [number]) == (usages, staged.calls), fault


async def test_a_stream_packed_without_a_word_is_none(tmp_path: Path) -> None:
    """What does not say how it is packed cannot be read, and another server is asked."""
    async with stage(tmp_path, many=2) as staged:
        staged.near.queue("encoding=unlabelled")
        reply = await said(staged)
        assert (FOREIGN, [1, 1]) == (reply.text, staged.calls)
        assert ["empty_response"] == [failed.code for failed in staged.line.failures]


USAGES: Mapping[str, Any] = {
    "ok": "told",
    "usage=last": "told",
    "usage=always": "told",
    "usage=zero": 0,
    "usage=none": None,
    "usage=null": None,
}


async def test_usage_is_what_the_server_says_where_the_client_asked(tmp_path: Path) -> None:
    """It comes once, before the end, and only to a client that asked; unknown is left out."""
    unasked: tuple[dict[str, Any], ...] = (
        {},
        {"stream_options": None},
        {"stream_options": {"include_usage": False}},
    )
    async with stage(tmp_path) as staged:
        for fault, told in USAGES.items():
            for options in unasked:
                staged.near.queue(fault)
                silent = await said(staged, **options)
                assert b'"usage":{' not in silent.body.replace(b" ", b""), fault
            staged.near.queue(fault)
            reply = await said(staged, stream_options={"include_usage": True})
            usages = [one["usage"] for one in reply.events if one != "[DONE]" and one.get("usage")]
            known = [line.total_tokens for line in staged.served.lines[-4:]]
            if told is None:
                assert ([], [None] * 4) == (usages, known), fault
                continue
            assert ([], usages) == (reply.events[-2]["choices"], [reply.events[-2]["usage"]])
            assert [usages[0]["total_tokens"]] * 4 == known, fault
            assert (told == 0) == (known[0] == 0), fault


@pytest.mark.parametrize("fault", ["fields", "fields comments crlf"])
async def test_no_reader_makes_an_event_of_our_comments(tmp_path: Path, fault: str) -> None:
    """A reader to the letter, which keeps an id for ever, dispatches what the server said only."""
    settings = QUICK + "keepalive_seconds = 0.01\nfirst_keepalive_seconds = 0.02\n"
    async with stage(tmp_path, settings) as staged:
        staged.near.queue(f"{fault} wait=0.1 pause=0.03")
        reply = await staged.served.say("Hello.", stream=True)
        assert 3 < reply.body.count(b": keep-alive\n\n")
        assert b": keep-alive\n\n" == reply.body[:14]
        assert "You said: Hello." == reply.text
        blocks = reply.body.decode().removesuffix("\n\n").split("\n\n")
        assert {"data: ", ": keep"} == {block[:6] for block in blocks}
