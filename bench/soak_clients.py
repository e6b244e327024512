"""Clients of every kind for a service that is watched for long: those that stay, and that leave."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import aiohttp

from bench.gateway_load import chat_body
from bench.gateway_processes import (
    CASEWORK,
    HOST,
    free_ports,
    make_project,
    resident_mib,
    running,
    upstream_command,
    wait_until_ready,
)

ALIASES = {"mix": ["shaky", "steady"], "steady": ["steady"], "slow": ["slow"], "paced": ["paced"]}
TOKENS, CHUNKS = 180, 16
REQUEST_SECONDS = 60.0
LEAVES_WITHIN_SECONDS = 0.15


@dataclass(frozen=True, slots=True)
class Service:
    """A service that runs, and how it is reached."""

    pid: int
    port: int
    project: Path
    headers: Mapping[str, str]

    @property
    def url(self) -> str:
        """Return where it is."""
        return f"http://{HOST}:{self.port}"

    def use(self) -> tuple[float, int]:
        """Return its resident memory in MiB, and how many files it has open."""
        return resident_mib(self.pid), len(list(Path(f"/proc/{self.pid}/fd").iterdir()))


@contextmanager
def service(project: Path, *, fault_every: int) -> Iterator[Service]:
    """Run a mock provider that fails at times, and ``casework serve`` before it."""
    steady, shaky, slow, paced, port = free_ports(5)
    providers = {"steady": steady, "shaky": shaky, "slow": slow, "paced": paced}
    key = make_project(project, providers, ALIASES)
    manners = [
        str(steady),
        f"{shaky}:fault_every={fault_every}",
        f"{slow}:wait_ms=200",
        f"{paced}:gap_ms=20",
    ]
    serve = [CASEWORK, "serve", "--quiet", "--project", str(project), "--port", str(port)]
    with (
        running(upstream_command(*manners), None) as upstream,
        running(serve, None, env={"BENCH_UPSTREAM_KEY": "sk-upstream"}) as process,
    ):
        wait_until_ready(upstream, steady, "/v1/models")
        wait_until_ready(process, port, "/readyz")
        yield Service(process.pid, port, project, {"authorization": f"Bearer {key}"})


@dataclass(slots=True)
class Tally:
    """What clients were told, and what the service used meanwhile."""

    told: Counter[str] = field(default_factory=Counter)
    """By kind of request and what came of it."""
    open: int = 0
    """Requests whose answers belong here and have not come yet."""
    all_told: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while none is open."""
    resident_mib: list[float] = field(default_factory=list)
    files: list[int] = field(default_factory=list)

    def note(self, kind: str, told: str) -> None:
        """Take note of what came of one request."""
        self.told[f"{kind} {told}"] += 1

    def look(self, watched: Service) -> None:
        """Look once at what the service uses."""
        resident, files = watched.use()
        self.resident_mib.append(resident)
        self.files.append(files)

    def quarters(self) -> list[float]:
        """Return the median resident memory of each quarter of the looks."""
        size = max(len(self.resident_mib) // 4, 1)
        return [median(self.resident_mib[at * size :][:size] or [0.0]) for at in range(4)]

    def lines(self) -> Iterator[str]:
        """Yield what clients were told, a line for each kind."""
        for kind in sorted({told.partition(" ")[0] for told in self.told}):
            of_kind = {told: count for told, count in self.told.items() if told.startswith(kind)}
            parts = (f"{told.partition(' ')[2]} {count:,}" for told, count in of_kind.items())
            yield f"  {kind}: " + ", ".join(sorted(parts))


class Clients:
    """Asks for answers of every kind.

    Args:
        session: Carries the requests.
        watched: Whom they ask.
        tally: Where they note what they are told of requests that begin from now on.
        chance: What is drawn from.
    """

    def __init__(
        self, session: aiohttp.ClientSession, watched: Service, tally: Tally, chance: random.Random
    ) -> None:
        self._session = session
        self._watched = watched
        self.tally = tally
        self._chance = chance
        self._mix: list[tuple[float, Callable[[Tally], Awaitable[None]]]] = [
            (0.01, self.leaving),
            (0.10, self.embedding),
            (0.25, self.stream),
            (1.0, self.whole),
        ]

    async def any(self) -> None:
        """Make a request of some kind; what goes wrong is noted, and nothing is raised."""
        drawn = self._chance.random()
        kind = next(kind for below, kind in self._mix if drawn < below)
        with self._noted() as tally:
            try:
                await kind(tally)
            except (aiohttp.ClientError, TimeoutError) as error:
                tally.note(kind.__name__, type(error).__name__)

    async def whole(self, tally: Tally, model: str = "mix") -> None:
        """Ask for a whole answer."""
        async with self._post("chat/completions", chat_body(model, tokens=TOKENS)) as reply:
            await reply.read()
            tally.note("whole", str(reply.status))

    async def stream(self, tally: Tally) -> None:
        """Ask for a stream and read it to its end."""
        body = chat_body("mix", tokens=CHUNKS, stream=True)
        async with self._post("chat/completions", body) as reply:
            text = await reply.read()
        if reply.status != 200:
            tally.note("stream", str(reply.status))
        elif text.endswith(b"data: [DONE]\n\n"):
            tally.note("stream", "whole")
        else:
            tally.note("stream", "broken off, told" if b'"error"' in text else "broken off, untold")

    async def embedding(self, tally: Tally) -> None:
        """Ask for the vectors of some texts."""
        texts = [f"text {self._chance.random()}" for _ in range(self._chance.randint(1, 3))]
        async with self._post("embeddings", {"model": "mix", "input": texts}) as reply:
            found = await reply.json()
            whole = reply.status == 200 and len(found["data"]) == len(texts)
            tally.note("embedding", "whole" if whole else str(reply.status))

    async def leaving(self, tally: Tally) -> None:
        """Leave: before anything has come, or in the midst of a stream."""
        if self._chance.random() < 0.5:
            try:
                async with asyncio.timeout(self._chance.random() * LEAVES_WITHIN_SECONDS):
                    await self.whole(tally, "slow")
            except TimeoutError:
                tally.note("leaving", "before an answer")
            return
        body = chat_body("paced", tokens=CHUNKS, stream=True)
        async with self._post("chat/completions", body) as reply:
            await reply.content.readany()
            reply.close()
        tally.note("leaving", "in a stream")

    async def kept(self, key: str) -> int:
        """Make a call that is kept under a key, and return the status."""
        headers = {"Idempotency-Key": key}
        body = chat_body("steady", tokens=TOKENS)
        with self._noted() as tally:
            async with self._post("chat/completions", body, headers) as reply:
                found = await reply.json()
                code = "" if reply.status == 200 else f" {found['error']['code']}"
                tally.note("kept", f"{reply.status}{code}")
                return reply.status

    @contextmanager
    def _noted(self) -> Iterator[Tally]:
        """Give the tally that a request belongs to from its beginning to its end."""
        tally = self.tally
        tally.open += 1
        tally.all_told.clear()
        try:
            yield tally
        finally:
            tally.open -= 1
            if not tally.open:
                tally.all_told.set()

    def _post(
        self, path: str, body: object, headers: Mapping[str, str] | None = None
    ) -> aiohttp.client._RequestContextManager:
        headers = {**self._watched.headers, **(headers or {})}
        return self._session.post(f"{self._watched.url}/v1/{path}", json=body, headers=headers)


def session() -> aiohttp.ClientSession:
    """Return what carries the requests of many clients."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=REQUEST_SECONDS),
    )
