"""The HTTP server: the door to uvicorn."""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, cast

from casework.config.addresses import is_loopback
from casework.errors import ConfigurationError
from casework.runtime.run.interruption import Interruption

BACKLOG: Final = 2048
KEEP_ALIVE_SECONDS: Final = 75
"""How long an idle connection of a client is kept; longer than common clients keep theirs."""
TICK_SECONDS: Final = 1.0
"""How often the date of the replies is set."""
LAST_WORD_SECONDS: Final = 0.5
"""How long clients have to be told that nothing more comes, where the process leaves at once."""
GRACE_SECONDS: Final = 2.0
"""How much longer than its requests the server itself may take to end."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the service listens."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        """Tell whether only this machine can reach it."""
        return is_loopback(self.host)

    def bound(self) -> socket.socket:
        """Return a socket that listens there.

        Raises:
            ConfigurationError: The address is no literal one, taken, or not this machine's.
        """
        host = "127.0.0.1" if self.host.lower() == "localhost" else self.host
        try:
            literal = ipaddress.ip_address(host)
        except ValueError:
            raise self._refused("is no literal address") from None
        family = socket.AF_INET if literal.version == 4 else socket.AF_INET6  # noqa: PLR2004
        # The protocol is named, so that the event loop switches Nagle's algorithm off.
        listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        try:
            if sys.platform != "win32":
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((host, self.port))
        except OSError as error:
            listening.close()
            raise self._refused(f"cannot be listened on ({error.strerror})") from None
        return listening

    def _refused(self, problem: str) -> ConfigurationError:
        return ConfigurationError(
            f"the address {problem}",
            code="address_unusable",
            where=f"{self.host}:{self.port}",
            remedy="choose another one with --host and --port, or in [serve]",
        )


class HTTPServer:
    """Serves one ASGI application until a signal asks to stop.

    Args:
        app: What is served.
        listening: A bound socket, closed at the end.
        on_start: Called on the event loop once clients can connect.
        on_stop: Called on the event loop when no new connection is taken any more.
        on_leave: Called on the event loop when open requests are to end at once.
        stop_seconds: How long open requests may take after that.
    """

    def __init__(
        self,
        app: Any,
        listening: socket.socket,
        *,
        on_start: Callable[[], None],
        on_stop: Callable[[], None],
        on_leave: Callable[[], None],
        stop_seconds: float,
    ) -> None:
        self._app = app
        self._listening = listening
        self._on_start = on_start
        self._on_stop = on_stop
        self._on_leave = on_leave
        self._stop_seconds = stop_seconds

    async def serve(self, interruption: Interruption) -> None:
        """Serve; the first signal lets open requests end, the second leaves at once."""
        import uvicorn  # noqa: PLC0415 - only those who serve need it

        from casework.runtime.http.client_connection import ClientConnection  # noqa: PLC0415

        on_start, on_stop = self._on_start, self._on_stop

        class Server(uvicorn.Server):
            async def startup(self, sockets: list[socket.socket] | None = None) -> None:
                await super().startup(sockets)
                on_start()

            async def main_loop(self) -> None:
                # uvicorn looks ten times a second whether it is to end; here it is told.
                while not await self.on_tick(0):
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(TICK_SECONDS):
                            await interruption.stopping.wait()
                            self.should_exit = True

            async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
                on_stop()
                await super().shutdown(sockets)

            @contextlib.contextmanager
            def capture_signals(self) -> Iterator[None]:
                yield  # the interruption listens

        config = uvicorn.Config(
            self._app,
            http=ClientConnection,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_keep_alive=KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=cast("int", self._stop_seconds + GRACE_SECONDS),
        )
        server = Server(config)
        with interruption.listening():
            leaves = asyncio.ensure_future(self._leave(server, interruption))
            try:
                await server.serve(sockets=[self._listening])
            finally:
                leaves.cancel()

    async def _leave(self, server: Any, interruption: Interruption) -> None:
        await interruption.leaving.wait()
        self._on_leave()
        await asyncio.sleep(LAST_WORD_SECONDS)
        server.force_exit = True


def run_on_fast_loop(main: Callable[[], Any]) -> Any:
    """Run a coroutine function on uvloop where it is installed, else on asyncio's own loop."""
    try:
        import uvloop  # noqa: PLC0415 - not there on Windows
    except ImportError:
        return asyncio.run(main())
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main())
