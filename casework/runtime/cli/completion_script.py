"""Shell completion, in the protocol of the parser library."""

from __future__ import annotations

from typing import Final

from typer._completion_classes import completion_init
from typer._completion_shared import get_completion_script

COMPLETION_VARIABLE: Final = "_CASEWORK_COMPLETE"


def completion_script(shell: str) -> str:
    """Return the script that makes a shell complete verbs and options."""
    return get_completion_script(
        prog_name="casework", complete_var=COMPLETION_VARIABLE, shell=shell
    )


def enable_completion() -> None:
    """Make this process, started by a shell to complete a line, able to answer."""
    completion_init()
