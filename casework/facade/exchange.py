"""One request and its reply, over the server's two channels."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from casework.facade.errors import ErrorReply
from casework.facade.presence import Ended, Receive

Send: TypeAlias = Callable[[Mapping[str, Any]], Awaitable[None]]
Header: TypeAlias = tuple[bytes, bytes]

HANG_UP: Final = "casework.hang_up"
"""Under this name a server's ``state`` may hold what ends the connection at once."""
_ID_HEADER: Final = b"x-request-id"
_SAFE_ID: Final = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class Refused(Exception):
    """The request gets this reply and no other; caught in one place."""

    def __init__(self, reply: ErrorReply) -> None:
        super().__init__(reply.code)
        self.reply = reply


class ClientGone(Exception):
    """Nobody is left to reply to.

    Args:
        why: What became of the client.
    """

    def __init__(self, why: Ended = Ended.CLIENT_LEFT) -> None:
        super().__init__(why.value)
        self.why = why


class Exchange:
    """What one request holds, and the means to reply.

    Args:
        scope: As the server gives it.
        receive: The channel of the body and of the client's leave.
        send: The channel of the reply.
        fallback_id: The request's id where the client names none that is safe.
    """

    __slots__ = (
        "begun",
        "headers",
        "method",
        "path",
        "receive",
        "request_id",
        "send",
        "server_state",
        "status",
    )

    def __init__(
        self, scope: Mapping[str, Any], receive: Receive, send: Send, *, fallback_id: str
    ) -> None:
        self.headers: Mapping[bytes, bytes] = _by_name(scope["headers"])
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.server_state: Mapping[str, Any] = scope.get("state", {})
        self.receive = receive
        self.send = send
        named = self.headers.get(_ID_HEADER, b"")
        self.request_id = named.decode() if _SAFE_ID.fullmatch(named) else fallback_id
        self.status = 0
        """What was replied; 0 until a reply has begun."""
        self.begun = False

    async def body(self, bytes_max: int) -> bytes:
        """Read the whole body, whether its length was announced or not.

        Raises:
            Refused: It is longer than allowed (413).
            ClientGone: The client left before its end.
        """
        announced = self.headers.get(b"content-length", b"0")
        if announced.isdigit() and int(announced) > bytes_max:
            raise Refused(_too_long(bytes_max))
        message = await self.receive()
        if message["type"] == "http.request" and not message.get("more_body"):
            return self._within(message.get("body", b""), bytes_max)
        content = bytearray()
        while message["type"] == "http.request":
            content += message.get("body", b"")
            if len(content) > bytes_max:
                raise Refused(_too_long(bytes_max))
            if not message.get("more_body"):
                return bytes(content)
            message = await self.receive()
        raise ClientGone

    async def reply(self, status: int, body: bytes, headers: Sequence[Header] = ()) -> None:
        """Send a whole reply, which is JSON."""
        await self._start(
            status,
            [
                (b"content-type", b"application/json"),
                (b"content-length", b"%d" % len(body)),
                (_ID_HEADER, self.request_id.encode()),
                *headers,
            ],
        )
        await self.send({"type": "http.response.body", "body": body})

    async def reply_json(self, value: object, headers: Sequence[Header] = ()) -> None:
        """Send a value as JSON."""
        body = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        await self.reply(200, body, headers)

    async def refuse(self, reply: ErrorReply) -> None:
        """Send an error, whole."""
        headers = reply.headers()
        # Not after 413: what is left of the body would reset the connection, and the reply with it.
        if reply.status == 503 or b"expect" in self.headers:  # noqa: PLR2004
            # After ``Expect``, a client does not send the body that the server would wait for.
            headers.append((b"connection", b"close"))
        await self.reply(reply.status, reply.body(self.request_id), headers)

    async def begin_events(self, headers: list[Header]) -> None:
        """Begin a reply that is a stream of events."""
        await self._start(
            200,
            [
                (b"content-type", b"text/event-stream; charset=utf-8"),
                (b"cache-control", b"no-cache"),
                (b"x-accel-buffering", b"no"),
                (_ID_HEADER, self.request_id.encode()),
                *headers,
            ],
        )

    async def piece(self, piece: bytes) -> None:
        """Send a piece of a stream; waits while the client takes nothing."""
        await self.send({"type": "http.response.body", "body": piece, "more_body": True})

    async def end(self, piece: bytes) -> None:
        """End a stream with its last piece."""
        await self.send({"type": "http.response.body", "body": piece})

    def hang_up(self) -> None:
        """End the connection, whatever of the reply the client has not taken yet."""
        end = self.server_state.get(HANG_UP)
        if end is not None:
            end()

    async def _start(self, status: int, headers: list[Header]) -> None:
        self.begun, self.status = True, status
        await self.send({"type": "http.response.start", "status": status, "headers": headers})

    @staticmethod
    def _within(body: bytes, bytes_max: int) -> bytes:
        if len(body) > bytes_max:
            raise Refused(_too_long(bytes_max))
        return body


def _by_name(headers: Sequence[Header]) -> dict[bytes, bytes]:
    """Return headers by name; one that stands twice holds a list, and no value goes unseen.

    Where a single value is wanted, such as a profile or a key, a list is none.
    """
    found = dict(headers)
    if len(found) < len(headers):
        found = {}
        for name, value in headers:
            found[name] = found[name] + b", " + value if name in found else value
    return found


def _too_long(bytes_max: int) -> ErrorReply:
    return ErrorReply(
        413,
        f"the body is longer than {bytes_max} bytes; send less, or raise [serve] max_request_bytes",
        "request_too_large",
    )
