"""An upstream that fails in every way there is, and writes marks wherever a server can write."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from casework.gateway.errors import FailureKind
from tests.contract.privacy.marks import Mark
from tests.support.raw_server import Behaviour, Connection, RawServer, answer

BODY_BYTES_MAX: Final = 8192
"""What the provider's entry allows a reply to hold."""

REQUEST_BYTES_MAX: Final = 16_384
"""What the provider's entry allows a request to hold."""

HEADERS: Final = {
    "Set-Cookie": f"a,{Mark.HEADER}={Mark.HEADER}; Path=/{Mark.HEADER}; Expires={Mark.HEADER}",
    "X-Request-Id": Mark.HEADER,
    "Server": Mark.HEADER,
    "WWW-Authenticate": f'Bearer realm="{Mark.HEADER}"',
    "Location": f"http://{Mark.HEADER}.example/{Mark.HEADER}?token={Mark.HEADER}",
    "Warning": f'299 - "{Mark.HEADER}"',
}

ANSWER: Final = {"answer": Mark.ANSWER}


@dataclass(frozen=True, slots=True)
class Fault:
    """One way to reply, and what it is to be taken for."""

    kind: FailureKind | None
    """None for a good answer."""
    behaviour: Behaviour


def marked(
    status: int, body: bytes | str | object, *, headers: Mapping[str, str] | None = None
) -> bytes:
    """Return a whole reply with marks in its headers and beside its status."""
    reply = answer(status, body, headers={**HEADERS, **(headers or {})})
    return reply.replace(b" Status\r\n", f" {Mark.STATUS}\r\n".encode(), 1)


def said(text: str, *, finish: str = "stop", refusal: str | None = None) -> bytes:
    """Return a whole reply that holds one chat answer, with marks all around it."""
    message = {
        "role": Mark.EXTRA,
        "content": text,
        "refusal": refusal,
        "reasoning_content": Mark.EXTRA,
        "annotations": [Mark.EXTRA],
    }
    choice = {"index": 0, "finish_reason": finish, "message": message, "logprobs": Mark.EXTRA}
    envelope = {
        "id": Mark.EXTRA,
        "model": Mark.EXTRA,
        "object": Mark.EXTRA,
        "system_fingerprint": Mark.EXTRA,
        "choices": [choice],
        "usage": {"prompt_tokens": 12, "completion_tokens": Mark.EXTRA, Mark.EXTRA: Mark.EXTRA},
        Mark.EXTRA: {Mark.EXTRA: [Mark.EXTRA]},
    }
    return marked(200, envelope)


def _refused(code: str | None) -> dict[str, object]:
    """Return an error body as the common servers write it."""
    return {
        "error": {
            "message": f"{Mark.BODY}: {Mark.BODY}",
            "type": Mark.BODY,
            "param": Mark.BODY,
            "code": code or Mark.BODY,
            "innererror": {"code": Mark.BODY, "content_filter_result": Mark.BODY},
        },
        "detail": [{"loc": [Mark.BODY], "msg": Mark.BODY}],
    }


async def _break_off(connection: Connection) -> None:
    await connection.say(marked(200, b'{"a":"' + Mark.BODY.encode() + b'"}')[:-4])


async def _reset(connection: Connection) -> None:
    await connection.say(marked(200, Mark.BODY)[:-4])
    connection.reset()


async def stall(connection: Connection) -> None:
    """Begin a reply and never end it."""
    await connection.say(marked(200, json.dumps({"a": Mark.BODY}))[:-4])
    await connection.wait_until_gone()


_K = FailureKind
_EVENTS = {"Content-Type": "text/event-stream"}

FAULTS: Final[dict[str, Fault]] = {
    "accepted": Fault(None, said(json.dumps(ANSWER))),
    "http-408": Fault(_K.HTTP_408, marked(408, _refused(None))),
    "http-429": Fault(
        _K.HTTP_429, marked(429, _refused(None), headers={"Retry-After": Mark.HEADER})
    ),
    "http-500": Fault(_K.HTTP_5XX, marked(500, f"<html><title>{Mark.BODY}</title></html>")),
    "http-503": Fault(_K.HTTP_5XX, marked(503, _refused(None))),
    "http-401": Fault(_K.AUTH_ERROR, marked(401, _refused("invalid_api_key"))),
    "http-403": Fault(_K.AUTH_ERROR, marked(403, _refused(None))),
    "http-404": Fault(_K.HTTP_ERROR, marked(404, _refused("model_not_found"))),
    "http-400": Fault(_K.HTTP_ERROR, marked(400, _refused(None))),
    "http-302": Fault(_K.REDIRECT_REJECTED, marked(302, Mark.BODY)),
    "context": Fault(_K.CONTEXT_TOO_LONG, marked(400, _refused("context_length_exceeded"))),
    "policy": Fault(_K.REFUSAL, marked(400, _refused("content_filter"))),
    "filtered": Fault(_K.REFUSAL, said(Mark.REJECTED, finish="content_filter")),
    "declined": Fault(_K.REFUSAL, said("", refusal=Mark.REJECTED)),
    "truncated": Fault(_K.TRUNCATED, said(f'{{"answer": "{Mark.REJECTED}', finish="length")),
    "no-json": Fault(_K.INVALID_JSON, said(f"Certainly: {Mark.REJECTED}")),
    "twice": Fault(_K.INVALID_JSON, said(f'{{"{Mark.REJECTED}": 1, "{Mark.REJECTED}": 2}}')),
    "wrong-value": Fault(_K.SCHEMA_VIOLATION, said(json.dumps({"answer": [Mark.REJECTED]}))),
    "wrong-name": Fault(_K.SCHEMA_VIOLATION, said(json.dumps({**ANSWER, Mark.REJECTED: 1}))),
    "blank": Fault(_K.EMPTY_RESPONSE, said(" \n")),
    "large": Fault(_K.RESPONSE_TOO_LARGE, marked(200, Mark.BODY * BODY_BYTES_MAX)),
    "no-envelope": Fault(_K.MALFORMED_RESPONSE, marked(200, {Mark.BODY: [Mark.BODY]})),
    "half-envelope": Fault(_K.MALFORMED_RESPONSE, marked(200, f'{{"choices": ["{Mark.BODY}"')),
    "events": Fault(
        _K.MALFORMED_RESPONSE,
        marked(200, f'data: {{"error": "{Mark.BODY}"}}\n\ndata: [DONE]\n\n', headers=_EVENTS),
    ),
    "no-gzip": Fault(
        _K.MALFORMED_RESPONSE, marked(200, Mark.BODY, headers={"Content-Encoding": "gzip"})
    ),
    "odd-encoding": Fault(
        _K.MALFORMED_RESPONSE, marked(200, Mark.BODY, headers={"Content-Encoding": Mark.HEADER})
    ),
    "no-status": Fault(_K.MALFORMED_RESPONSE, marked(799, Mark.BODY)),
    "no-http": Fault(_K.MALFORMED_RESPONSE, f"SSH-2.0-{Mark.BODY}\r\n{Mark.BODY}\r\n\r\n".encode()),
    "bad-header": Fault(
        _K.MALFORMED_RESPONSE, f"HTTP/1.1 200 {Mark.STATUS}\r\n{Mark.HEADER}\r\n\r\n".encode()
    ),
    "broken-off": Fault(_K.CONNECT_ERROR, _break_off),
    "reset": Fault(_K.CONNECT_ERROR, _reset),
    "stalled": Fault(_K.TIMEOUT, stall),
}
"""Every reply, by the word with which a document asks for it."""

_WISH: Final = re.compile(rb"fault=([a-z0-9-]+)")


def document(fault: str) -> str:
    """Return the text of a case that makes upstream fail in this way."""
    return f"fault={fault}\n{Mark.DOCUMENT} said {Mark.DOCUMENT} to the {Mark.DOCUMENT}.\n"


def faulty_server() -> RawServer:
    """Return a server that fails in the way that the document of the request asks for."""

    async def reply(connection: Connection) -> None:
        wish = _WISH.search(server.heard[-1].body)
        behaviour = FAULTS[wish[1].decode() if wish else "http-500"].behaviour
        if isinstance(behaviour, bytes):
            await connection.say(behaviour)
        else:
            await behaviour(connection)

    server = RawServer([reply])
    return server
