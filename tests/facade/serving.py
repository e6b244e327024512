"""The whole facade behind a real server in this very process, and a client that reads bytes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from casework.config.gateway_config import GatewayConfig
from casework.facade.app import create_app
from casework.facade.client_keys import ClientKeys
from casework.facade.client_limits import ClientLimits
from casework.facade.durable_calls import DurableCalls
from casework.facade.endpoint import Door
from casework.facade.open_requests import OpenRequests
from casework.facade.request_line import RequestLine
from casework.gateway.call_gate import CallGate
from casework.gateway.clock import Clock, SystemClock
from casework.gateway.llm_gateway import LLMGateway
from casework.gateway.providers.provider import ProviderFactory
from casework.runtime.http.server import Address, HTTPServer
from casework.runtime.run.interruption import Interruption

HELLO = {"model": "auto", "messages": [{"role": "user", "content": "Hello."}]}


@dataclass(frozen=True, slots=True)
class Told:
    """A reply as it arrived."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """Return the body read as JSON."""
        return json.loads(self.body)

    @property
    def code(self) -> Any:
        """Return the stable code of an error body."""
        return self.json["error"]["code"]

    @property
    def events(self) -> list[Any]:
        """Return the events of a stream: JSON values, and ``[DONE]`` as a text."""
        blocks = self.body.decode().split("\n\n")
        data = [block.removeprefix("data: ") for block in blocks if block.startswith("data: ")]
        return [one if one == "[DONE]" else json.loads(one) for one in data]

    @property
    def text(self) -> str:
        """Return the text of a stream's first choice."""
        chunks = [one for one in self.events if one != "[DONE]" and one.get("choices")]
        return "".join(one["choices"][0]["delta"].get("content") or "" for one in chunks)


@dataclass(slots=True)
class Facade:
    """A facade that is up."""

    url: str
    gateway: LLMGateway
    open_requests: OpenRequests
    interruption: Interruption
    session: aiohttp.ClientSession
    lines: list[RequestLine] = field(default_factory=list)
    """The request log."""

    async def post(self, path: str, body: object, headers: Mapping[str, str] | None = None) -> Told:
        """Send a value as JSON, or bytes as they are, and return the whole reply."""
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        async with self.session.post(self.url + path, data=content, headers=headers) as reply:
            return Told(reply.status, reply.headers, await reply.read())

    async def chat(self, headers: Mapping[str, str] | None = None, /, **changes: object) -> Told:
        """Ask for a chat answer, whole or streamed."""
        return await self.post("/v1/chat/completions", {**HELLO, **changes}, headers)

    async def say(self, text: str, /, **changes: object) -> Told:
        """Ask with this text, which may hold directives for the upstream."""
        return await self.chat(messages=[{"role": "user", "content": text}], **changes)

    async def get(self, path: str, headers: Mapping[str, str] | None = None) -> Told:
        """Get a path."""
        async with self.session.get(self.url + path, headers=headers) as reply:
            return Told(reply.status, reply.headers, await reply.read())

    async def settled(self) -> None:
        """Wait until no request is open."""
        async with asyncio.timeout(20):
            while self.open_requests.count:  # noqa: ASYNC110 - nothing of the product tells it
                await asyncio.sleep(0)


def provider(name: str, base_url: str, extra: str = "") -> str:
    """Return the entry of a provider."""
    return (
        f'[[providers]]\nid = "{name}"\nadapter = "openai_compatible"\n'
        f'base_url = "{base_url}"\nmodel = "echo"\n{extra}\n'
    )


@asynccontextmanager
async def facade(
    settings: str,
    folder: Path,
    *,
    environ: Mapping[str, str] | None = None,
    gate: CallGate | None = None,
    durable: DurableCalls | None = None,
    adapters: Mapping[str, ProviderFactory] | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[Facade]:
    """Serve these settings on a free port until the context ends.

    Args:
        settings: The configuration.
        folder: Where the file of client keys would lie.
        environ: Where keys are looked up.
        gate: What lets calls through.
        durable: Who keeps calls.
        adapters: Further ones, by name.
        clock: The time; the machine's by default.
    """
    clock = clock or SystemClock()
    config = GatewayConfig.parse(settings)
    gateway = LLMGateway(config, adapters=adapters, clock=clock, environ=environ or {}, gate=gate)
    open_requests = OpenRequests(config.serve.connections_max)
    lines: list[RequestLine] = []
    keys = ClientKeys(folder / "client_keys.json", environ or {}, clock=clock)
    door = Door(keys, ClientLimits(clock), open_requests, lines.append, clock)
    listening = Address("127.0.0.1", 0).bound()
    started, interruption = asyncio.Event(), Interruption()
    server = HTTPServer(
        create_app(gateway, door, durable=durable),
        listening,
        on_start=started.set,
        on_stop=lambda: open_requests.begin_shutdown(config.serve.shutdown_seconds),
        on_leave=open_requests.end_all,
        stop_seconds=config.serve.shutdown_seconds,
    )
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    async with gateway, aiohttp.ClientSession() as session:
        serving = asyncio.ensure_future(server.serve(interruption))
        await started.wait()
        try:
            yield Facade(url, gateway, open_requests, interruption, session, lines)
        finally:
            await session.close()
            interruption.press()
            await serving
