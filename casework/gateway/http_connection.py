"""One connection that speaks HTTP/1.1, and the answer to one request at a time.

What a server says unasked on a connection that is kept open would be taken for the answer to the
next request. So a connection is never used again once it has said a byte beyond an answer, or one
while nobody waited.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol, cast

import httptools

from casework.gateway.content_encodings import BodyTooLargeError

HEAD_BYTES_MAX: Final = 32 * 1024
"""Longest head of an answer, and most that may arrive without meaning anything yet."""
BUFFER_BYTES_MAX: Final = 256 * 1024
"""So much of a body waits for its reader before the server has to wait, give or take one read."""

_FRAMING: Final = frozenset({b"content-length", b"transfer-encoding"})
_FIELDS: Final = _FRAMING | {b"content-encoding", b"retry-after"}
_FIELD_OVERHEAD_BYTES: Final = 4
_INTERIM: Final = range(100, 200)


class NotHTTPError(ValueError):
    """The server does not speak the protocol."""


class ConnectionBrokenError(ConnectionError):
    """The connection ended before the answer did, or was given up."""


class Origin(NamedTuple):
    """Where a connection leads."""

    host: str
    port: int
    tls: bool


class Owner(Protocol):
    """Whoever made a connection."""

    def ended(self, connection: Connection, *, kept: bool) -> None:
        """Learn that a request has come to its end, and whether the connection may serve again."""

    def lost(self, connection: Connection) -> None:
        """Learn that the connection is closed."""


class Answer:
    """The answer to one request, as far as it has come. One task reads it."""

    def __init__(self, connection: Connection, loop: asyncio.AbstractEventLoop) -> None:
        self.status = 0
        self.complete = False
        self.error: Exception | None = None
        self.kept = False
        """The server keeps the connection open, and has said nothing more."""
        self.quiet_bytes = 0
        """How much has arrived since something was last understood."""
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        # Some servers end lines with a line feed alone, or write blanks behind a chunk's size.
        self._parser.set_dangerous_leniencies(
            lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self._connection = connection
        self._loop = loop
        self._begun = False
        self._fields: dict[bytes, bytes] = {}
        self._field_bytes = 0
        self._body = bytearray()
        self._bytes_max: int | None = None
        """Longest body, once somebody waits for all of it."""
        self._waiter: asyncio.Future[None] | None = None

    async def head(self) -> None:
        """Wait for status and headers.

        Raises:
            ConnectionBrokenError: They did not come.
            NotHTTPError: They are none.
            TimeoutError: See :meth:`expire`.
        """
        while not self._begun:
            await self._more()

    async def whole(self, bytes_max: int) -> bytes:
        """Wait for the whole body, and give up at the first byte too many.

        Raises:
            BodyTooLargeError: It is larger than that, or is said to be.
            ConnectionBrokenError: It did not come to its end.
            NotHTTPError: It is not framed as it should be.
            TimeoutError: See :meth:`expire`.
        """
        self._bytes_max = bytes_max
        said = int(self._fields.get(b"content-length", b"0"))
        if said > bytes_max or len(self._body) > bytes_max:
            self.close()
            raise BodyTooLargeError
        while not self.complete:
            self._connection.resume()
            await self._more()
        return bytes(self._body)

    async def piece(self) -> bytes:
        """Wait for a further piece of the body; empty at its end.

        Raises:
            ConnectionBrokenError: See :meth:`whole`.
            NotHTTPError: See :meth:`whole`.
        """
        while not self._body:
            if self.complete:
                return b""
            self._connection.resume()
            await self._more()
        piece, self._body = bytes(self._body), bytearray()
        return piece

    def field(self, name: bytes) -> str | None:
        """Return a header by its name in small letters; several of one name stand in one list."""
        value = self._fields.get(name)
        return None if value is None else value.decode("latin-1")

    def expire(self) -> None:
        """End the wait, and the connection with it."""
        self.fail(TimeoutError())

    def close(self) -> None:
        """Close the connection at once, unless the answer is complete."""
        self.fail(ConnectionBrokenError())

    def leave(self, seconds: float) -> None:
        """Stop reading a body that has said all it means, and let it come to its end.

        So that the connection can be kept. It is closed if the end does not come in time, or if
        anything comes before it.
        """
        if not self.complete and self.error is None:
            self._bytes_max = len(self._body)
            self._connection.resume()
            self._loop.call_later(seconds, self.close)

    def fail(self, error: Exception) -> None:
        """Give the answer up, and the connection with it."""
        if not self.complete and self.error is None:
            self.error = error
            self._end(kept=False)
            self._wake()

    def feed(self, data: bytes) -> None:
        """Take what has arrived."""
        assert self._parser is not None, "an answer that has ended is fed no more"
        self.quiet_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self.kept = False
            self.fail(NotHTTPError())
        if self.complete:
            self._end(kept=self.kept)
        elif self.quiet_bytes > HEAD_BYTES_MAX:
            self.fail(NotHTTPError())

    def feed_end(self) -> None:
        """Learn that nothing more will arrive, which ends a body that has no other end."""
        if self._begun and not self._fields.keys() & _FRAMING:
            self.complete = True
            self._end(kept=False)
            self._wake()
        else:
            self.close()

    def on_message_begin(self) -> None:
        """Hear of an answer's first byte; the first byte of another one spoils the connection."""
        if self.complete:
            self.kept = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header that means something here."""
        self.quiet_bytes = 0
        self._field_bytes += len(name) + len(value) + _FIELD_OVERHEAD_BYTES
        if self._field_bytes > HEAD_BYTES_MAX:
            raise NotHTTPError
        name = name.lower()
        if name in _FIELDS and not self._begun:
            known = self._fields.get(name)
            self._fields[name] = value if known is None else known + b"," + value

    def on_headers_complete(self) -> None:
        """Take the status; one that only announces another is passed over."""
        if self._parser is None or self.complete:
            return
        status = self._parser.get_status_code()
        if status in _INTERIM:
            self._fields.clear()
            return
        self.status = status
        self._begun = True
        self.quiet_bytes = 0
        self._wake()

    def on_body(self, data: bytes) -> None:
        """Keep a piece of the body."""
        self.quiet_bytes = 0
        if self.complete or self.error is not None:
            return
        self._body += data
        if self._bytes_max is None:
            if len(self._body) > BUFFER_BYTES_MAX:
                self._connection.pause()
            self._wake()
        elif len(self._body) > self._bytes_max:
            self.fail(BodyTooLargeError())

    def on_message_complete(self) -> None:
        """Hear of the end of a body."""
        if self._parser is not None and self._begun and not self.complete:
            self.complete = True
            self.kept = self._parser.should_keep_alive()
            self._wake()

    def _end(self, *, kept: bool) -> None:
        self._parser = None
        self._connection.end_request(kept=kept)

    async def _more(self) -> None:
        if self.error is not None:
            raise self.error
        self._waiter = self._loop.create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class Connection(asyncio.Protocol):
    """Carries one request at a time.

    Args:
        owner: Whoever made it.
        origin: Where it leads.
    """

    def __init__(self, owner: Owner, origin: Origin) -> None:
        self.origin = origin
        self.idle_since = 0.0
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._answer: Answer | None = None
        self._transport: asyncio.Transport | None = None
        self._anything_to_read: Callable[[], bool] = bool
        self._last = False
        self._paused = False

    def ask(self, request: tuple[bytes, bytes], *, last: bool) -> Answer:
        """Write one request, head and body, and return its answer, of which nothing has come yet.

        Args:
            request: As it goes out.
            last: The connection serves no other one.
        """
        assert self._transport is not None, "only an open connection is asked"
        assert self._answer is None, "one request at a time"
        self._last = last
        self._answer = Answer(self, self._loop)
        self._transport.writelines(request)
        return self._answer

    @property
    def open(self) -> bool:
        """Tell whether neither side has closed the connection, as far as the loop knows."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def usable(self) -> bool:
        """Tell whether the connection is open and the server has said nothing on it.

        The socket itself is asked, so that what has arrived counts before the loop has read it.
        """
        return self.open and not self._anything_to_read()

    def end_request(self, *, kept: bool) -> None:
        """Let go of the answer; the connection is closed unless it may serve again."""
        if self._answer is None:
            return
        self._answer = None
        self.resume()
        kept = kept and self.open and not self._last and self._wrote_everything()
        if not kept:
            self.abort()
        self._owner.ended(self, kept=kept)

    def pause(self) -> None:
        """Let the server wait."""
        if self._transport is not None and self.open:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read on."""
        if self._transport is not None and self._paused and self.open:
            self._transport.resume_reading()
        self._paused = False

    def abort(self) -> None:
        """Close the connection at once, whatever is still to be written."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember what to write to."""
        self._transport = cast("asyncio.Transport", transport)
        self._anything_to_read = _reader_of(transport.get_extra_info("socket").fileno())

    def data_received(self, data: bytes) -> None:
        """Pass on what belongs to an answer; hang up on what belongs to none."""
        if self._answer is None:
            self.abort()
        else:
            self._answer.feed(data)

    def eof_received(self) -> None:
        """Hear that the server has said its last."""
        if self._answer is not None:
            self._answer.feed_end()

    def connection_lost(self, exc: Exception | None) -> None:
        """Hear that the connection is closed."""
        if self._answer is not None:
            if exc is None:
                self._answer.feed_end()
            else:
                self._answer.close()
        self._transport = None
        self._owner.lost(self)

    def _wrote_everything(self) -> bool:
        return self._transport is not None and self._transport.get_write_buffer_size() == 0


def _reader_of(descriptor: int) -> Callable[[], bool]:
    """Return what tells whether a socket has bytes, or its end, to be read."""
    if not hasattr(select, "poll"):
        return lambda: bool(select.select([descriptor], [], [], 0)[0])
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return lambda: bool(poll.poll(0))
