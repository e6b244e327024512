"""The faulty upstream for clients who wait: streams, vectors and models, with marks all over."""

from __future__ import annotations

import json
import re
from typing import Final

from tests.contract.privacy.faulty_upstream import (
    BODY_BYTES_MAX,
    FAULTS,
    marked,
)
from tests.contract.privacy.marks import Mark
from tests.support.raw_server import Behaviour, Connection, Heard, RawServer

_WISH: Final = re.compile(rb"fault=([a-z0-9-]+)")
_EVENT_FIELDS: Final = f": {Mark.BODY}\nid: {Mark.BODY}\nevent: {Mark.BODY}\nretry: {Mark.BODY}\n"


def chunk(text: str | None = None, *, finish: str | None = None, **members: object) -> str:
    """Return an event that adds to the answer or ends it, with marks all around."""
    delta = {"role": Mark.EXTRA, "content": text} if text else {}
    choice = {"index": 0, "delta": delta, "finish_reason": finish, Mark.EXTRA: Mark.EXTRA}
    body = {
        "id": Mark.EXTRA,
        "object": Mark.EXTRA,
        "created": 1,
        "model": Mark.EXTRA,
        "system_fingerprint": Mark.EXTRA,
        "choices": [choice],
        Mark.EXTRA: [Mark.EXTRA],
        **members,
    }
    return f"{_EVENT_FIELDS}data: {json.dumps(body)}\n\n"


BEGUN: Final = chunk(Mark.ANSWER)
ENDED: Final = chunk(finish="stop") + chunk(usage={"prompt_tokens": 12, Mark.EXTRA: Mark.EXTRA})
ERROR: Final = {"message": Mark.BODY, "type": Mark.BODY, "param": Mark.BODY, "code": Mark.BODY}

_OPEN: Final = {"Content-Type": "text/event-stream", "Connection": "close"}


def events(*told: str) -> bytes:
    """Return a whole stream that ends with its connection."""
    reply = marked(200, "".join(told), headers=_OPEN)
    return re.sub(rb"Content-Length: \d+\r\n", b"", reply, count=1)


def _then(*told: str, reset: bool = False, silent: bool = False) -> Behaviour:
    async def behave(connection: Connection) -> None:
        await connection.say(events(*told))
        if silent:
            await connection.wait_until_gone()
        if reset:
            connection.reset()

    return behave


def _promised(*told: str) -> Behaviour:
    """Return what breaks off in the middle of a body whose length was told."""

    async def behave(connection: Connection) -> None:
        await connection.say(marked(200, "".join(told), headers=_OPEN)[:-9])

    return behave


_FLOOD: Final = chunk(Mark.BODY * BODY_BYTES_MAX)

STREAM_FAULTS: Final[dict[str, Behaviour]] = {
    "error-first": _then(f"data: {json.dumps({'error': ERROR})}\n\n"),
    "error-later": _then(BEGUN, f"data: {json.dumps({'error': ERROR})}\n\n"),
    "error-code": _then(BEGUN, f"data: {json.dumps({'error': {**ERROR, 'code': 429}})}\n\n"),
    "garbage-first": _then(f"data: {Mark.BODY}\n\n"),
    "garbage-later": _then(BEGUN, f'data: {{"choices": ["{Mark.BODY}"\n\n'),
    "shapeless": _then(BEGUN, f'data: {{"choices": "{Mark.BODY}"}}\n\n'),
    "large-event": _then(BEGUN, _FLOOD),
    "comments-only": _then(f": {Mark.BODY}\n\n" * 3),
    "no-end": _then(BEGUN),
    "cut": _promised(BEGUN, chunk(Mark.ANSWER)),
    "reset-later": _then(BEGUN, reset=True),
    "silent-later": _then(BEGUN, silent=True),
    "html": _then(f"<html><title>{Mark.BODY}</title></html>\n\n"),
}
"""Ways in which only a stream can fail."""

WELL: Final = events(BEGUN, ENDED, "data: [DONE]\n\n")


def vectors() -> bytes:
    """Return a whole reply that holds two vectors, with marks all around."""
    data = [
        {"object": Mark.EXTRA, "index": index, "embedding": [0.25, -0.5], Mark.EXTRA: Mark.EXTRA}
        for index in range(2)
    ]
    usage = {"prompt_tokens": 12, "total_tokens": 12, Mark.EXTRA: Mark.EXTRA}
    body = {"object": Mark.EXTRA, "data": data, "model": Mark.EXTRA, "usage": usage}
    return marked(200, {**body, Mark.EXTRA: [Mark.EXTRA]})


def models() -> bytes:
    """Return a list of models: one of them to be listed, others with what no name holds."""
    names = (f"found-{Mark.EXTRA}", f"{Mark.BODY}\n{Mark.BODY}", Mark.BODY * 100, 7, None)
    listed: list[object] = [
        {"id": name, "object": Mark.BODY, "owned_by": Mark.BODY} for name in names
    ]
    return marked(200, {"object": Mark.BODY, "data": [*listed, Mark.BODY], Mark.BODY: Mark.BODY})


def _behaviour(heard: Heard) -> Behaviour:
    if heard.line.startswith("GET "):
        return models()
    wish = _WISH.search(heard.body)
    fault = wish[1].decode() if wish else "http-500"
    streaming = b'"stream":true' in heard.body
    if fault == "accepted" and streaming:
        return WELL
    if fault == "accepted" and "/embeddings " in heard.line:
        return vectors()
    if fault in STREAM_FAULTS:
        return STREAM_FAULTS[fault] if streaming else FAULTS["http-503"].behaviour
    return FAULTS[fault].behaviour


def faulty_service() -> RawServer:
    """Return a server that fails in the way that the text of a request asks for."""

    async def reply(connection: Connection) -> None:
        behaviour = _behaviour(server.heard[-1])
        if isinstance(behaviour, bytes):
            await connection.say(behaviour)
        else:
            await behaviour(connection)

    server = RawServer([reply])
    return server
