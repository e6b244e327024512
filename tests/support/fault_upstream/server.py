"""An OpenAI-compatible upstream on loopback that does wrong what a request asks it to.

Start it inside a test (``async with FaultUpstream() as upstream``) or by itself
(``python -m tests.support.fault_upstream --port 8081``).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.fault_upstream.chat_shapes import stream_events, whole_answer
from tests.support.fault_upstream.embedding_shapes import embeddings
from tests.support.fault_upstream.error_shapes import error_body
from tests.support.fault_upstream.faults import FaultBook, Faults
from tests.support.fault_upstream.replies import Reply
from tests.support.fault_upstream.wire import Gone, Head, Wire

MODELS: Final = ("echo", "org/name", "org/name:tag", "a model", "text-embedding-3-small")
REMEMBERED_MAX: Final = 10_000
UNTIL_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it arrived."""

    number: int
    method: str
    path: str
    """Decoded, without its query."""
    headers: Mapping[str, str]
    body: bytes
    connection: int
    at_seconds: float
    """By the monotonic clock."""

    @property
    def json(self) -> Any:
        """Return the body read as JSON."""
        return json.loads(self.body)


@dataclass(frozen=True, slots=True)
class Departure:
    """A client that left before its reply was whole."""

    request: int
    events_sent: int
    after_seconds: float
    """Since its request had arrived."""


@dataclass(slots=True)
class FaultUpstream:
    """Serves chat, embeddings and models, remembers everything, and counts."""

    port: int = 0
    """0 takes a free one."""
    models: tuple[str, ...] = MODELS
    key: str = ""
    """The only key that is let in; empty lets everybody in."""
    pause_seconds: float = 0.0
    """Between two events of a stream."""
    asked: deque[Asked] = field(default_factory=lambda: deque(maxlen=REMEMBERED_MAX))
    departures: deque[Departure] = field(default_factory=lambda: deque(maxlen=REMEMBERED_MAX))
    calls: int = 0
    """Requests under /v1, whatever became of them."""
    connections: int = 0
    """Connections ever opened."""
    open_connections: int = 0
    active: int = 0
    """Replies under way."""
    book: FaultBook = field(default_factory=FaultBook)
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _change: asyncio.Event = field(default_factory=asyncio.Event)

    async def __aenter__(self) -> Self:
        """Listen."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Wire(self._begin), "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop listening and drop every connection."""
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.wait_closed()

    @property
    def base_url(self) -> str:
        """Return the address for a provider's entry or a client."""
        return f"http://127.0.0.1:{self.port}/v1"

    def queue(self, *directives: str) -> None:
        """Say what the next requests get, in order: a directive like ``503``, or ``ok``."""
        self.book.queued.extend(directives)

    def forget(self) -> None:
        """Begin to remember and to count anew."""
        self.asked.clear()
        self.departures.clear()
        self.calls = 0
        self.book = FaultBook()

    async def until(self, predicate: Callable[[Self], bool]) -> None:
        """Wait until something holds of what was asked, counted or left.

        Raises:
            TimeoutError: It did not come to hold.
        """
        async with asyncio.timeout(UNTIL_SECONDS):
            while not predicate(self):
                self._change.clear()
                await self._change.wait()

    def _begin(self, wire: Wire) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(wire))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, wire: Wire) -> None:
        self.connections += 1
        self.open_connections += 1
        connection = self.connections
        self._change.set()
        try:
            while not wire.ended_by_us:
                await self._one(wire, connection)
        except Gone:
            pass
        finally:
            wire.close()
            self.open_connections -= 1
            self._change.set()

    async def _one(self, wire: Wire, connection: int) -> None:
        head = await wire.read_head()
        body = await wire.read_body(head)
        parts = urlsplit(head.target)
        path = unquote(parts.path)
        if path.startswith("/_double/"):
            await self._tell(wire, path, parts.query, body)
            return
        self.calls += 1
        now = time.monotonic()
        asked = Asked(self.calls, head.method, path, head.headers, body, connection, now)
        self.asked.append(asked)
        self.active += 1
        self._change.set()
        reply = Reply(wire, Faults(), f"req_double{asked.number}", self.pause_seconds)
        try:
            try:
                reply.faults = self.book.take(_readable(body))
            except ValueError as error:
                await reply.json(400, error_body(400, reply.faults, message=str(error)))
            else:
                await self._answer(reply, asked, head)
        finally:
            self.active -= 1
            if wire.gone.is_set() and not wire.ended_by_us:
                after = time.monotonic() - now
                self.departures.append(Departure(asked.number, reply.events_sent, after))
            self._change.set()

    async def _answer(self, reply: Reply, asked: Asked, head: Head) -> None:
        if not await reply.before_head():
            return
        if reply.faults.status is not None:
            status = reply.faults.status
            await reply.json(status, error_body(status, reply.faults))
        elif self.key and head.headers.get("authorization") != f"Bearer {self.key}":
            await reply.json(401, error_body(401, reply.faults))
        elif asked.method == "GET":
            await self._models(reply, asked.path)
        else:
            await self._made(reply, asked)

    async def _models(self, reply: Reply, path: str) -> None:
        known = [
            {"id": name, "object": "model", "created": 1_700_000_000, "owned_by": "double"}
            for name in self.models
        ]
        if path == "/v1/models":
            await reply.json(200, {"object": "list", "data": known})
            return
        wanted = path.removeprefix("/v1/models/")
        found = next((model for model in known if model["id"] == wanted), None)
        if found is None:
            await reply.json(404, error_body(404, reply.faults, message="no such model"))
        else:
            await reply.json(200, found)

    async def _made(self, reply: Reply, asked: Asked) -> None:
        try:
            request = asked.json
        except ValueError:
            request = None
        wanted = {"/v1/chat/completions": "messages", "/v1/embeddings": "input"}.get(asked.path)
        if wanted is None:
            await reply.json(404, error_body(404, reply.faults, message="no such path"))
            return
        if not isinstance(request, dict) or not request.get("model") or not request.get(wanted):
            message = f"You must provide a model and {wanted}."
            await reply.json(400, error_body(400, reply.faults, message=message))
            return
        stream = wanted == "messages" and request.get("stream") and "json" not in reply.faults
        make = whole_answer if wanted == "messages" else embeddings
        try:
            if stream:
                events = stream_events(request, asked.number, reply.faults)
            else:
                body = make(request, asked.number, reply.faults)
        except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
            message = f"The request makes no sense: {error!r}."
            await reply.json(400, error_body(400, reply.faults, message=message))
            return
        await (reply.stream(events) if stream else reply.json(200, body))

    async def _tell(self, wire: Wire, path: str, query: str, body: bytes) -> None:
        """Answer another process: what was asked so far, or what comes next."""
        if path == "/_double/queue":
            self.queue(*json.loads(body))
        elif path == "/_double/forget":
            self.forget()
        else:
            wanted = {name: int(value[0]) for name, value in parse_qs(query).items()}
            await self.until(lambda one: _reached(one.state(), wanted))
        await Reply(wire, Faults(), "", 0).json(200, self.state())

    def state(self) -> dict[str, Any]:
        """Return everything counted and remembered, as JSON."""
        return {
            "calls": self.calls,
            "connections": self.connections,
            "open_connections": self.open_connections,
            "active": self.active,
            "departures": [
                {
                    "request": each.request,
                    "events_sent": each.events_sent,
                    "after_seconds": each.after_seconds,
                }
                for each in self.departures
            ],
            "asked": [
                {
                    "method": each.method,
                    "path": each.path,
                    "headers": dict(each.headers),
                    "body": each.body.decode("utf-8", "replace"),
                    "connection": each.connection,
                }
                for each in self.asked
            ],
        }


def _readable(body: bytes) -> str:
    """Return a body's text, with the characters that JSON may have escaped."""
    return body.decode("utf-8", "replace").replace("\\/", "/")


def _reached(state: Mapping[str, Any], wanted: Mapping[str, int]) -> bool:
    """Tell whether each count wanted is reached; ``idle=1`` wants no reply under way."""
    counts = {name: len(v) if isinstance(v, list) else v for name, v in state.items()}
    counts["idle"] = int(state["active"] == 0)
    return all(counts[name] >= count for name, count in wanted.items())
