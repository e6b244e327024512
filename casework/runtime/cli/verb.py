"""What every verb has in common: its options, its help and its end."""

from __future__ import annotations

import functools
import inspect
import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, Final, ParamSpec

import typer

from casework.runtime.cli.exit_codes import MEANINGS, ExitCode
from casework.runtime.cli.failures import report
from casework.runtime.cli.terminal import Terminal

if TYPE_CHECKING:
    from casework.runtime.project import Project

Parameters = ParamSpec("Parameters")


@dataclass(frozen=True, slots=True)
class Invocation:
    """One run of one verb: the terminal, and where the project is said to be."""

    terminal: Terminal
    project_folder: Path | None

    def project(self) -> Project:
        """Return the project that the verb works on.

        Raises:
            ConfigurationError: The folder named with ``--project`` does not exist.
        """
        from casework.runtime.project import find_project

        return find_project(self.project_folder, start=Path.cwd())


VerbBody = Callable[Concatenate[Invocation, Parameters], ExitCode]

_COMMON: Final[dict[str, tuple[object, object]]] = {
    "project": (
        Annotated[
            Path | None,
            typer.Option(
                "--project",
                metavar="DIR",
                help="Project folder; by default the nearest one with config/llm.local.toml.",
                show_default=False,
            ),
        ],
        None,
    ),
    "as_json": (
        Annotated[bool, typer.Option("--json", help="Write JSON; its form stands below.")],
        False,
    ),
    "quiet": (Annotated[bool, typer.Option("--quiet", "-q", help="Only data and errors.")], False),
    "verbose": (Annotated[bool, typer.Option("--verbose", "-v", help="Tell more.")], False),
    "no_progress": (Annotated[bool, typer.Option("--no-progress", help="No progress.")], False),
    "debug": (
        Annotated[
            bool,
            typer.Option("--debug", help="Traceback on an error; it may show document text."),
        ],
        False,
    ),
}


def verb(
    app: typer.Typer, name: str, *, json: str, ends: Sequence[ExitCode] = ()
) -> Callable[[VerbBody[Parameters]], VerbBody[Parameters]]:
    """Make a function a verb of the command line.

    The function is given an :class:`Invocation` and its own options; the common options are added
    here. Its docstring is the help text. What it raises ends as one line and an exit code.

    Args:
        app: The group it belongs to.
        name: How it is typed.
        json: What ``--json`` writes, for the help text.
        ends: Exit codes it may end with beside 0, 1, 2 and 130.
    """

    def register(body: VerbBody[Parameters]) -> VerbBody[Parameters]:
        begin: Callable[..., ExitCode] = body

        def call(**options: Any) -> None:
            debug = bool(options.pop("debug"))
            invocation = Invocation(
                Terminal(
                    as_json=options.pop("as_json"),
                    quiet=options.pop("quiet"),
                    verbose=options.pop("verbose"),
                    progress=not options.pop("no_progress"),
                ),
                options.pop("project"),
            )
            raise typer.Exit(
                _run(functools.partial(begin, invocation, **options), invocation, debug=debug)
            )

        _describe(call, body)
        app.command(name, epilog=_epilog(json, ends))(call)
        return body

    return register


def _run(body: Callable[[], ExitCode], invocation: Invocation, *, debug: bool) -> ExitCode:
    terminal = invocation.terminal
    try:
        with _logs_heard(verbose=terminal.verbose, debug=debug):
            code = body()
        terminal.flush()
    except KeyboardInterrupt:
        terminal.warn("casework: interrupted; everything committed is kept [interrupted]")
        return ExitCode.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the edge of the process: told once, then over
        return report(error, terminal, debug=debug)
    return code


def _describe(call: Callable[..., None], body: VerbBody[Parameters]) -> None:
    """Give the callable that the parser sees the options of the body and the common ones."""
    own = list(inspect.signature(body, eval_str=True).parameters.values())[1:]
    common = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
        )
        for name, (annotation, default) in _COMMON.items()
    ]
    parameters = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own] + common
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {p.name: p.annotation for p in parameters}
    call.__doc__ = inspect.getdoc(body)
    call.__name__ = body.__name__


def _epilog(json: str, ends: Sequence[ExitCode]) -> str:
    usual = (ExitCode.SUCCESS, ExitCode.INTERNAL, ExitCode.USAGE)
    codes = (*usual, *ends, ExitCode.INTERRUPTED)
    meanings = "\n".join(f"  {code.value:>3}  {MEANINGS[code]}" for code in codes)
    # A line that holds only \b keeps the help formatter from folding what follows.
    return f"--json: {json}\n\n\b\nExit codes:\n{meanings}"


@contextmanager
def _logs_heard(*, verbose: bool, debug: bool) -> Iterator[None]:
    """Send log lines to standard error where asked for, nowhere else, and only meanwhile.

    Other people's libraries may put texts into their messages, so they are heard only under
    ``--debug``.
    """
    root, ours = logging.getLogger(), logging.getLogger("casework")
    if not root.handlers:
        root.addHandler(logging.NullHandler())
    if not verbose and not debug:
        yield
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("casework: %(name)s: %(message)s"))
    target = root if debug else ours
    before = target.handlers, target.level
    target.handlers = [handler]
    target.setLevel(logging.DEBUG if debug else logging.INFO)
    try:
        yield
    finally:
        target.handlers = before[0]
        target.setLevel(before[1])
