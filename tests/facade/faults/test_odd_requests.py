"""Requests that no SDK sends: each is answered or hung up on, and none costs more than itself."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from casework.runtime.http import client_connection
from casework.runtime.http.client_connection import ClientConnection
from tests.facade.faults.stage import CHAT, EMBEDDINGS, Wired, asking, replies_in, stage
from tests.support.key_files import key_entry, key_file

BODY = json.dumps(asking()).encode()
LONG = b"x" * 65_536
PIECES = 40
UPGRADE = {
    "Connection": "Upgrade, HTTP2-Settings",
    "Upgrade": "h2c",
    "HTTP2-Settings": "AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
}


def head(*lines: str, method: str = "POST", path: str = CHAT, version: str = "1.1") -> bytes:
    """Return the head of a request."""
    fields = "".join(f"{line}\r\n" for line in ("Host: casework", *lines))
    return f"{method} {path} HTTP/{version}\r\n{fields}\r\n".encode()


@pytest.mark.parametrize("chunked", [False, True], ids=["announced", "chunked"])
async def test_a_body_too_long_is_refused_while_it_is_still_sent(
    tmp_path: Path, *, chunked: bool
) -> None:
    """The client reads 413, can send all the rest, and use the connection again."""
    async with stage(tmp_path) as staged:
        client = await staged.client()
        for number, path in enumerate((CHAT, EMBEDDINGS, "/v1/token-count", "/v1/explain"), 1):
            await _send_too_much(client, path, chunked=chunked)
            refused = await client.reply()
            assert (413, "request_too_large") == (refused.status, refused.code)
            client.send(CHAT, asking())
            assert 200 == (await client.reply()).status
            assert [number] == staged.calls


async def _send_too_much(client: Wired, path: str, *, chunked: bool) -> None:
    size = len(LONG) * PIECES
    announced = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {size}"
    client.writer.write(head(announced, path=path))
    for _ in range(PIECES):
        client.writer.write(b"%x\r\n%b\r\n" % (len(LONG), LONG) if chunked else LONG)
        await client.writer.drain()
    if chunked:
        client.writer.write(b"0\r\n\r\n")


async def test_a_client_that_waits_for_permission_is_refused_for_good(tmp_path: Path) -> None:
    """After Expect, 413 closes the connection, for nobody knows whether the body will follow."""
    async with stage(tmp_path) as staged:
        client = await staged.client()
        client.writer.write(head("Content-Length: 99999999", "Expect: 100-continue"))
        assert [413] == [status for status, _ in replies_in(await client.rest())]


async def test_a_client_that_waits_for_permission_gets_it(tmp_path: Path) -> None:
    """A body within the limit is asked for, and then served."""
    async with stage(tmp_path) as staged:
        client = await staged.client()
        client.writer.write(head(f"Content-Length: {len(BODY)}", "Expect: 100-continue"))
        assert b"HTTP/1.1 100 Continue\r\n\r\n" == await client.until(b"\r\n\r\n")
        client.writer.write(BODY)
        assert 200 == (await client.reply()).status
        client.leave()


HEADS = (
    head("X-Long: " + "a" * 200_000),
    head(*(f"X-{number}: {'b' * 1000}" for number in range(200))),
    head(path="/" + "c" * 200_000),
    b"POST /v1/chat/completions HTTP/1.1\r\nX-Endless: " + b"d" * 200_000,
    b"POST /" + b"e" * 200_000,
)
"""One header, many headers, a path; then a header and a path without end."""


async def test_an_absurd_head_is_not_kept(tmp_path: Path) -> None:
    """It is refused at 64 KiB, whether it has an end or not, and the connection closed."""
    async with stage(tmp_path) as staged:
        for content in HEADS:
            client = await staged.client()
            client.writer.write(content)
            refused = await client.reply()
            assert (431, "head_too_large") == (refused.status, refused.code)
            assert 200 == (await staged.served.chat()).status


async def test_trailers_without_end_are_not_kept(tmp_path: Path) -> None:
    """What follows a body in chunks is bounded like a head."""
    async with stage(tmp_path) as staged:
        client = await staged.client()
        chunk = b"%x\r\n%b\r\n0\r\nX-Trailer: " % (len(BODY), BODY)
        client.writer.write(head("Transfer-Encoding: chunked") + chunk + b"t" * 200_000)
        told = await client.rest_or_reset()  # a reset, for what is left unread, may take it away
        assert not told or told.startswith(b"HTTP/1.1 431 ")
        assert 200 == (await staged.served.chat()).status


GARBAGE = (
    b"GARBAGE\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    head("X-Nul: a\0b"),
    head("Content-Length: -5"),
    head("Content-Length: 5", "Content-Length: 6"),
    head("Content-Length: 5", "Transfer-Encoding: chunked"),
    b"GET /\xff\xfe HTTP/1.1\r\nHost: x\r\n\r\n",
    head(method="CONNECT", path="elsewhere:443"),
    head(version="9.9"),
    head("Transfer-Encoding: chunked") + b"-5\r\nhello\r\n0\r\n\r\n",
    head("Transfer-Encoding: chunked") + b"5\r\nhelloX",
)


async def test_what_is_no_request_is_told_so_in_the_shape_of_other_errors(tmp_path: Path) -> None:
    """The parser's own words stay away from the client."""
    async with stage(tmp_path) as staged:
        for content in GARBAGE:
            client = await staged.client()
            client.writer.write(content)
            refused = await client.reply()
            assert (400, "invalid_http") == (refused.status, refused.code), content
        assert [0] == staged.calls


async def test_garbage_behind_a_request_does_not_get_into_its_reply(tmp_path: Path) -> None:
    """The stream is cut off, and no other reply is written into it."""
    async with stage(tmp_path) as staged:
        client = await staged.client()
        client.send(CHAT, asking("[[fault:hang=3]]", stream=True))
        await client.until(b"said")
        client.writer.write(b"GARBAGE\r\n\r\n")
        assert b"HTTP/1.1" not in await client.rest()
        await staged.near.until(lambda upstream: upstream.active == 0)


async def test_requests_sent_ahead_are_answered_in_their_order(tmp_path: Path) -> None:
    """Each gets its own reply, over one connection."""
    async with stage(tmp_path) as staged:
        client = await staged.client()
        for number in range(5):
            client.send(CHAT, asking(f"Number {number}."))
        for number in range(5):
            assert f"Number {number}." in (await client.reply()).body.decode()
        client.leave()
        assert [5] == staged.calls


async def test_a_flood_of_requests_is_read_as_it_is_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many arrive at once, few are kept in any form but their bytes, and all are served."""
    flood = 3000
    kept: list[int] = []
    complete = ClientConnection.on_response_complete

    def completed(connection: ClientConnection) -> None:
        kept.append(len(connection.pipeline))
        complete(connection)

    monkeypatch.setattr(ClientConnection, "on_response_complete", completed)
    async with stage(tmp_path) as staged:
        client = await staged.client()
        client.send(CHAT, asking("[[fault:wait=0.3]]Hello."))
        await staged.near.until(lambda upstream: upstream.active == 1)
        client.writer.write(b"GET / HTTP/1.1\r\n\r\n" * flood)
        told = b""
        async with asyncio.timeout(30):
            while told.count(b"HTTP/1.1 200") <= flood:
                told += await client.reader.read(65_536)
        assert flood + 1 == len(kept)
        assert max(kept) < 100


@pytest.mark.parametrize("together", [True, False])
async def test_a_client_that_sent_ahead_is_missed_too(tmp_path: Path, *, together: bool) -> None:
    """The call for its first request is closed although a second one has arrived."""
    async with stage(tmp_path) as staged:
        client = await staged.client()
        client.send(CHAT, asking("[[fault:hang]]"))
        if not together:
            await staged.near.until(lambda upstream: upstream.active == 1)
        client.send(CHAT, asking())
        await staged.near.until(lambda upstream: upstream.active == 1)
        client.leave()
        await staged.near.until(lambda upstream: upstream.active == 0)
        assert [1] == staged.calls
        await staged.logged(1)
        assert [499] == [line.status for line in staged.served.lines]


async def test_old_clients_are_served(tmp_path: Path) -> None:
    """HTTP/1.0 gets a whole reply with its length, and the end of the connection."""
    async with stage(tmp_path) as staged:
        content = head(f"Content-Length: {len(BODY)}", version="1.0") + BODY
        client = await staged.client()
        client.writer.write(content)
        ((status, body),) = replies_in(await client.rest())
        assert 200 == status
        assert "You said: Hello." == json.loads(body)["choices"][0]["message"]["content"]


async def test_an_offer_of_http2_changes_nothing(tmp_path: Path) -> None:
    """Java's client makes it with its first request; the body is read all the same."""
    async with stage(tmp_path) as staged:
        client = await staged.client()
        for headers in (UPGRADE, {}, UPGRADE):
            client.send(CHAT, asking("upgrade: to what?"), headers)
            reply = await client.reply()
            assert 200 == reply.status
            assert "upgrade: to what?" in reply.body.decode()
        client.leave()


async def test_head_tells_the_headers_alone(tmp_path: Path) -> None:
    """HEAD is answered like GET, without a body."""
    async with stage(tmp_path) as staged:
        content = head(method="HEAD", path="/v1/models") + head(method="GET", path="/healthz")
        client = await staged.client()
        client.writer.write(content)
        models = await client.until(b"\r\n\r\n")
        assert b"content-length" in models
        assert 200 == (await client.reply()).status
        client.leave()


async def test_the_type_of_content_does_not_matter(tmp_path: Path) -> None:
    """A body is JSON or is refused as none, whatever it is called."""
    async with stage(tmp_path) as staged:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "application/json; a=b"):
            named = {"Content-Type": kind}
            assert 200 == (await staged.served.post(CHAT, asking(), named)).status
            assert "invalid_json" == (await staged.served.post(CHAT, b"model=auto", named)).code


async def test_a_web_page_spends_nothing(tmp_path: Path) -> None:
    """Without a client key, what a browser sends for a page is refused before anybody is asked."""
    async with stage(tmp_path) as staged:
        for origin in ("https://evil.example", "http://localhost:3000", "null"):
            refused = await staged.served.chat({"Origin": origin})
            assert (403, "cross_origin") == (refused.status, refused.code)
        assert [0] == staged.calls


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8000", "EVIL.example."])
async def test_a_name_that_anybody_may_own_opens_nothing(tmp_path: Path, host: str) -> None:
    """A page whose name comes to lead here is of no other origin, and still a page."""
    async with stage(tmp_path) as staged:
        served = staged.served
        named = {"Host": host}
        for refused in (await served.chat(named), await served.get("/v1/models", named)):
            assert (403, "foreign_host") == (refused.status, refused.code)
        assert [0] == staged.calls
    key_file(tmp_path, key_entry("named", "cw-named"))
    async with stage(tmp_path) as staged:
        named = {"Host": host, "Authorization": "Bearer cw-named"}
        assert 200 == (await staged.served.chat(named)).status


@pytest.mark.parametrize(
    "host",
    ["LOCALHOST:1", "127.0.0.1", "[::1]:8000", "casework:80", "x.localhost", "x.internal:80", ""],
)
async def test_addresses_and_names_of_the_house_are_known(tmp_path: Path, host: str) -> None:
    """Whatever this machine is called by, beside names that may be bought, is fine."""
    async with stage(tmp_path) as staged:
        assert 200 == (await staged.served.chat({"Host": host})).status


async def test_a_page_that_knows_a_client_key_is_a_client(tmp_path: Path) -> None:
    """Whoever has a key may be a page, and so may an application that is built like one."""
    async with stage(tmp_path) as staged:
        assert 200 == (await staged.served.chat({"Origin": "app://notes"})).status
    key_file(tmp_path, key_entry("page", "cw-page"))
    async with stage(tmp_path) as staged:
        named = {"Origin": "https://mine.example", "Authorization": "Bearer cw-page"}
        assert 200 == (await staged.served.chat(named)).status


@pytest.mark.parametrize(
    "content", [b"", b"POST /v1/cha", head("Content-Length: 50") + b'{"model"'],
    ids=["nothing", "half a head", "half a body"],
)  # fmt: skip
async def test_a_client_that_never_gets_its_request_said_is_hung_up_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    """It holds no place for longer than a request may take to arrive."""
    monkeypatch.setattr(client_connection, "ARRIVAL_SECONDS", 0.05)
    monkeypatch.setattr("casework.runtime.http.server.KEEP_ALIVE_SECONDS", 0.05)
    async with stage(tmp_path) as staged:
        client = await staged.client()
        client.writer.write(content)
        assert b"" == await client.rest_or_reset()
        await staged.served.settled()


async def test_a_client_that_leaves_in_the_middle_of_its_body_is_noted(tmp_path: Path) -> None:
    """Nobody was asked, and the log says why."""
    async with stage(tmp_path) as staged:
        client = await staged.client()
        client.writer.write(head("Content-Length: 50") + b'{"model"')
        await client.writer.drain()
        client.leave()
        await staged.logged(1)
        assert (499, "client_left", [0]) == (staged.line.status, staged.line.code, staged.calls)


async def test_a_body_in_many_pieces_is_one(tmp_path: Path) -> None:
    """However it is cut, it is read as a whole."""
    async with stage(tmp_path) as staged:
        client = await staged.client()
        client.writer.write(head("Transfer-Encoding: chunked"))
        for at in range(len(BODY)):
            client.writer.write(b"1\r\n%b\r\n" % BODY[at : at + 1])
            await asyncio.sleep(0)
        client.writer.write(b"0\r\n\r\n")
        assert 200 == (await client.reply()).status
        client.leave()
