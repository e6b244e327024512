"""One line and one exit code for everything that can go wrong; never a traceback."""

from __future__ import annotations

import errno
import traceback
from pathlib import Path
from typing import Final

from casework.errors import (
    CaseworkError,
    ConfigurationError,
    FormatError,
    IllegalTransition,
    IntegrityError,
    InvalidRequest,
    LockBusy,
    NotDue,
    OperationConflict,
    PackageNotFound,
    StaleGeneration,
)
from casework.runtime.cli.exit_codes import ExitCode
from casework.runtime.cli.terminal import Terminal

_CODES: Final = (
    ((LockBusy, StaleGeneration), ExitCode.LOCKED),
    ((IntegrityError, FormatError), ExitCode.INTEGRITY),
    (
        (
            ConfigurationError,
            InvalidRequest,
            PackageNotFound,
            NotDue,
            OperationConflict,
            IllegalTransition,
        ),
        ExitCode.USAGE,
    ),
)
_MISTAKES: Final = frozenset({"bad_id", "case_exists", "case_forgotten", "foreign_file"})
"""Codes of format errors that are about what a person typed, not about stored bytes."""

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})

DEBUG_WARNING: Final = "casework: --debug: a traceback may show the text of documents"


def report(error: Exception, terminal: Terminal, *, debug: bool) -> ExitCode:
    """Tell the person what failed, on one line, and return the exit code."""
    terminal.warn(line_of(error))
    if debug:
        terminal.warn(DEBUG_WARNING)
        terminal.warn("".join(traceback.format_exception(error)).rstrip())
    return exit_code_of(error)


def exit_code_of(error: Exception) -> ExitCode:
    """Return the exit code that stands for an error."""
    if isinstance(error, FormatError) and error.code in _MISTAKES:
        return ExitCode.USAGE
    for kinds, code in _CODES:
        if isinstance(error, kinds):
            return code
    return ExitCode.INTERNAL


def line_of(error: Exception) -> str:
    """Describe an error on one line.

    Errors of Casework tell their own story. Of any other only the type is told, and where it was
    raised, because its message may hold anything.
    """
    if isinstance(error, CaseworkError):
        return f"casework: {_one_line(str(error))}"
    if isinstance(error, OSError):
        return f"casework: {_system_story(error)}"
    return (
        f"casework: {_origin(error)}: unexpected {type(error).__name__}; this is a defect, "
        "run the command again with --debug for a traceback [internal_error]"
    )


def _system_story(error: OSError) -> str:
    where = f"{_one_line(str(error.filename))}: " if error.filename is not None else ""
    what = error.strerror or type(error).__name__
    if error.errno in _FULL:
        return f"{where}{what}; free space and run again, what was committed is kept [disk_full]"
    return f"{where}{what}; check the path and its permissions [os_error]"


def _origin(error: Exception) -> str:
    """Return the innermost place in our own code that the error passed."""
    place = "casework"
    for frame, line in traceback.walk_tb(error.__traceback__):
        parts = Path(frame.f_code.co_filename).parts
        if "casework" in parts:
            start = len(parts) - 1 - parts[::-1].index("casework")
            place = f"{'/'.join(parts[start:])}:{line}"
    return place


def _one_line(text: str) -> str:
    return " ".join(text.split()) if text.isprintable() else ascii(text)[1:-1]
