"""The verb that serves OpenAI clients: ``serve``."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated

import typer

from casework.runtime.cli.exit_codes import ExitCode
from casework.runtime.cli.verb import Invocation, verb

if TYPE_CHECKING:
    from casework.runtime.http.service import Service


def register(app: typer.Typer) -> None:
    """Add the verb of this file."""
    verb(app, "serve", json='once it listens, one document: {"url", "pid"}')(serve)


def serve(
    invocation: Invocation,
    *,
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            metavar="ADDRESS",
            help="Address to listen on; beyond this machine only with client keys.",
            show_default=False,
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            metavar="N",
            min=0,
            max=65535,
            help="Port to listen on; 0 takes a free one.",
            show_default=False,
        ),
    ] = None,
) -> ExitCode:
    """Serve OpenAI clients: they change their base URL, and get the same rounds.

    Chat, streams, embeddings and models under /v1. Listens on 127.0.0.1:8000 unless [serve] or an
    option says otherwise. SIGTERM or Ctrl-C lets open requests end; a second one leaves at once.
    """
    from casework.runtime.http.server import Address
    from casework.runtime.http.service import Service
    from casework.runtime.workspace import Workspace

    workspace = Workspace.open(invocation.project())
    settings = workspace.config.serve
    address = Address(
        settings.host if host is None else host, settings.port if port is None else port
    )
    service = Service.open(workspace, address, os.environ)
    service.run(
        lambda url: _announce(invocation, service, url),
        lambda count: _say_goodbye(invocation, count, settings.shutdown_seconds),
    )
    return ExitCode.SUCCESS


def _say_goodbye(invocation: Invocation, count: int, seconds: float) -> None:
    """Tell what is waited for, where something is."""
    if count:
        requests = "1 request" if count == 1 else f"{count} requests"
        invocation.terminal.note(
            f"waiting for {requests}, {seconds:g} s at most; a second signal leaves at once"
        )


def _announce(invocation: Invocation, service: Service, url: str) -> None:
    """Tell that clients can connect, and whom their requests may reach."""
    from casework.runtime.views.travel import asked_in_order, excluded_sentence, travel_sentence

    terminal = invocation.terminal
    verdicts = service.workspace.gateway.explain()
    terminal.note(f"serving {url}/v1 for OpenAI clients; {service.clients_sentence()}")
    profile = service.workspace.config.privacy_profile.value
    terminal.note(
        f"profile {profile}: {travel_sentence(verdicts)}; asks {asked_in_order(verdicts)}"
    )
    excluded = excluded_sentence(verdicts)
    if excluded:
        terminal.note(excluded)
    for warning in service.warnings():
        terminal.warn(f"casework: {warning}")
    if terminal.as_json:
        terminal.document({"url": url, "pid": os.getpid()})
        terminal.flush()
