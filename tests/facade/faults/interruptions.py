"""Requests cut short at each of their awaits, one after another, in virtual time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from casework.checkpoints.store import CheckpointStore
from casework.config.gateway_config import GatewayConfig
from casework.facade.chat_route import ChatRoute
from casework.facade.client_keys import ClientKeys
from casework.facade.client_limits import ClientLimits, Entered
from casework.facade.embeddings_route import EmbeddingsRoute
from casework.facade.endpoint import Door, Endpoint
from casework.facade.open_requests import OpenRequests
from casework.facade.presence import Ended
from casework.facade.request_line import RequestLine
from casework.gateway.connection_pool import CONNECTIONS_MAX
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.health import Probe
from casework.gateway.llm_gateway import LLMGateway
from casework.gateway.outcomes import Resting
from casework.gateway.providers.openai_compatible import OpenAICompatibleProvider
from casework.gateway.providers.scripted import ScriptedProvider, Step
from casework.runner.case_runner import CaseLLMRunner
from casework.runtime.http.durable_calls import PackagedCalls
from casework.runtime.line.line_gate import LineGate
from casework.runtime.line.line_state import LineState
from casework.runtime.run.disk_threads import DiskThreads
from tests.facade.faults.stage import CHAT, EMBEDDINGS
from tests.simulation.virtual_loop import VirtualClock, VirtualLoop
from tests.support.fault_upstream.server import FaultUpstream
from tests.support.key_files import key_entry, key_file

PROVIDERS: Final = ("near", "far")
SERVED: Final = """
[interactive]
max_retries = 2
keepalive_seconds = 1.0
first_keepalive_seconds = 2.0
[breaker]
failures = 3
"""
PLAYED: Final = """
[[providers]]
id = "{id}"
adapter = "{adapter}"
model = "echo"
base_url = "{url}"
limits = {{ max_concurrency = 1 }}
"""
NOWHERE: Final = "http://127.0.0.1:9/v1"
KEY: Final = b"Bearer cw-web"
LATER_SECONDS: Final = 30.0
"""By then everything has ended that was cut short."""

Cut = Callable[["Scene"], None]
"""What happens to a request in the middle."""
Asking = Callable[["Scene"], Coroutine[Any, Any, None]]
"""A request."""


class BrokenError(Exception):
    """The server could not send a piece."""


class _Watched(Coroutine[Any, Any, Any]):
    """A coroutine that calls something whenever it waits."""

    def __init__(self, work: Coroutine[Any, Any, Any], at_await: Callable[[], None]) -> None:
        self._work = work
        self._at_await = at_await

    def __await__(self) -> Generator[Any, Any, Any]:
        """Return what tasks never ask for."""
        return self._work.__await__()

    def send(self, value: Any) -> Any:
        """Go on to the next await."""
        waits_for = self._work.send(value)
        self._at_await()
        return waits_for

    def throw(self, *error: Any) -> Any:
        """Go on with an error."""
        waits_for = self._work.throw(*error)
        self._at_await()
        return waits_for

    def close(self) -> None:
        """End it."""
        self._work.close()


@dataclass(slots=True)
class Scene:
    """One request, whatever it is made of, in a service of its own."""

    steps: Mapping[str, tuple[Step, ...]]
    """What each provider plays, where none is a server."""
    clock: VirtualClock
    folder: Path
    kept: bool = False
    urls: Mapping[str, str] = field(default_factory=dict)
    """Where the providers are, if they are servers."""
    left: asyncio.Event = field(default_factory=asyncio.Event)
    sent: list[Mapping[str, Any]] = field(default_factory=list)
    lines: list[RequestLine] = field(default_factory=list)
    providers: dict[str, ScriptedProvider] = field(default_factory=dict)
    awaits: int = 0
    """How often anything has waited."""
    task: asyncio.Task[None] | None = None
    send_breaks_at: int | None = None
    """From which piece on the connection is broken."""
    gateway: LLMGateway = field(init=False)
    gate: LineGate = field(init=False)
    state: LineState = field(init=False)
    open_requests: OpenRequests = field(init=False)
    limits: ClientLimits = field(init=False)
    keys: ClientKeys = field(init=False)
    endpoints: dict[str, Endpoint] = field(init=False)

    def __post_init__(self) -> None:
        adapter = "openai_compatible" if self.urls else "played"
        entries = [
            PLAYED.format(id=name, adapter=adapter, url=self.urls.get(name, NOWHERE))
            for name in PROVIDERS
        ]
        config = GatewayConfig.parse(SERVED + "".join(entries))
        self.state = LineState(None)
        self.gate = LineGate(self.state, self.clock)
        for name, steps in self.steps.items():
            self.providers[name] = ScriptedProvider(steps, clock=self.clock)
        self.gateway = LLMGateway(
            config,
            adapters={"played": lambda entry: self.providers[entry.id]},
            clock=self.clock,
            gate=self.gate,
            chance=lambda: 0.5,
        )
        key_file(self.folder, key_entry("web", "cw-web", concurrency_max=1))
        self.keys = ClientKeys(self.folder / "client_keys.json", {}, clock=self.clock)
        self.limits = ClientLimits(self.clock)
        self.open_requests = OpenRequests(10)
        door = Door(self.keys, self.limits, self.open_requests, self.lines.append, self.clock)
        durable = self._durable() if self.kept else None
        chat = ChatRoute(self.gateway, self.open_requests, durable)
        embeddings = EmbeddingsRoute(self.gateway, self.open_requests)
        self.endpoints = {
            path: Endpoint(door, work, name=path)
            for path, work in ((CHAT, chat.serve), (EMBEDDINGS, embeddings.serve))
        }

    def _durable(self) -> PackagedCalls:
        store = CheckpointStore(self.folder / "runtime", now=self.clock.now)
        threads = DiskThreads(1)
        runner = CaseLLMRunner(
            store, self.gateway, executor=threads.ending, opening=threads.beginning
        )
        return PackagedCalls(
            store,
            runner,
            self.gateway.interactive,
            threads=threads,
            clock=self.clock,
            deadline_seconds=self.gateway.config.interactive.deadline_seconds,
        )

    async def ask(self, path: str, body: object, headers: Mapping[bytes, bytes]) -> None:
        """Make the request, as a server would."""
        content = json.dumps(body).encode()
        pieces = [content[:20], content[20:]]
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(b"authorization", KEY), *headers.items()],
        }

        async def receive() -> Mapping[str, Any]:
            await asyncio.sleep(0)
            if pieces and not self.left.is_set():
                piece = pieces.pop(0)
                return {"type": "http.request", "body": piece, "more_body": bool(pieces)}
            await self.left.wait()
            return {"type": "http.disconnect"}

        async def send(message: Mapping[str, Any]) -> None:
            await asyncio.sleep(0)
            if len(self.sent) == self.send_breaks_at:
                raise BrokenError
            self.sent.append(message)

        await self.endpoints[path](scope, receive, send)

    @property
    def status(self) -> int:
        """Return the status of the reply; 0 where none was begun."""
        return self.sent[0]["status"] if self.sent else 0

    @property
    def body(self) -> bytes:
        """Return what was sent so far."""
        return b"".join(message.get("body", b"") for message in self.sent[1:])

    @property
    def whole(self) -> bool:
        """Tell whether the reply came to its end."""
        return len(self.sent) > 1 and not self.sent[-1].get("more_body")


@dataclass(frozen=True, slots=True, kw_only=True)
class Interruption:
    """What is done to a request, and when."""

    cut: Cut | None = None
    at: int = 0
    """At which await, counted over all tasks from 1."""
    send_breaks_at: int | None = None
    """Which piece of the reply, from 0, meets a broken connection."""


UNDISTURBED: Final = Interruption()


def play(
    scene: Callable[[VirtualClock], Scene],
    asking: Asking,
    interruption: Interruption = UNDISTURBED,
) -> Scene:
    """Play a request to its end, and look that nothing is left behind.

    Args:
        scene: Makes the service; a call to its last provider is a probe.
        asking: The request.
        interruption: What happens to it.
    """
    clock = VirtualClock()
    loop = VirtualLoop(clock)

    async def main() -> Scene:
        played = scene(clock)
        await _played(played, asking, interruption)
        assert {asyncio.current_task()} == asyncio.all_tasks()
        return played

    with closing(loop):
        return loop.run_until_complete(main())


def play_over_http(
    folder: Path, faults: str, asking: Asking, interruption: Interruption = UNDISTURBED
) -> Scene:
    """Play a request to its end before a server that fails, and look that no socket is left."""
    clock = VirtualClock()
    loop = VirtualLoop(clock)

    async def main() -> Scene:
        async with FaultUpstream() as near, FaultUpstream() as far:
            near.queue(*faults.split(","))
            urls = {"near": near.base_url, "far": far.base_url}
            played = Scene({}, clock, folder, urls=urls)
            await _played(played, asking, interruption)
            assert (0, 0) == (near.active, far.active)
            _look_at_sockets(played.gateway)
            await played.gateway.aclose()
            for upstream in (near, far):
                await upstream.until(lambda one: one.open_connections == 0)
        assert {asyncio.current_task()} == asyncio.all_tasks()
        return played

    with closing(loop):
        return loop.run_until_complete(main())


def _look_at_sockets(gateway: LLMGateway) -> None:
    """Find every place of every pool free."""
    for adapter in gateway._adapters.values():
        assert isinstance(adapter, OpenAICompatibleProvider)
        for pool in adapter._transport._pools.values():
            assert CONNECTIONS_MAX == pool._slots._value


async def _played(played: Scene, asking: Asking, interruption: Interruption) -> None:
    loop = asyncio.get_running_loop()
    played.send_breaks_at = interruption.send_breaks_at

    def at_await() -> None:
        played.awaits += 1
        if played.awaits == interruption.at and interruption.cut is not None:
            interruption.cut(played)

    def watched(
        loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **named: Any
    ) -> asyncio.Task[Any]:
        return asyncio.Task(_Watched(work, at_await), loop=loop, **named)

    with closing(played.state):
        _let_rest(played, PROVIDERS[-1])
        loop.set_task_factory(watched)  # type: ignore[arg-type]
        played.task = asyncio.ensure_future(asking(played))
        await asyncio.wait({played.task})
        if not played.task.cancelled():
            failure = played.task.exception()
            assert failure is None or isinstance(failure, BrokenError)
        loop.set_task_factory(None)
        await played.clock.sleep(LATER_SECONDS)
        await _look(played)


def _let_rest(played: Scene, name: str) -> None:
    """Open a breaker and let its time pass, so that the next call is its probe."""
    for _ in range(played.gateway.config.breaker.failures):
        played.gateway.health.failed(
            name, None, "echo", failure=ProviderFailure(FailureKind.HTTP_5XX)
        )
    played.clock.advance(played.gateway.config.breaker.open_seconds)


async def _look(played: Scene) -> None:
    """Find every place free, every stream closed, and one line in the log."""
    assert 0 == played.open_requests.count
    assert set() == played.open_requests._present
    client = played.keys.identify(KEY)
    assert client is not None
    entered = played.limits.enter(client)
    assert isinstance(entered, Entered)
    async with asyncio.timeout(0.5):
        for provider in played.gateway.config.providers:
            async with played.gate.call(provider) as limit:
                assert limit is None
    batcher = played.gateway.interactive._batcher
    assert ({}, 0) == (batcher._waiting, batcher._inputs_waiting)
    opened = [stream for one in played.providers.values() for stream in one.streams]
    assert [] == [stream for stream in opened if not stream.closed]
    assert 1 == len(played.lines)
    starts = [message for message in played.sent if message["type"] == "http.response.start"]
    assert starts == played.sent[:1]
    assert 1 >= played.body.count(b'data: {"error"')


def free_to_probe(played: Scene, name: str) -> bool:
    """Tell whether the next call to a provider would be let through, without waiting."""
    admitted = played.gateway.health.admit(name, None, "echo")
    if isinstance(admitted, Probe):
        played.gateway.health.abandoned(name, admitted)
    return not isinstance(admitted, Resting)


def cancelled(played: Scene) -> None:
    """Let the server cancel the request, as it does when its time to end is over."""
    assert played.task is not None
    played.task.cancel()


def client_left(played: Scene) -> None:
    """Let the client leave."""
    played.left.set()


def shut_down(played: Scene) -> None:
    """Let the service end at once."""
    played.open_requests.begin_shutdown(0.0)


def stalled(played: Scene) -> None:
    """Let the client be ended as one that takes nothing."""
    for one in tuple(played.open_requests._present):
        one.end(Ended.CLIENT_STALLED)


CUTS: Final[Mapping[str, Cut]] = {
    "cancelled by the server": cancelled,
    "the client left": client_left,
    "the service ends": shut_down,
    "the client takes nothing": stalled,
}
