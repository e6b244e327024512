"""One request over HTTP, and never a second; what comes back is told as an answer or a failure.

No redirect is followed, no proxy of the environment used, no cookie kept, no request sent again.
"""

from __future__ import annotations

import asyncio
import codecs
import errno
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from casework.errors import ConfigurationError
from casework.gateway.clock import Deadline
from casework.gateway.connection_pool import ConnectionPool
from casework.gateway.content_encodings import (
    BadBodyError,
    BodyTooLargeError,
    Unpacker,
    unpacked,
)
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.http_connection import Answer, NotHTTPError, Origin
from casework.gateway.http_replies import (
    ACCEPTED,
    EXPLAINED,
    EXPLANATION_BYTES_MAX,
    failure_of,
    retry_after_seconds,
)
from casework.gateway.messages import Credential
from casework.gateway.sse import EventReader, EventTooLongError

ADDRESSES_MAX: Final = 256
"""Most addresses whose heads are remembered."""

ENDING_SECONDS: Final = 1.0
"""So long a server may take from the last event of a stream to the end of its reply."""

_LAST: Final = b"[DONE]"
FILES_WAIT_SECONDS: Final = 1.0
"""When somebody may ask again who found no file left for a connection."""
SILENT_EVENTS: Final = 16
"""As much as so many of the longest events may come as comments and blank lines, without any."""

_JSON_BEGINS: Final = (b"{", b"[")
"""No field of a stream has a name that begins so."""
_BROKEN: Final = (
    OSError,
    UnicodeError,
    NotHTTPError,
    BadBodyError,
    BodyTooLargeError,
    EventTooLongError,
)
"""What can go wrong on the way."""
_NO_FILE_LEFT: Final = (errno.EMFILE, errno.ENFILE)

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class HTTPRequest:
    """One request to be sent once."""

    url: str = field(repr=False)
    body: bytes = field(repr=False)
    """JSON."""
    credential: Credential | None
    response_bytes_max: int
    """Longest body that is read, packed and unpacked; of a stream, longest event."""
    alone: bool = False
    """Use a connection that serves no other request."""


class HTTPTransport:
    """Sends requests over connections of its own, one set for each event loop.

    ``aclose`` closes those of the running loop and is to be called before that loop ends.

    Args:
        ca_file: Certificates (PEM) to trust beside the system's.

    Raises:
        ConfigurationError: The certificates cannot be read.
    """

    def __init__(self, *, ca_file: Path | None = None) -> None:
        self._ca_file = ca_file
        self._tls: ssl.SSLContext | None = _tls_context(ca_file) if ca_file else None
        self._pools: WeakKeyDictionary[asyncio.AbstractEventLoop, ConnectionPool] = (
            WeakKeyDictionary()
        )

    async def post_json(self, request: HTTPRequest, *, deadline: Deadline) -> bytes:
        """Send one request and return the body of an accepted reply (HTTP 200 or 201).

        The deadline covers everything from name look-up to the last byte. Cancelling closes the
        connection.

        Raises:
            ProviderFailure: There is no such reply. ``sent`` tells whether a byte of the request
                may have left.
        """
        return await self._exchanged("POST", request, deadline=deadline, read=_whole)

    async def get_json(self, request: HTTPRequest, *, deadline: Deadline) -> bytes:
        """Ask for what is at an address, without a body; see :meth:`post_json`.

        Raises:
            ProviderFailure: See :meth:`post_json`.
        """
        return await self._exchanged("GET", request, deadline=deadline, read=_whole)

    async def open_stream(self, request: HTTPRequest, *, deadline: Deadline) -> ServerEvents:
        """Send one request and return the events of an accepted reply, none of them read yet.

        The deadline covers everything up to the last header, and cancelling until then closes the
        connection. Whoever has the stream closes it.

        Raises:
            ProviderFailure: See :meth:`post_json`.
        """
        return await self._exchanged("POST", request, deadline=deadline, read=_events)

    async def aclose(self) -> None:
        """Close the connections of the running loop, and with them what is still under way."""
        pool = self._pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            await pool.aclose()

    async def _exchanged(
        self,
        method: str,
        request: HTTPRequest,
        *,
        deadline: Deadline,
        read: Callable[[Answer, int], Awaitable[_Result]],
    ) -> _Result:
        loop = asyncio.get_running_loop()
        answer: Answer | None = None
        expiry: asyncio.TimerHandle | None = None
        accepted = False
        try:
            origin, content = _written(method, request)
            answer = await self._pool(loop).ask(
                origin, content, alone=request.alone, deadline=deadline
            )
            expiry = loop.call_later(deadline.remaining(), answer.expire)
            await answer.head()
            if answer.status not in ACCEPTED:
                raise await _refusal(answer, deadline)
            result = await read(answer, request.response_bytes_max)
            accepted = True
        except _BROKEN as error:
            failure = _failure(error, sent=answer is not None)
        else:
            return result
        finally:
            if expiry is not None:
                expiry.cancel()
            if answer is not None and not accepted:
                answer.close()
        # Raised out here, where an error that holds the address is no longer at hand.
        raise failure

    def _pool(self, loop: asyncio.AbstractEventLoop) -> ConnectionPool:
        pool = self._pools.get(loop)
        if pool is None:
            pool = self._pools[loop] = ConnectionPool(self._verifying)
        return pool

    def _verifying(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = _tls_context(self._ca_file)
        return self._tls


class ServerEvents:
    """The events of one accepted reply."""

    def __init__(self, answer: Answer, event_bytes_max: int) -> None:
        self.dropped: tuple[str, ...] = ()
        self._answer = answer
        self._bytes_max = event_bytes_max
        self._unpacker = Unpacker(answer.field(b"content-encoding") or "")
        self._reader = EventReader(event_bytes_max)
        self._begun = False
        self._silent_bytes = 0
        """How much has come since the last event."""
        self._last_told = False
        self._left = False
        self._whole: bytearray | None = None
        """A body that is no stream, as far as it has come."""

    async def events(self) -> AsyncIterator[list[bytes]]:
        """Yield the data of events in the order of their arrival, in lists of what came at once.

        A body that is a JSON text, and no stream, is yielded as one event.

        Raises:
            ProviderFailure: The connection broke, or an event is longer than allowed.
        """
        try:
            while data := await self._answer.piece():
                for number, piece in enumerate(self._unpacker.feed(data)):
                    if number:  # a few bytes may unpack to a thousand times as many
                        await asyncio.sleep(0)
                    if found := self._events_in(piece):
                        yield found
                if self._reader.too_long:
                    raise EventTooLongError
            for found in self._last_events():
                yield found
        except _BROKEN as error:
            failure = _failure(error, sent=True)
        else:
            return
        finally:
            self.close()
        raise failure

    def close(self) -> None:
        """Close the connection, at once and without waiting; harmless after the end.

        Once the last event has been told, the server may still end its reply in form.
        """
        if not self._last_told:
            self._answer.close()
        elif not self._left:
            self._left = True
            self._answer.leave(ENDING_SECONDS)

    def _events_in(self, piece: bytes) -> list[bytes]:
        if not self._begun:
            begin = piece.lstrip().removeprefix(codecs.BOM_UTF8).lstrip()
            self._begun = bool(begin)
            self._whole = bytearray() if begin.startswith(_JSON_BEGINS) else None
        if self._whole is None:
            events = self._reader.feed(piece)
            self._last_told = bool(events) and events[-1] == _LAST
            self._silent_bytes = 0 if events else self._silent_bytes + len(piece)
            if self._silent_bytes > SILENT_EVENTS * self._bytes_max:
                raise EventTooLongError
            return events
        self._whole += piece
        if len(self._whole) > self._bytes_max:
            raise BodyTooLargeError
        return []

    def _last_events(self) -> Iterator[list[bytes]]:
        for piece in self._unpacker.end():
            if found := self._events_in(piece):
                yield found
        if found := self._reader.end() if self._whole is None else [bytes(self._whole)]:
            yield found


async def _whole(answer: Answer, bytes_max: int) -> bytes:
    encoding = answer.field(b"content-encoding") or ""
    return unpacked(await answer.whole(bytes_max), encoding, bytes_max)


async def _events(answer: Answer, event_bytes_max: int) -> ServerEvents:
    return ServerEvents(answer, event_bytes_max)


async def _refusal(answer: Answer, deadline: Deadline) -> ProviderFailure:
    """Return what a reply stands for that is not accepted."""
    explanation = b""
    if answer.status in EXPLAINED:
        # The status alone must do where the body cannot be read.
        with suppress(*_BROKEN):
            explanation = await _whole(answer, EXPLANATION_BYTES_MAX)
    header = answer.field(b"retry-after")
    failure = failure_of(
        answer.status,
        explanation=explanation,
        retry_after_seconds=retry_after_seconds(header, deadline.clock.now()),
    )
    assert failure is not None, "only an accepted status is no failure"
    return failure


def _failure(error: Exception, *, sent: bool) -> ProviderFailure:
    """Tell what went wrong on the way as a failure."""
    if isinstance(error, OSError) and error.errno in _NO_FILE_LEFT:
        # The server is not at fault: this machine lets nobody be asked for now.
        return ProviderFailure(
            FailureKind.LIMIT_REACHED, retry_after_seconds=FILES_WAIT_SECONDS, sent=False
        )
    return ProviderFailure(_kind_of(error), sent=sent)


def _kind_of(error: Exception) -> FailureKind:
    match error:
        case TimeoutError(errno=None):
            return FailureKind.TIMEOUT
        case socket.gaierror() | UnicodeError():
            return FailureKind.DNS_ERROR
        case ssl.SSLCertVerificationError():
            return FailureKind.TLS_ERROR
        case NotHTTPError() | BadBodyError():
            return FailureKind.MALFORMED_RESPONSE
        case BodyTooLargeError() | EventTooLongError():
            return FailureKind.RESPONSE_TOO_LARGE
        case _:
            return FailureKind.CONNECT_ERROR


def _written(method: str, request: HTTPRequest) -> tuple[Origin, tuple[bytes, bytes]]:
    """Return where a request goes and its head and body as they go out."""
    origin, head = _head(method, request.url)
    if request.credential is not None:
        head += b"Authorization: Bearer %b\r\n" % request.credential.secret.encode("ascii")
    if request.alone:
        head += b"Connection: close\r\n"
    if method == "POST":
        head += b"Content-Type: application/json\r\nContent-Length: %d\r\n" % len(request.body)
    return origin, (head + b"\r\n", request.body)


@lru_cache(maxsize=ADDRESSES_MAX)
def _head(method: str, url: str) -> tuple[Origin, bytes]:
    """Return where an address leads and how every request to it begins."""
    parts = urlsplit(url)
    tls = parts.scheme == "https"
    origin = Origin(parts.hostname or "", parts.port or (443 if tls else 80), tls)
    head = (
        f"{method} {parts.path or '/'} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
        "Accept: application/json\r\nAccept-Encoding: identity\r\nUser-Agent: casework\r\n"
    )
    return origin, head.encode("ascii")


def _tls_context(ca_file: Path | None) -> ssl.SSLContext:
    """Make a context that verifies chain and name and writes no key log, whatever is set."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.load_default_certs()
    if ca_file is None:
        return context
    try:
        context.load_verify_locations(cafile=ca_file)
    except OSError as error:
        problem = type(error).__name__
    else:
        return context
    raise ConfigurationError(
        f"the certificates cannot be read ({problem})",
        where=f"ca_file {ca_file.name}",
        remedy="name a PEM file that holds the authority's certificate",
    )
