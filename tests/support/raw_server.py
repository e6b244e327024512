"""A server on loopback that says exactly the bytes it is told to, and remembers what it heard."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
import subprocess
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias


@dataclass(frozen=True, slots=True)
class Heard:
    """One request as it arrived."""

    line: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True)
class Connection:
    """The server's end of one connection, for behaviours that are more than an answer."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    gone: asyncio.Event

    async def say(self, content: bytes) -> None:
        """Write bytes as they are."""
        self.writer.write(content)
        await self.writer.drain()

    async def wait_until_gone(self) -> None:
        """Wait until the client has closed the connection."""
        try:
            while await self.reader.read(65536):
                pass
        except ConnectionError:
            pass
        self.gone.set()

    def reset(self) -> None:
        """End the connection with a reset instead of a close."""
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Behaviour: TypeAlias = bytes | Callable[[Connection], Awaitable[None]]


def answer(
    status: int = 200,
    body: bytes | str | object = b"{}",
    *,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """Return a whole HTTP reply; a body that is neither bytes nor text is written as JSON."""
    if isinstance(body, str):
        body = body.encode()
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    fields = {"Content-Length": str(len(body)), **(headers or {})}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} Status\r\n{head}\r\n".encode() + body


def chat(text: str, *, finish: str = "stop", **members: object) -> bytes:
    """Return a whole HTTP reply that holds one chat answer."""
    choice = {"index": 0, "finish_reason": finish, "message": {"content": text}}
    return answer(body={"choices": [choice], **members})


@dataclass(slots=True)
class RawServer:
    """Plays one behaviour a request, the last one for ever, over connections that stay open."""

    behaviours: Sequence[Behaviour]
    tls: ssl.SSLContext | None = None
    heard: list[Heard] = field(default_factory=list)
    connections: int = 0
    gone: asyncio.Event = field(default_factory=asyncio.Event)
    """A client has closed a connection."""
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    """A whole request has arrived."""
    port: int = 0
    """Chosen when listening begins."""
    _server: asyncio.Server | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def __aenter__(self) -> Self:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self.tls)
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
        """Return the address for a provider's entry."""
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}/v1"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        try:
            while await self._one(Connection(reader, writer, self.gone)):
                pass
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            with suppress(ConnectionError, ssl.SSLError, asyncio.CancelledError):
                await writer.wait_closed()
            self.gone.set()

    async def _one(self, connection: Connection) -> bool:
        head = (await connection.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        line, *fields = head.strip().split("\r\n")
        headers = {
            name.lower(): value.strip() for name, _, value in (f.partition(":") for f in fields)
        }
        body = await connection.reader.readexactly(int(headers.get("content-length", "0")))
        behaviour = self.behaviours[min(len(self.heard), len(self.behaviours) - 1)]
        self.heard.append(Heard(line, headers, body))
        self.asked.set()
        if isinstance(behaviour, bytes):
            await connection.say(behaviour)
            return True
        await behaviour(connection)
        return False


def certificate(folder: Path, *, name: str = "127.0.0.1") -> tuple[ssl.SSLContext, Path]:
    """Make a certificate for a loopback server; return its context and the file to trust."""
    kind = "DNS" if name[0].isalpha() else "IP"
    key, file = folder / f"{name}.key", folder / f"{name}.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"]
    command += ["-nodes", "-keyout", str(key), "-out", str(file), "-days", "2"]
    command += ["-subj", f"/CN={name}", "-addext", f"subjectAltName={kind}:{name}"]
    subprocess.run(command, check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file, key)
    return context, file
