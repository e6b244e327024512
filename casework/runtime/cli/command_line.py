"""The verbs of the command line, and running one of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from casework.runtime.cli import (
    again_verbs,
    config_verbs,
    demo_verb,
    diff_verb,
    export_verb,
    forget_verb,
    import_verb,
    inbox_verbs,
    key_verbs,
    line_verbs,
    log_verb,
    overview_verbs,
    package_verbs,
    plan_verb,
    project_verbs,
    revise_verb,
    run_verbs,
    serve_verb,
    setup_verbs,
    worker_verb,
)
from casework.runtime.cli.exit_codes import ExitCode, exit_code_help
from casework.runtime.cli.failures import line_of
from casework.runtime.cli.terminal import output_refused, prepare_streams, showable

app = typer.Typer(
    name="casework",
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog=exit_code_help(),
)

for _group in (
    project_verbs,
    import_verb,
    plan_verb,
    run_verbs,
    worker_verb,
    serve_verb,
    overview_verbs,
    line_verbs,
    again_verbs,
    inbox_verbs,
    package_verbs,
    export_verb,
    diff_verb,
    revise_verb,
    forget_verb,
    log_verb,
    key_verbs,
    config_verbs,
    demo_verb,
    setup_verbs,
):
    _group.register(app)


@app.callback(invoke_without_command=True)
def _casework(
    context: typer.Context,
    *,
    version: Annotated[
        bool, typer.Option("--version", help="Tell which Casework this is.")
    ] = False,
) -> None:
    """Run LLM operations over cases: durable, checkpointed, under a privacy ceiling.

    Data goes to standard output, everything else to standard error. Times are local with their
    offset; in JSON they are UTC. NO_COLOR is honoured. There is no telemetry.
    """
    if version:
        from casework.runtime.version import version_line

        typer.echo(version_line())
    elif context.invoked_subcommand is None:
        typer.echo(context.get_help())


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code; never raises and never shows a traceback."""
    prepare_streams()
    if "_CASEWORK_COMPLETE" in os.environ:
        from casework.runtime.cli.completion_script import enable_completion

        enable_completion()
    try:
        ended = typer.main.get_command(app).main(
            list(arguments), prog_name="casework", standalone_mode=False
        )
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except OSError as error:  # the parser itself writes help and version
        refusal = output_refused(error)
        if isinstance(error, BrokenPipeError):
            return ExitCode.SUCCESS
        sys.stderr.write(f"{line_of(refusal)}\n")
        return ExitCode.INTERNAL
    except Exception as error:  # noqa: BLE001 - only the parser's own refusals come this far
        tell = getattr(error, "format_message", None)
        message = " ".join(tell().split()).rstrip(".") if tell else type(error).__name__
        message = showable(message.replace(": Value error, ", ": "))
        verb = getattr(getattr(error, "ctx", None), "command_path", "casework")
        sys.stderr.write(f"casework: {message}; see `{verb} --help` [usage]\n")
        return ExitCode.USAGE
    return ended if isinstance(ended, int) else ExitCode.SUCCESS
