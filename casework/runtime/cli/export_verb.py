"""The verb ``export``: results as JSON Lines or CSV, packages as sealed ZIPs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from casework.runtime.cli.exit_codes import ExitCode
from casework.runtime.cli.run_verbs import CaseOption
from casework.runtime.cli.verb import Invocation, verb
from casework.strict_json import JSONObject

if TYPE_CHECKING:
    from casework.checkpoints.store import CheckpointStore
    from casework.errors import CheckpointError
    from casework.runtime.project import Project

STANDARD_OUTPUT = "-"


class ExportFormat(StrEnum):
    """What is written."""

    JSONL = "jsonl"
    CSV = "csv"
    ZIP = "zip"


class Only(StrEnum):
    """Which operations."""

    SUCCESS = "success"
    ERROR = "error"
    BLOCKED = "blocked"


def register(app: typer.Typer) -> None:
    """Add the verb of this file."""
    verb(
        app,
        "export",
        json='one document: {"format", "file", "rows"} or {"format", "folder", "packages"}; '
        "with -o - the export itself is the output",
        ends=(ExitCode.INTEGRITY,),
    )(export)


def export(
    invocation: Invocation,
    *,
    form: Annotated[ExportFormat, typer.Option("--format", help="What is written.")] = (
        ExportFormat.JSONL
    ),
    output: Annotated[
        str,
        typer.Option(
            "--output", "-o", metavar="FILE|-", help="File, - for standard output; zip: a folder."
        ),
    ] = STANDARD_OUTPUT,
    case: CaseOption = None,
    only: Annotated[Only | None, typer.Option("--only", help="Only these operations.")] = None,
    campaigns: Annotated[
        bool, typer.Option("--campaigns", help="Also what lives on under a later id.")
    ] = False,
    field: Annotated[
        list[str] | None,
        typer.Option("--field", metavar="/POINTER", help="CSV: this column; may be repeated."),
    ] = None,
    bom: Annotated[bool, typer.Option("--bom", help="CSV: begin with a byte order mark.")] = False,
    formulas: Annotated[
        bool,
        typer.Option("--keep-formulas", help="CSV: put no apostrophe before formulas."),
    ] = False,
) -> ExitCode:
    """Write results or packages.

    jsonl: one object for each case and operation, with where it came from. csv: the same as a
    table, answers flattened by JSON Pointer, safe for spreadsheets. zip: each package as a sealed
    ZIP in a folder; the same generation gives the same bytes. A file appears whole or not at all.
    """
    from casework.checkpoints.records import OperationStatus
    from casework.runner.csv_table import CsvOptions, csv_lines
    from casework.runner.export import jsonl_lines
    from casework.runtime.views.export_rows import export_rows
    from casework.runtime.views.index_pages import every_case
    from casework.runtime.workspace import existing_store, require_cases

    project = invocation.project()
    store = existing_store(project)
    require_cases(store, case or ())
    cases = case or every_case(store)
    if form is ExportFormat.ZIP:
        return _packages(invocation, store, cases, output)
    status = OperationStatus[only.value.upper()] if only else None
    damaged: dict[str, CheckpointError] = {}
    rows = export_rows(store, cases, only=status, every_campaign=campaigns, passed_over=damaged)
    if form is ExportFormat.JSONL:
        return _ended(invocation, _lines(invocation, form, jsonl_lines(rows), output), damaged)
    options = CsvOptions(
        fields=tuple(field) if field else None,
        output_schema=_column_order(project),
        byte_order_mark=bom,
        neutralise=not formulas,
    )
    return _ended(invocation, _lines(invocation, form, csv_lines(rows, options), output), damaged)


def _ended(
    invocation: Invocation, code: ExitCode, damaged: Mapping[str, CheckpointError]
) -> ExitCode:
    """Name the cases that the export had to leave out."""
    for case_id, error in damaged.items():
        invocation.terminal.warn(f"casework: case {case_id} is left out: {error}")
    return ExitCode.INTEGRITY if damaged else code


def _column_order(project: Project) -> JSONObject | None:
    """Return the schema that gives CSV columns their order, where the pipeline has just one."""
    from casework.runtime.views.status_report import read_settings

    pipeline = read_settings(project).pipeline
    if pipeline is None or len(pipeline.operations) != 1:
        return None
    return pipeline.operations[0].output_schema


def _lines(
    invocation: Invocation, form: ExportFormat, lines: Iterable[bytes], output: str
) -> ExitCode:
    """Write lines to standard output as they come, or to a file whole or not at all."""
    from casework.runner.export import write_lines

    terminal = invocation.terminal
    if output == STANDARD_OUTPUT:
        for line in lines:
            terminal.raw(line)
            if terminal.reader_gone:
                break
        return ExitCode.SUCCESS
    written = write_lines(Path(output), lines)
    rows = written if form is ExportFormat.JSONL else max(written - 1, 0)
    if terminal.as_json:
        terminal.document({"format": form.value, "file": output, "rows": rows})
    else:
        terminal.text(f"{output}: {rows:,} rows")
    return ExitCode.SUCCESS


def _packages(
    invocation: Invocation, store: CheckpointStore, cases: Iterable[str], output: str
) -> ExitCode:
    """Write a sealed ZIP for each case into a folder."""
    from casework.checkpoints.names import safe_name
    from casework.errors import ConfigurationError

    if output == STANDARD_OUTPUT:
        raise ConfigurationError(
            "ZIPs go to a folder", code="folder_needed", where="export", remedy="give -o FOLDER"
        )
    folder, written = Path(output), 0
    folder.mkdir(parents=True, exist_ok=True)
    for case_id in cases:
        store.export(case_id, folder / f"{safe_name(case_id)}.zip")
        written += 1
    if invocation.terminal.as_json:
        invocation.terminal.document({"format": "zip", "folder": output, "packages": written})
    else:
        invocation.terminal.text(f"{output}: {written:,} packages")
    return ExitCode.SUCCESS
