"""One connection of a client: uvicorn's, bounded where that trusts whoever connects."""

from __future__ import annotations

import re
from asyncio import BaseTransport, TimerHandle, Transport
from typing import Any, Final, cast

from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from casework.facade.errors import ErrorReply
from casework.facade.exchange import HANG_UP

HEAD_BYTES_MAX: Final = 64 * 1024
"""Longest head of a request, and most that may arrive without meaning anything yet."""
ARRIVAL_SECONDS: Final = 60.0
"""How long a request may take to arrive whole."""
TAKING_SECONDS: Final = 60.0
"""How long a client may take nothing of a reply that is said, and waits for it here."""
PIPELINED_MAX: Final = 8
"""About how many requests are read while an earlier one is answered; beyond them, a client that
leaves is noticed when that one has ended."""
PIECE_BYTES: Final = 1024
"""So much is read at a time of what holds many requests, which take a hundred times as much room
once they are read."""

_NOT_HTTP: Final = ErrorReply(400, "the request is no valid HTTP/1.1", "invalid_http")
_HEAD_TOO_LONG: Final = ErrorReply(
    431, f"the head of the request is longer than {HEAD_BYTES_MAX} bytes", "head_too_large"
)
_HEAD_END: Final = b"\r\n\r\n"
_REASONS: Final = {400: b"Bad Request", 431: b"Request Header Fields Too Large"}
_UPGRADE: Final = re.compile(rb"(?<=\r\n)upgrade(?=[ \t]*:)", re.IGNORECASE)


class _TooLong(Exception):
    """Ends the parsing of a head."""


class ClientConnection(HttpToolsProtocol):
    """Reads requests of bounded length in bounded time, and lets the application hang up."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        self._earlier: list[RequestResponseCycle] = []
        """Requests that had come before the latest one, while it was not their end yet."""
        self._unread = b""
        """What has arrived, and is read when there is room for further requests."""
        self._awaits_head = True
        self._arrival: TimerHandle | None = None
        self._taking: TimerHandle | None = None
        self._quiet_bytes = 0
        """How much has arrived since something was last understood."""
        self._refusal = _NOT_HTTP

    def connection_made(self, transport: BaseTransport) -> None:
        """Wait for a request, but not for ever."""
        super().connection_made(cast("Transport", transport))
        self.app_state = {**self.app_state, HANG_UP: self.transport.abort}
        self._wait_for_next()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the request that is being answered, be it the latest to have arrived or not."""
        super().connection_lost(exc)
        for timer in (self._arrival, self._taking):
            if timer is not None:
                timer.cancel()
        self._unread = b""
        for cycle in self._earlier:
            if not cycle.response_complete:
                cycle.disconnected = True
                cycle.message_event.set()

    def data_received(self, data: bytes) -> None:
        """Read what has come, unless there is enough to be answered already."""
        if self._unread:
            self._unread += data
            self.flow.pause_reading()  # the application looks now and then whether there is more
        else:
            self._read(data)

    def on_headers_complete(self) -> None:
        """Let a request in, unless its head is too long."""
        if self._quiet_bytes > HEAD_BYTES_MAX:
            fields = sum(len(name) + len(value) for name, value in self.headers)
            if len(self.url) + fields > HEAD_BYTES_MAX:
                self._refusal = _HEAD_TOO_LONG
                raise _TooLong
        self._awaits_head, self._quiet_bytes = False, 0
        earlier: RequestResponseCycle | None = self.cycle
        super().on_headers_complete()
        self.headers = []  # for fields behind the body, which come too late to mean anything
        if self.pipeline and earlier is not None:
            self._earlier = [one for one in self._earlier if not one.response_complete]
            self._earlier.append(earlier)
        elif self._earlier:
            self._earlier.clear()

    def on_body(self, body: bytes) -> None:
        """Take a piece of a body."""
        self._quiet_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Wait for the next request, where this one is answered already."""
        self._awaits_head, self._quiet_bytes = True, 0
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None
        super().on_message_complete()
        if self.cycle.response_complete and self.timeout_keep_alive_task is None:
            self._wait_for_next()

    def on_response_complete(self) -> None:
        """Go on to the next request, and see that this reply is taken."""
        super().on_response_complete()
        if self._unread:
            unread, self._unread = self._unread, b""
            self._read(unread)
        if self.flow.write_paused or self.transport.is_closing():
            self._mind_taking()

    def resume_writing(self) -> None:
        """Go on saying what the client takes again."""
        super().resume_writing()
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None
        if self.transport.is_closing():
            self._mind_taking()

    def shutdown(self) -> None:
        """Answer what was read, and nothing further."""
        self._unread = b""
        super().shutdown()

    def timeout_keep_alive_handler(self) -> None:
        """Close after a while in which nothing more was asked."""
        super().timeout_keep_alive_handler()
        self._mind_taking()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - the parser's own words
        """Refuse what cannot be read, in the shape of every other error, and close."""
        latest: RequestResponseCycle | None = self.cycle
        half_read = latest is not None and latest.more_body and not self.pipeline
        if (
            latest is None
            or latest.response_complete
            or (half_read and not latest.response_started)
        ):
            status, body = self._refusal.status, self._refusal.body("")
            head = b"HTTP/1.1 %d %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
            self.transport.write(head % (status, _REASONS[status], len(body)))
            self.transport.write(b"connection: close\r\n\r\n" + body)
        self.transport.close()

    def _read(self, data: bytes) -> None:
        if self._awaits_head and b"pgrade" in data:
            data = _without_upgrade(data)
        if data.count(_HEAD_END) <= PIPELINED_MAX:
            self._parse(data)
        else:
            place = 0
            while place < len(data) and not self.transport.is_closing():
                if len(self.pipeline) >= PIPELINED_MAX:
                    self._unread = data[place:]
                    break
                self._parse(data[place : place + PIECE_BYTES])
                place += PIECE_BYTES
        if self._unread:
            self.flow.pause_reading()
        elif self.pipeline and self._has_room():
            self.flow.resume_reading()

    def _parse(self, data: bytes) -> None:
        self._quiet_bytes += len(data)
        super().data_received(data)
        if self._quiet_bytes or not self._awaits_head:
            self._mind_arrival()

    def _mind_arrival(self) -> None:
        """Bound what a request that has not come whole yet may send, and how long."""
        if self._quiet_bytes > HEAD_BYTES_MAX:
            if not self.transport.is_closing():
                self._refusal = _HEAD_TOO_LONG
                self.send_400_response("")
        elif self._arrival is None:
            self._arrival = self.loop.call_later(ARRIVAL_SECONDS, self._overdue)

    def _mind_taking(self) -> None:
        """Hang up on a client that takes nothing of what is said to it.

        To be called where nothing is added to what waits: after a reply, while writing is paused or
        the connection is being closed, for which that would have to be taken first.
        """
        waiting = self.transport.get_write_buffer_size()
        if waiting and self._taking is None:
            self._taking = self.loop.call_later(TAKING_SECONDS, self._look_whether_taken, waiting)

    def _look_whether_taken(self, waiting: int) -> None:
        self._taking = None
        if self.transport.get_write_buffer_size() < waiting:
            self._mind_taking()
        else:
            self.transport.abort()

    def _wait_for_next(self) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(
            self.timeout_keep_alive, self.timeout_keep_alive_handler
        )

    def _has_room(self) -> bool:
        return len(self.pipeline) < PIPELINED_MAX and len(self.cycle.body) <= HIGH_WATER_LIMIT

    def _overdue(self) -> None:
        """Hang up on a client that does not get its request said, unless it is kept from it."""
        if self.flow.read_paused:
            self._arrival = self.loop.call_later(ARRIVAL_SECONDS, self._overdue)
        else:
            self.transport.abort()


def _without_upgrade(data: bytes) -> bytes:
    """Return a head without the offer of another protocol, for which the body would be left unread.

    Java's HTTP client makes that offer (HTTP/2) with its first request.
    """
    head, end, rest = data.partition(b"\r\n\r\n")
    return _UPGRADE.sub(b"ignored", head) + end + rest
