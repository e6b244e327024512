"""The verb ``demo``: a licence review of the Python environment that it runs in."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from casework.runtime.cli.exit_codes import ExitCode
from casework.runtime.cli.verb import Invocation, verb

if TYPE_CHECKING:
    from casework.runtime.cli.terminal import Terminal
    from casework.runtime.demo import DemoProject
    from casework.runtime.importing import ImportCount
    from casework.runtime.workspace import Workspace

DEFAULT_FOLDER: Final = "casework-demo"
MODEL_CONCURRENCY: Final = 2
SETTLED: Final = (ExitCode.SUCCESS, ExitCode.SOME_ERROR, ExitCode.SOME_WAITING)
RULES_LABEL: Final = "answers by rules in this process: no model"
MODEL_LABEL: Final = "answers by a model of 135 million parameters: a demonstration, no triage"


class Answerer(StrEnum):
    """Who answers in the demonstration."""

    RULES = "rules"
    LOCAL = "local"


def register(app: typer.Typer) -> None:
    """Add the verb of this file."""
    verb(
        app,
        "demo",
        json='one document: {"imported", "calls", "reused", "counts", "agreement", "inbox", ...}',
        ends=(ExitCode.UNFINISHED, ExitCode.INTEGRITY),
    )(demo)


def demo(
    invocation: Invocation,
    *,
    model: Annotated[
        Answerer,
        typer.Option(
            "--model", help="rules: no model at all; local: a tiny one, see model install."
        ),
    ] = Answerer.RULES,
) -> ExitCode:
    """Review the licences of every distribution in this Python environment.

    Needs no key, no network and, by default, no model. Each distribution becomes a case; what it
    declares is taken out of the input and kept as the answer key. The project goes to the folder
    given with --project, else to casework-demo. A second run finds every result and asks nobody.
    Ends with 0 once everything is settled, also if some cases wait in the inbox.
    """
    from casework.runtime.cli.demo_report import DemoReport
    from casework.runtime.cli.run_session import RunSession, leave
    from casework.runtime.demo import prepare
    from casework.runtime.project import Project
    from casework.runtime.run.batch import BatchOptions
    from casework.runtime.run.pipeline_run import PipelineRun
    from casework.runtime.workspace import Workspace

    terminal, small_model = invocation.terminal, model is Answerer.LOCAL
    folder = invocation.project_folder or Path(DEFAULT_FOLDER)
    terminal.note(MODEL_LABEL if small_model else RULES_LABEL)
    prepared = prepare(folder)
    config_file = prepared.config_file(model=small_model)
    workspace = Workspace.open(Project(folder), config_file=config_file)
    imported = _import(prepared, workspace, terminal)
    pipeline = workspace.pipeline(prepared.pipeline_file(model=small_model))
    options = BatchOptions(concurrency=MODEL_CONCURRENCY) if small_model else BatchOptions()
    result = RunSession(PipelineRun(workspace, pipeline, options=options), terminal).execute()
    report = DemoReport.gather(prepared, workspace, pipeline, imported=imported, result=result)
    if terminal.as_json:
        terminal.document(report.to_json())
    else:
        report.show(terminal, MODEL_LABEL if small_model else RULES_LABEL)
    if result.left_at_once:
        leave(ExitCode.INTERRUPTED)
    code = result.exit_code()
    return ExitCode.SUCCESS if code in SETTLED else code


def _import(prepared: DemoProject, workspace: Workspace, terminal: Terminal) -> ImportCount:
    """Make a case of each distribution; those that are there already stay."""
    from casework.runtime.demo import LicenceCase
    from casework.runtime.importing import ImportCount, import_documents

    workspace.store.prove()
    items = [item.document if isinstance(item, LicenceCase) else item for item in prepared.items]
    count = ImportCount()
    for event in import_documents(items, workspace.store):
        count.add(event)
    summary = count.summary()
    terminal.note(
        f"imported: {count.created:,} new, {count.known:,} there already, "
        f"{summary.refused:,} refused"
    )
    return count
