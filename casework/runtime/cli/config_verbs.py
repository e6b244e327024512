"""Verbs about the configuration: ``config show``."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from casework.runtime.cli.exit_codes import ExitCode
from casework.runtime.cli.verb import Invocation, verb


def register(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    config = typer.Typer(help="The settings of the project.")
    app.add_typer(config, name="config")
    verb(
        config,
        "show",
        json='one document: {"file", "settings": [{"setting", "value", "file", "line"}, ...]}; '
        "a default has neither file nor line",
    )(show)


def show(
    invocation: Invocation,
    *,
    origin: Annotated[
        bool, typer.Option("--origin", help="Also where each comes from: file:line, or default.")
    ] = False,
) -> ExitCode:
    """Show every setting in effect, those that nobody wrote too. Contacts nobody.

    No secret is shown: of a key only the name of its variable and whether that is set, of an
    address only scheme, host and port.
    """
    from casework.config.gateway_config import GatewayConfig
    from casework.config.toml_document import TomlDocument
    from casework.runtime.views.settings_view import settings_of

    terminal, file = invocation.terminal, invocation.project().config_file
    config, document = GatewayConfig.load(file), TomlDocument.read(file)
    settings = list(settings_of(config, document, os.environ))
    if terminal.as_json:
        terminal.document(
            {"file": document.name, "settings": [setting.to_json() for setting in settings]}
        )
        return ExitCode.SUCCESS
    columns = ("setting", "value", "origin") if origin else ("setting", "value")
    rows = [(setting.name, setting.shown(), setting.origin) for setting in settings]
    terminal.table(columns, [row[: len(columns)] for row in rows])
    return ExitCode.SUCCESS
