"""What clients get wrong, with a mark at the very place that is wrong."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from tests.contract.privacy.bare_client import Fields, written
from tests.contract.privacy.marked_service import (
    CHAT,
    FILE_KEY,
    STRAY,
    VECTORS,
    Asked,
    body_of,
    headers_of,
)
from tests.contract.privacy.marks import Mark

REQUEST: Final = frozenset({Mark.REQUEST})
NAMES: Final = REQUEST | {Mark.MEMBER}

_TEXT: Final = f"{Mark.DOCUMENT}"
_MESSAGE: Final = {"role": "user", "content": _TEXT}

BODIES: Final[dict[str, Any]] = {
    "text": _TEXT.encode(),
    "list": [_TEXT],
    "cut off": f'{{"model": "auto", "messages": [{{"role": "user", "content": "{_TEXT}'.encode(),
    "latin": f'{{"model": "auto", "{_TEXT}": "'.encode() + b'\xe9"}',
    "half a character": f'{{"model": "{_TEXT}\\ud800", "messages": []}}'.encode(),
    "deep": b'{"messages":' + b"[" * 5000 + _TEXT.encode(),
    "no model": {"messages": [_MESSAGE]},
    "model list": {"model": [_TEXT], "messages": [_MESSAGE]},
    "no messages": {"model": "auto", "prompt": _TEXT},
    "messages text": {"model": "auto", "messages": _TEXT},
    "message text": {"model": "auto", "messages": [_TEXT]},
    "role": {"model": "auto", "messages": [{"role": _TEXT, "content": _TEXT}]},
    "role object": {"model": "auto", "messages": [{"role": {_TEXT: _TEXT}, "content": _TEXT}]},
    "content": {"model": "auto", "messages": [{"role": "user", "content": {_TEXT: _TEXT}}]},
    "part": {"model": "auto", "messages": [{"role": "user", "content": [{_TEXT: _TEXT}]}]},
    "part type": {"model": "auto", "messages": [{"role": "user", "content": [{"type": [_TEXT]}]}]},
    "n": {"model": "auto", "messages": [_MESSAGE], "n": _TEXT},
    "stream": {"model": "auto", "messages": [_MESSAGE], "stream": _TEXT},
    "options": {"model": "auto", "messages": [_MESSAGE], "stream_options": _TEXT},
    "tokens": {"model": "auto", "messages": [_MESSAGE], "max_tokens": _TEXT},
    "profile": {"model": "auto", "messages": [_MESSAGE], "privacy_profile": _TEXT},
    "profile list": {"model": "auto", "messages": [_MESSAGE], "privacy_profile": [_TEXT]},
    "twice": f'{{"model": "auto", "messages": [{{"role": "user", "content": "{_TEXT}"}}], '
    f'"privacy_profile": "local_only", "{_TEXT}": 1, '
    f'"{_TEXT}": 2}}'.encode(),
    "form": {"model": "auto", "messages": [_MESSAGE], "response_format": _TEXT},
    "form type": {
        "model": "auto",
        "messages": [_MESSAGE],
        "response_format": {"type": "json_schema", "json_schema": _TEXT},
    },
    "unknown model": {"model": f"{Mark.MODEL} of nobody", "messages": [_MESSAGE]},
    "unknown provider": {"model": f"{Mark.MODEL}/{_TEXT}", "messages": [_MESSAGE]},
    "long model": {"model": f"faulty/{Mark.MODEL * 40}", "messages": [_MESSAGE]},
    "large": {"model": "auto", "messages": [{"role": "user", "content": _TEXT * 3000}]},
}
"""Bodies that are no chat request."""

SCHEMAS: Final[dict[str, Any]] = {
    "type": {"type": Mark.DOCUMENT, "default": Mark.DOCUMENT},
    "reference": {"$ref": f"https://{Mark.DOCUMENT}.example/s.json"},
    "dialect": {"$schema": f"https://{Mark.DOCUMENT}.example/s.json"},
    "pattern": {"type": "string", "pattern": f"({Mark.DOCUMENT}"},
    "below": {"properties": {Mark.MEMBER: {"type": Mark.DOCUMENT}}},
    "keyword": {"properties": {Mark.MEMBER: {"minimum": Mark.DOCUMENT}}},
}
"""Schemas that cannot be used; a reply names the place, in the client's own names."""

INPUTS: Final[dict[str, Any]] = {
    "object": {"model": "auto", "input": {_TEXT: _TEXT}},
    "mixed": {"model": "auto", "input": [_TEXT, 1]},
    "numbers": {"model": "auto", "input": [[_TEXT]]},
    "encoding": {"model": "auto", "input": _TEXT, "encoding_format": _TEXT},
    "empty": {"model": "auto", "input": [_TEXT, ""]},
    "unknown model": {"model": f"{Mark.MODEL} of nobody", "input": _TEXT},
    "cannot embed": {"model": f"nobody/{Mark.MODEL}", "input": _TEXT},
}

HEADERS: Final[dict[str, Fields]] = {
    "profile": [("X-Casework-Privacy-Profile", Mark.STRAY)],
    "two profiles": [("X-Casework-Privacy-Profile", "local_only")] * 2,
    "deadline": [("X-Casework-Deadline-Seconds", Mark.STRAY)],
    "long key": [("Idempotency-Key", Mark.CALL * 20)],
    "case alone": [("X-Casework-Case", Mark.CALL)],
    "operation alone": [("X-Casework-Operation", Mark.CALL)],
    "case of a call": [("Idempotency-Key", Mark.CALL), ("X-Casework-Case", f"call:{Mark.CALL}")],
}

CREDENTIALS: Final[dict[str, Fields]] = {
    "none": [],
    "wrong": [("Authorization", f"Bearer cw-{Mark.WRONG}")],
    "of the provider": [("Authorization", f"Bearer sk-{Mark.KEY}")],
    "basic": [("Authorization", f"Basic {Mark.WRONG}")],
    "bare": [("Authorization", Mark.WRONG)],
    "no bearer": [("Authorization", FILE_KEY)],
    "twice": [("Authorization", f"Bearer {FILE_KEY}")] * 2,
    "beside a wrong one": [
        ("Authorization", f"Bearer {FILE_KEY}"),
        ("Authorization", f"Bearer {Mark.WRONG}"),
    ],
    "elsewhere": [("X-Api-Key", FILE_KEY), ("Cookie", f"key={FILE_KEY}"), ("Api-Key", FILE_KEY)],
}

PATHS: Final = (
    ("GET", f"/{Mark.STRAY}"),
    ("GET", f"/v1/models/{Mark.MODEL}%20of%20nobody"),
    ("GET", f"/v1/models/{Mark.MODEL}%0d%0aSet-Cookie:%20{Mark.STRAY}"),
    ("GET", f"/%0a{Mark.STRAY}"),
    ("GET", f"https://{Mark.STRAY}.example/{Mark.STRAY}?{Mark.STRAY}#{Mark.STRAY}"),
    ("GET", f"{CHAT}?{Mark.STRAY}"),
    (f"{Mark.STRAY}".replace("-", "").upper(), CHAT),
    ("DELETE", VECTORS),
)

GARBAGE: Final = {
    "no http": f"{Mark.STRAY} {Mark.STRAY}\r\n\r\n".encode(),
    "version": f"GET /{Mark.STRAY} HTTP/7.7\r\nHost: {Mark.STRAY}\r\n\r\n".encode(),
    "header": f"GET / HTTP/1.1\r\nHost: a\r\n{Mark.STRAY}\r\n\r\n".encode(),
    "nul": f"GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: {Mark.STRAY}\0\r\n\r\n".encode(),
    "carriage return": f"GET / HTTP/1.1\r\nHost: a\r\nX-A: a\r{Mark.STRAY}: b\r\n\r\n".encode(),
    "target": f"GET /{Mark.STRAY}é HTTP/1.1\r\nHost: a\r\n\r\n".encode(),
    "connect": f"CONNECT {Mark.STRAY}:443 HTTP/1.1\r\nHost: {Mark.STRAY}:443\r\n\r\n".encode(),
    "length": f"POST {CHAT} HTTP/1.1\r\nHost: a\r\nContent-Length: {Mark.STRAY}\r\n\r\n".encode(),
    "tls": b"\x16\x03\x01\x02\x00\x01" + Mark.STRAY.encode() + b"\r\n\r\n",
}
"""Bytes that are no request; each is answered, and the connection closed."""


def every_mistake() -> Iterator[Asked]:
    """Yield one request for each mistake, with marks all around it."""
    for name, body in BODIES.items():
        for path in (CHAT, "/v1/explain", "/v1/token-count"):
            request = written("POST", path, headers=headers_of("whole"), body=body)
            allowed = REQUEST
            if path == "/v1/explain":  # tells what it was asked about
                allowed |= {Mark.MODEL, Mark.DOCUMENT}
            yield Asked(f"{path} {name}", request, allowed)
    for name, schema in SCHEMAS.items():
        form = {"type": "json_schema", "json_schema": {"name": "a", "schema": schema}}
        body = {"model": "auto", "messages": [_MESSAGE], "response_format": form}
        yield Asked(f"schema {name}", _chat(body), NAMES)
    for name, body in INPUTS.items():
        request = written("POST", VECTORS, headers=headers_of("vectors"), body=body)
        yield Asked(f"vectors {name}", request, REQUEST)
    for name, headers in HEADERS.items():
        body = body_of("whole", _TEXT, f"of nobody, {_TEXT}")
        request = written("POST", CHAT, headers=[*headers_of("whole"), *headers], body=body)
        yield Asked(f"header {name}", request, REQUEST)
    kept = [*headers_of("whole"), ("Idempotency-Key", Mark.CALL)]
    stream = written("POST", CHAT, headers=kept, body=body_of("stream", _TEXT, "auto"))
    yield Asked("kept as a stream", stream, REQUEST)
    duplicated = (
        f'{{"model": "faulty/x", "messages": [{json.dumps(_MESSAGE)}], "m": {{"{_TEXT}": 1, '
    )
    request = written("POST", CHAT, headers=kept, body=f'{duplicated}"{_TEXT}": 2}}}}'.encode())
    yield Asked("kept with a name twice", request, REQUEST)
    yield from _strangers()


def every_view() -> Iterator[Asked]:
    """Yield requests that look at what there is, and what is told of a request by itself.

    Models are listed by the names that their server gave them.
    """
    own = headers_of("whole")
    found = REQUEST | {Mark.EXTRA}
    yield Asked("models", written("GET", f"/v1/models?{Mark.STRAY}", headers=own), found)
    target = f"/v1/models/found-{Mark.EXTRA}"
    yield Asked("one model", written("GET", target, headers=own), found)
    for path in ("/v1/providers", "/", "/healthz", "/readyz", "/openapi.json"):
        yield Asked(path, written("GET", path, headers=own), REQUEST)
    for kind in ("whole", "vectors"):
        body = body_of(kind, _TEXT, f"faulty/{Mark.MODEL}")
        explained = written("POST", "/v1/explain", headers=own, body=body)
        yield Asked(f"explain {kind}", explained, NAMES | {Mark.MODEL})
    counted = written("POST", "/v1/token-count", headers=own, body={"text": _TEXT})
    yield Asked("count", counted, REQUEST)


def _chat(body: object) -> bytes:
    return written("POST", CHAT, headers=headers_of("whole"), body=body)


def _strangers() -> Iterator[Asked]:
    """Yield requests of nobody who is known, and to places that are none."""
    named = [("X-Request-Id", Mark.REQUEST), *STRAY]
    for name, credentials in CREDENTIALS.items():
        for method, path in (("POST", CHAT), ("POST", VECTORS), ("GET", "/v1/models")):
            body = body_of("whole", _TEXT, "auto") if method == "POST" else None
            request = written(method, path, headers=[*named, *credentials], body=body)
            yield Asked(f"{path} by {name}", request, REQUEST)
    for method, path in PATHS:
        yield Asked(f"{method} {path}", written(method, path, headers=headers_of("whole")), REQUEST)
    yield from (Asked(f"garbage {name}", content) for name, content in GARBAGE.items())
