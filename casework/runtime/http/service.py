"""Wiring of ``casework serve``: a project's gateway, keys and logs behind one HTTP server."""

from __future__ import annotations

import asyncio
import gc
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from casework.errors import ConfigurationError
from casework.facade.app import create_app
from casework.facade.client_keys import ClientKeys
from casework.facade.client_limits import ClientLimits
from casework.facade.endpoint import Door
from casework.facade.key_file import FILE_NAME
from casework.facade.open_requests import OpenRequests
from casework.facade.request_line import RequestLine
from casework.runtime.http.durable_calls import PackagedCalls
from casework.runtime.http.request_log import RequestLog, open_request_log
from casework.runtime.http.server import Address, HTTPServer, run_on_fast_loop
from casework.runtime.run.descriptors import allow_files
from casework.runtime.run.interruption import Interruption
from casework.runtime.workspace import Workspace

OPEN_FILES: Final = 65_536
"""Clients, connections that they keep, providers and files; shells often allow 1024."""
YOUNG_OBJECTS: Final = 20_000
"""How many new objects come before the collector looks; a request leaves few cycles behind."""


@dataclass(frozen=True, slots=True)
class Service:
    """One process that serves clients."""

    workspace: Workspace
    address: Address
    keys: ClientKeys

    @classmethod
    def open(cls, workspace: Workspace, address: Address, environ: Mapping[str, str]) -> Service:
        """Check who may be served where.

        Raises:
            ConfigurationError: The address is reachable from other machines and there is no key.
            CaseworkError: The file of client keys cannot be used.
        """
        path = workspace.project.runtime / FILE_NAME
        keys = ClientKeys(path, environ, clock=workspace.clock)
        if keys.is_open and not address.loopback:
            raise ConfigurationError(
                "other machines can reach this address, and there is no client key",
                code="no_client_key",
                where=f"{address.host}:{address.port}",
                remedy="make one with `casework keys create LABEL`, or listen on 127.0.0.1",
            )
        return cls(workspace, address, keys)

    def clients_sentence(self) -> str:
        """Say who may connect."""
        if self.keys.is_open:
            return "everybody on this machine may connect, there is no client key"
        return "clients need a key"

    def warnings(self) -> Iterator[str]:
        """Yield, in a line each, what will not work as somebody may expect."""
        workspace = self.workspace
        for verdict in workspace.gateway.explain():
            complaint = workspace.gateway.interactive.complaint(verdict.provider)
            if verdict.eligible and complaint is not None:
                yield f'provider "{verdict.provider.id}" cannot be asked: {complaint}'
        if workspace.config.budget.bounded:
            yield "[budget] holds for cases; what clients ask is neither counted nor stopped by it"
        if not self.address.loopback:
            yield "clients reach this address by plain HTTP; put TLS in front of it"

    def run(self, on_start: Callable[[str], None], on_stop: Callable[[int], None]) -> None:
        """Serve until a signal asks to stop.

        Args:
            on_start: Told the address once clients can connect.
            on_stop: Told how many requests are open when no more are taken.

        Raises:
            ConfigurationError: The address cannot be listened on.
        """
        listening = self.address.bound()
        host, port = listening.getsockname()[:2]
        url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        allow_files(OPEN_FILES)
        log = open_request_log(self.workspace.project.runtime, self.workspace.clock)
        try:
            run_on_fast_loop(
                lambda: self._serve(listening, log, on_start=lambda: on_start(url), on_stop=on_stop)
            )
        finally:
            log.close()

    async def _serve(
        self,
        listening: socket.socket,
        log: RequestLog,
        *,
        on_start: Callable[[], None],
        on_stop: Callable[[int], None],
    ) -> None:
        gateway, settings = self.workspace.gateway, self.workspace.config.serve
        open_requests = OpenRequests(settings.connections_max)
        door = Door(
            keys=self.keys,
            limits=ClientLimits(self.workspace.clock),
            open_requests=open_requests,
            journal=log.take if settings.request_log else _forget,
            clock=self.workspace.clock,
        )
        durable = PackagedCalls.open(self.workspace)

        def stop() -> None:
            open_requests.begin_shutdown(settings.shutdown_seconds)
            on_stop(open_requests.count)

        server = HTTPServer(
            create_app(gateway, door, durable=durable),
            listening,
            on_start=on_start,
            on_stop=stop,
            on_leave=open_requests.end_all,
            stop_seconds=settings.shutdown_seconds,
        )
        gc.freeze()
        gc.set_threshold(YOUNG_OBJECTS)
        async with gateway:
            discovery = asyncio.ensure_future(gateway.maintain())
            try:
                await server.serve(Interruption())
            finally:
                discovery.cancel()
                await asyncio.wait({discovery})
                await durable.aclose()


def _forget(_line: RequestLine) -> None:
    """Take note of nothing."""
