"""The command line: ``casework``. It loads with its verbs only once it answers to signals."""

from __future__ import annotations

import codecs
import os
import sys
from importlib import import_module

from casework.runtime.cli.exit_codes import ExitCode


def main() -> None:
    """Run the command line of this process and end it with the exit code."""
    try:
        command_line = import_module(f"{__name__}.command_line")
        from casework.runtime.run.interruption import interrupt_on_terminate

        _leave_ascii()
        interrupt_on_terminate()
        code = int(command_line.run(sys.argv[1:]))
    except KeyboardInterrupt:  # before there was a verb to interrupt
        code = int(ExitCode.INTERRUPTED)
    sys.exit(code)


def _leave_ascii() -> None:
    """Begin again in UTF-8 where the locale knows ASCII only, as timers and containers set it.

    Otherwise a file would have another name, and its case another id, than in a person's shell.
    """
    if codecs.lookup(sys.getfilesystemencoding()).name == "ascii" and os.name == "posix":
        words = [sys.executable, "-X", "utf8", *sys.orig_argv[1:]]
        os.execv(sys.executable, words)  # noqa: S606 - this very command line, word for word
