"""One POST over HTTP, and never a second: the door to the HTTP client.

No redirect is followed, no proxy of the environment used, no cookie kept, no request sent again.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast
from weakref import WeakKeyDictionary

from casework.errors import ConfigurationError
from casework.gateway.clock import Deadline
from casework.gateway.content_encodings import (
    BadBodyError,
    BodyTooLargeError,
    Unpacker,
    unpacked,
)
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.http_replies import (
    ACCEPTED,
    EXPLAINED,
    EXPLANATION_BYTES_MAX,
    failure_of,
    retry_after_seconds,
)
from casework.gateway.messages import Credential
from casework.gateway.sse import EventReader, EventTooLongError

if TYPE_CHECKING:
    import aiohttp

CONNECTIONS_MAX: Final = 100
LOCALHOST: Final = ("127.0.0.1", "::1")

_JSON_BEGINS: Final = b"{["
"""No field of a stream has a name that begins so."""

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class HTTPRequest:
    """One request to be sent once."""

    url: str = field(repr=False)
    body: bytes = field(repr=False)
    """JSON."""
    credential: Credential | None
    response_bytes_max: int
    """Longest body that is read, packed and unpacked."""


@dataclass(slots=True)
class _Progress:
    """How far one request came."""

    sent: bool = False
    """A connection stood, so that bytes may have been written to it."""


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
        self._sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, aiohttp.ClientSession] = (
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
        progress = _Progress()

        async def whole() -> bytes:
            response = await self._answered(request, progress)
            try:
                await _judge_status(response, deadline)
                body = await _body(response, request.response_bytes_max)
            except BaseException:
                response.close()
                raise
            response.release()
            return body

        return await _classified(whole, progress, deadline)

    async def open_stream(self, request: HTTPRequest, *, deadline: Deadline) -> ServerEvents:
        """Send one request and return the events of an accepted reply, none of them read yet.

        The deadline covers everything up to the last header. Cancelling closes the connection;
        afterwards whoever has the stream closes it.

        Raises:
            ProviderFailure: See :meth:`post_json`.
        """
        progress = _Progress()

        async def begun() -> ServerEvents:
            response = await self._answered(request, progress)
            try:
                await _judge_status(response, deadline)
                return ServerEvents(response, request.response_bytes_max)
            except BaseException:
                response.close()
                raise

        return await _classified(begun, progress, deadline)

    async def aclose(self) -> None:
        """Close the connections of the running loop."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()

    async def _answered(self, request: HTTPRequest, progress: _Progress) -> aiohttp.ClientResponse:
        headers = {
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            "Content-Type": "application/json",
            "User-Agent": "casework",
        }
        if request.credential is not None:
            headers["Authorization"] = f"Bearer {request.credential.secret}"
        # Twice round the loop, so that a close which has already arrived is seen before a kept
        # connection is chosen; nothing that was written is ever written again.
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return await self._session().post(
            request.url,
            data=request.body,
            headers=headers,
            allow_redirects=False,
            ssl=self._verifying() if request.url.startswith("https:") else True,
            trace_request_ctx=progress,
        )

    def _session(self) -> aiohttp.ClientSession:
        loop = asyncio.get_running_loop()
        session = self._sessions.get(loop)
        if session is None:
            session = self._sessions[loop] = _new_session()
        return session

    def _verifying(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = _tls_context(self._ca_file)
        return self._tls


class ServerEvents:
    """The events of one accepted reply."""

    def __init__(self, response: aiohttp.ClientResponse, event_bytes_max: int) -> None:
        self.dropped: tuple[str, ...] = ()
        self._response = response
        self._bytes_max = event_bytes_max
        self._unpacker = Unpacker(_encoding(response))

    async def events(self) -> AsyncIterator[list[bytes]]:
        """Yield the data of events in the order of their arrival, in lists of what came at once.

        A body that is a JSON text, and no stream, is yielded as one event.

        Raises:
            ProviderFailure: The connection broke, or an event is longer than allowed.
        """
        reader = EventReader(self._bytes_max)
        whole: bytearray | None = None
        begun = False
        failure = None
        try:
            async for piece in self._pieces():
                if not begun and (piece := piece.lstrip()):
                    begun = True
                    whole = bytearray() if piece[0] in _JSON_BEGINS else None
                if whole is not None:
                    whole += piece
                    if len(whole) > self._bytes_max:
                        raise EventTooLongError  # noqa: TRY301 - told below like any other
                elif found := reader.feed(piece):
                    yield found
            if found := [bytes(whole)] if whole is not None else reader.end():
                yield found
        except EventTooLongError:
            failure = ProviderFailure(FailureKind.RESPONSE_TOO_LARGE)
        finally:
            self.close()
        if failure is not None:
            raise failure

    def close(self) -> None:
        """Close the connection, at once and without waiting; harmless after the end."""
        self._response.close()

    async def _pieces(self) -> AsyncIterator[bytes]:
        import aiohttp  # noqa: PLC0415 - loaded already

        failure = None
        try:
            async for chunk in self._response.content.iter_any():
                for piece in self._unpacker.feed(chunk):
                    yield piece
            for piece in self._unpacker.end():
                yield piece
        except (aiohttp.ClientError, OSError):
            failure = ProviderFailure(FailureKind.CONNECT_ERROR)
        except BadBodyError:
            failure = ProviderFailure(FailureKind.MALFORMED_RESPONSE)
        if failure is not None:
            raise failure


async def _classified(
    act: Callable[[], Awaitable[_Result]], progress: _Progress, deadline: Deadline
) -> _Result:
    """Do something within the deadline, and tell whatever goes wrong as a failure."""
    import aiohttp  # noqa: PLC0415 - takes 0.14 s, and only those who go out need it

    failure: ProviderFailure
    try:
        async with asyncio.timeout(deadline.remaining()):
            return await act()
    except TimeoutError:
        failure = ProviderFailure(FailureKind.TIMEOUT, sent=progress.sent)
    except aiohttp.ClientConnectorDNSError:
        failure = ProviderFailure(FailureKind.DNS_ERROR, sent=progress.sent)
    except (aiohttp.ClientConnectorCertificateError, ssl.SSLCertVerificationError):
        failure = ProviderFailure(FailureKind.TLS_ERROR, sent=progress.sent)
    except (aiohttp.ClientResponseError, BadBodyError):
        failure = ProviderFailure(FailureKind.MALFORMED_RESPONSE)
    except BodyTooLargeError:
        failure = ProviderFailure(FailureKind.RESPONSE_TOO_LARGE)
    except (aiohttp.ClientError, OSError):
        failure = ProviderFailure(FailureKind.CONNECT_ERROR, sent=progress.sent)
    # Raised out here, where the client's error, which holds the address, is no longer at hand.
    raise failure


async def _judge_status(response: aiohttp.ClientResponse, deadline: Deadline) -> None:
    """Raise what a reply stands for that is not accepted."""
    status = response.status
    if status in ACCEPTED:
        return
    explanation = b""
    if status in EXPLAINED:
        explanation = await _explanation(response)
    header = response.headers.get("Retry-After")
    failure = failure_of(
        status,
        explanation=explanation,
        retry_after_seconds=retry_after_seconds(header, deadline.clock.now()),
    )
    assert failure is not None, "only an accepted status is no failure"
    raise failure


async def _explanation(response: aiohttp.ClientResponse) -> bytes:
    """Read what an error's body says; the status alone must do where it cannot be read."""
    import aiohttp  # noqa: PLC0415 - loaded already

    try:
        return await _body(response, EXPLANATION_BYTES_MAX)
    except (aiohttp.ClientError, OSError, BadBodyError, BodyTooLargeError):
        return b""


async def _body(response: aiohttp.ClientResponse, bytes_max: int) -> bytes:
    """Read a body, giving up at the first byte too many."""
    if (response.content_length or 0) > bytes_max:
        raise BodyTooLargeError
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > bytes_max:
            raise BodyTooLargeError
    return unpacked(bytes(body), _encoding(response), bytes_max)


def _encoding(response: aiohttp.ClientResponse) -> str:
    return ",".join(response.headers.getall("Content-Encoding", ()))


def _tls_context(ca_file: Path | None) -> ssl.SSLContext:
    """Make a context that verifies chain and name and writes no key log, whatever is set."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
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


def _new_session() -> aiohttp.ClientSession:
    import aiohttp  # noqa: PLC0415 - see post_json

    async def connected(_session: object, context: Any, _details: object) -> None:
        cast("_Progress", context.trace_request_ctx).sent = True

    trace = aiohttp.TraceConfig()
    trace.on_connection_create_end.append(connected)
    # Each call has a connection of its own: what a server says unasked on an idle one would be
    # taken for the answer to the next call, perhaps about another document.
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(
            limit=CONNECTIONS_MAX, force_close=True, resolver=_resolver()
        ),
        timeout=aiohttp.ClientTimeout(total=None),
        cookie_jar=_no_cookies(),
        auto_decompress=False,
        trust_env=False,
        trace_configs=[trace],
    )


def _no_cookies() -> aiohttp.abc.AbstractCookieJar:
    """Make a jar that does not even read what it is given, since reading logs what is odd."""
    from aiohttp import DummyCookieJar  # noqa: PLC0415 - see post_json

    class NoCookies(DummyCookieJar):
        def update_cookies_from_headers(self, headers: object, response_url: object) -> None:
            del headers, response_url

    return NoCookies()


def _resolver() -> aiohttp.abc.AbstractResolver:
    """Make a resolver that asks nobody what ``localhost`` is."""
    from aiohttp.abc import AbstractResolver, ResolveResult  # noqa: PLC0415 - see post_json
    from aiohttp.resolver import ThreadedResolver  # noqa: PLC0415 - see post_json

    class Resolver(AbstractResolver):
        def __init__(self) -> None:
            self._system = ThreadedResolver()

        async def resolve(
            self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
        ) -> list[ResolveResult]:
            if host.lower() != "localhost":
                return await self._system.resolve(host, port, family)
            return [
                ResolveResult(
                    hostname=host,
                    host=address,
                    port=port,
                    family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                    proto=0,
                    flags=socket.AI_NUMERICHOST,
                )
                for address in LOCALHOST
            ]

        async def close(self) -> None:
            await self._system.close()

    return Resolver()
