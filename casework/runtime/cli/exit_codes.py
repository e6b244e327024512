"""The exit codes, one meaning each; scripts and timers branch on them."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class ExitCode(IntEnum):
    """What a finished command says to its caller."""

    SUCCESS = 0
    """All the work that was selected succeeded."""
    INTERNAL = 1
    """The machine or Casework itself failed."""
    USAGE = 2
    """The command line, the configuration or the pipeline cannot be used."""
    SOME_ERROR = 3
    """Finished; some operations ended in ERROR."""
    SOME_WAITING = 4
    """Finished; some operations wait in the inbox."""
    UNFINISHED = 5
    """Not finished; some operations wait for their next round."""
    INTEGRITY = 6
    """Stored bytes are not what was written."""
    LOCKED = 7
    """Another worker holds what was asked for."""
    BUDGET = 8
    """The budget is used up."""
    INTERRUPTED = 130
    """Stopped from outside; everything that was finished is kept."""


MEANINGS: Final = {
    ExitCode.SUCCESS: "all selected work succeeded",
    ExitCode.INTERNAL: "internal failure, or the disk refused",
    ExitCode.USAGE: "usage, configuration or pipeline error",
    ExitCode.SOME_ERROR: "finished, some operations ended in ERROR",
    ExitCode.SOME_WAITING: "finished, some operations wait in the inbox",
    ExitCode.UNFINISHED: "not finished, some operations wait for their next round",
    ExitCode.INTEGRITY: "an integrity check failed",
    ExitCode.LOCKED: "another worker holds the lock",
    ExitCode.BUDGET: "budget reached",
    ExitCode.INTERRUPTED: "interrupted, everything finished is kept",
}


def exit_code_help() -> str:
    """Return the table of exit codes as ``--help`` shows it."""
    lines = [f"  {code.value:>3}  {meaning}" for code, meaning in MEANINGS.items()]
    several = "Where several hold: 5 before 3 before 4."
    # A line that holds only \b keeps the help formatter from folding what follows.
    return "\n".join(["\b", "Exit codes:", *lines, several])
