"""Requests of any method to any path, and replies held against the shipped description."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from tests.facade.openapi_description import undescribed
from tests.facade.serving import Facade

REPLY_SECONDS_MAX: Final = 30.0
"""When a reply counts as hanging."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply as it arrived."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def json(self) -> Any:
        """Return the body read as JSON."""
        return json.loads(self.body)

    @property
    def error(self) -> tuple[int, Any]:
        """Return status and code of an error."""
        return self.status, self.json["error"]["code"]


async def ask(
    served: Facade,
    method: str,
    path: str,
    body: object = None,
    *,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """Send one request as it stands; its reply is one that is described.

    Args:
        served: To whom.
        method: Any.
        path: As it is to stand in the request line.
        body: Bytes as they are, anything else as JSON.
        headers: Further ones.
    """
    reply = await bare(served, method, path, body, headers=headers)
    wrong = undescribed(method, path, status=reply.status, headers=reply.headers, body=reply.body)
    assert [] == wrong
    return reply


async def bare(
    served: Facade,
    method: str,
    path: str,
    body: object = None,
    *,
    headers: Mapping[str, str] | None = None,
) -> Reply:
    """Send one request as it stands, over a connection of its own."""
    host, port = str(urlsplit(served.url).hostname), urlsplit(served.url).port
    if body is None:
        content = b""
    else:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
    fields = {
        "Host": f"{host}:{port}",
        "Connection": "close",
        "Content-Length": str(len(content)),
        **(headers or {}),
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    async with asyncio.timeout(REPLY_SECONDS_MAX):
        reader, writer = await asyncio.open_connection(host, port)
        try:
            writer.write(f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + content)
            return _reply(await reader.read())
        finally:
            writer.close()
            await writer.wait_closed()


def _reply(content: bytes) -> Reply:
    head, _, body = content.partition(b"\r\n\r\n")
    line, *fields = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (f.partition(":") for f in fields)}
    return Reply(int(line.split(" ")[1]), headers, body)
