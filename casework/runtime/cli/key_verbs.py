"""The group ``keys``: who may ask the service that `casework serve` runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from casework.config.privacy_profile import PrivacyProfile
from casework.runtime.cli.exit_codes import ExitCode
from casework.runtime.cli.verb import Invocation, verb
from casework.strict_json import JSON, JSONObject

if TYPE_CHECKING:
    from casework.facade.key_file import KeyEntry
    from casework.runtime.http.key_register import KeyRegister

_ENDS = (ExitCode.INTEGRITY, ExitCode.LOCKED)
_MEMBERS = (
    '"label", "created_at", "revoked_at", "privacy_profile", "models", '
    '"requests_per_minute", "requests_per_day", "max_concurrency"'
)
LabelArgument = Annotated[str, typer.Argument(metavar="LABEL", help="What the key is called.")]


def register(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    keys = typer.Typer(help="Keys of the clients of `casework serve`.")
    app.add_typer(keys, name="keys")
    verb(keys, "create", json=f'one document: {{"key", {_MEMBERS}}}', ends=_ENDS)(create)
    verb(keys, "list", json=f"JSON lines: {{{_MEMBERS}}}", ends=(ExitCode.INTEGRITY,))(list_)
    verb(keys, "revoke", json='one document: {"label", "revoked_at", "was_valid"}', ends=_ENDS)(
        revoke
    )


def create(
    invocation: Invocation,
    *,
    label: LabelArgument,
    profile: Annotated[
        PrivacyProfile | None,
        typer.Option("--profile", help="How far its requests may travel; narrows the settings."),
    ] = None,
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="PATTERN",
            help="Names it may ask for, like 'local/*'; may be repeated; by default all.",
        ),
    ] = None,
    per_minute: Annotated[
        int | None, typer.Option("--requests-per-minute", min=1, metavar="N", help="Most a minute.")
    ] = None,
    per_day: Annotated[
        int | None, typer.Option("--requests-per-day", min=1, metavar="N", help="Most a day (UTC).")
    ] = None,
    at_once: Annotated[
        int | None, typer.Option("--max-concurrency", min=1, metavar="N", help="Most at once.")
    ] = None,
) -> ExitCode:
    """Create a key and show it, this once.

    Only its digest is kept, so nobody can show it again. From now on the service lets nobody in
    without a key. A server that runs knows the key within a second.
    """
    from casework.facade.client_keys import RequestLimits

    limits = RequestLimits(
        requests_per_minute=per_minute, requests_per_day=per_day, concurrency_max=at_once
    )
    entry, key = _register(invocation, must_exist=True).create(
        label, profile=profile, models=tuple(model) if model else None, limits=limits
    )
    terminal = invocation.terminal
    if terminal.as_json:
        terminal.document({"key": key, **_to_json(entry)})
    else:
        terminal.text(key)
        terminal.note("it is shown this once; clients send it as Authorization: Bearer KEY")
    return ExitCode.SUCCESS


def list_(invocation: Invocation) -> ExitCode:
    """List all keys that were created, without the keys themselves."""
    from casework.runtime.views import phrases

    terminal = invocation.terminal
    entries = _register(invocation).keys()
    if terminal.as_json:
        for entry in entries:
            terminal.json_line(_to_json(entry))
    elif entries:
        terminal.table(
            ("label", "created", "revoked", "profile", "models", "a minute", "a day", "at once"),
            [
                (
                    entry.label,
                    phrases.local_time(entry.created_at),
                    phrases.local_time(entry.revoked_at),
                    _cell(entry.privacy_profile),
                    _cell(entry.models and ", ".join(entry.models)),
                    _cell(entry.requests_per_minute),
                    _cell(entry.requests_per_day),
                    _cell(entry.concurrency_max),
                )
                for entry in entries
            ],
        )
    else:
        terminal.note("no key was ever created")
    return ExitCode.SUCCESS


def revoke(invocation: Invocation, *, label: LabelArgument) -> ExitCode:
    """Void a key for good; a server that runs refuses it within a second.

    Its label stays taken. Revoking it again changes nothing.
    """
    from casework.runtime.views import phrases

    entry, was_valid = _register(invocation).revoke(label)
    if invocation.terminal.as_json:
        revoked_at = phrases.utc_time(entry.revoked_at)
        invocation.terminal.document(
            {"label": entry.label, "revoked_at": revoked_at, "was_valid": was_valid}
        )
    else:
        at = phrases.local_time(entry.revoked_at)
        invocation.terminal.text("revoked" if was_valid else f"was revoked already, {at}")
    return ExitCode.SUCCESS


def _register(invocation: Invocation, *, must_exist: bool = False) -> KeyRegister:
    from casework.errors import ConfigurationError
    from casework.gateway.clock import SystemClock
    from casework.runtime.http.key_register import KeyRegister

    project = invocation.project()
    if must_exist and not project.config_file.is_file():
        raise ConfigurationError(
            "there is no project here",
            code="no_project",
            where=str(project.folder),
            remedy="make one with `casework init`, or name it with --project",
        )
    return KeyRegister(project.runtime, now=SystemClock().now)


def _cell(value: object) -> str:
    return "-" if value is None else str(value)


def _to_json(entry: KeyEntry) -> JSONObject:
    from casework.runtime.views import phrases

    models: list[JSON] | None = None if entry.models is None else list(entry.models)
    return {
        "label": entry.label,
        "created_at": phrases.utc_time(entry.created_at),
        "revoked_at": phrases.utc_time(entry.revoked_at),
        "privacy_profile": entry.privacy_profile,
        "models": models,
        "requests_per_minute": entry.requests_per_minute,
        "requests_per_day": entry.requests_per_day,
        "max_concurrency": entry.concurrency_max,
    }
