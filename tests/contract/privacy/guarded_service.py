"""``casework serve`` in a process under guard: started, asked, watched and ended."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.contract.privacy.bare_client import BareClient, Bytes
from tests.contract.privacy.guarded import SECONDS_MAX, Ended, start_guarded
from tests.contract.privacy.socket_guard import Sighting, read_sightings

LOOPS: Final = ("asyncio", "uvloop")
"""The event loops that the service runs on; the guard sees the sockets of both."""


@dataclass(slots=True)
class GuardedService:
    """A service that is up, and its guard."""

    process: asyncio.subprocess.Process
    book: Path
    arguments: tuple[str, ...]
    announced: bytes
    """What it wrote to standard output once it listened."""
    _stderr: asyncio.Task[bytes]
    ended: Ended | None = None

    @property
    def told(self) -> Any:
        """Return the announcement read as JSON."""
        return json.loads(self.announced)

    @property
    def port(self) -> int:
        """Return where it listens."""
        return int(self.told["url"].rpartition(":")[2])

    def client(self) -> BareClient:
        """Return a client of it."""
        return BareClient(self.port)

    def seen(self, since: int = 0) -> tuple[Sighting, ...]:
        """Return what the guard has seen so far, without the first so many sightings."""
        return read_sightings(self.book)[since:]

    async def until_discovered(self, client: BareClient) -> Bytes:
        """Wait until every provider that may be asked was asked for its models."""
        async with asyncio.timeout(SECONDS_MAX):
            while True:
                reply = await client.ask("GET", "/readyz")
                if reply.status != 200 or reply.json["discovery"] == "done":
                    return reply

    async def end(self) -> Ended:
        """Ask it to stop, and return how it ended."""
        if self.ended is None:
            self.process.send_signal(signal.SIGTERM)
            assert self.process.stdout is not None
            async with asyncio.timeout(SECONDS_MAX):
                stdout = self.announced + await self.process.stdout.read()
                stderr = await self._stderr
                code = await self.process.wait()
            self.ended = Ended(self.arguments, code, stdout, stderr, self.seen())
        return self.ended


@asynccontextmanager
async def guarded_service(
    folder: Path, *flags: str, loop: str = "asyncio", environ: Mapping[str, str] | None = None
) -> AsyncIterator[GuardedService]:
    """Serve the project of a folder until the context ends.

    Args:
        folder: The project.
        *flags: Further words of the command line.
        loop: One of ``LOOPS``.
        environ: Further variables.
    """
    arguments = ("serve", "--port", "0", "--json", *flags)
    process, book = await start_guarded(folder, f"serve on {loop}", *arguments, environ=environ)
    assert process.stdout is not None
    assert process.stderr is not None
    stderr = asyncio.ensure_future(process.stderr.read())
    try:
        async with asyncio.timeout(SECONDS_MAX):
            announced = await process.stdout.readuntil(b"}\n")
        service = GuardedService(process, book, arguments, announced, stderr)
        yield service
        await service.end()
    except asyncio.IncompleteReadError:
        raise AssertionError((await stderr).decode()) from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await stderr
