"""The verb that estimates a run: ``plan``, which ``run --dry-run`` is too."""

from __future__ import annotations

import typer

from casework.runtime.cli.exit_codes import ExitCode
from casework.runtime.cli.plan_report import show_plan
from casework.runtime.cli.project_verbs import PipelineOption
from casework.runtime.cli.run_verbs import CaseOption
from casework.runtime.cli.verb import Invocation, verb


def register(app: typer.Typer) -> None:
    """Add the verb of this file."""
    verb(
        app,
        "plan",
        json='one document: {"cases", "sampled", "operations": [{"operation_id", "calls", '
        '"input_tokens", "cost_low", "cost_high", "price_unknown", "providers", ...}]}',
    )(plan)


def plan(
    invocation: Invocation, *, pipeline: PipelineOption = None, case: CaseOption = None
) -> ExitCode:
    """Say what a run would ask, of whom, about how many tokens that is and what it may cost.

    Contacts nobody, needs no keys and writes nothing. Many cases are estimated from a sample, and
    that is said. Prices that are not set are unknown, not zero.
    """
    return show_plan(invocation, pipeline=pipeline, cases=case or ())
