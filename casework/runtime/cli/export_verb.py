"""The verb ``export``: results in four forms, packages as sealed ZIPs."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from casework.runtime.cli.exit_codes import ExitCode
from casework.runtime.cli.project_verbs import PipelineOption
from casework.runtime.cli.run_verbs import CaseOption
from casework.runtime.cli.verb import Invocation, verb
from casework.strict_json import JSON, JSONObject

if TYPE_CHECKING:
    from casework.checkpoints.records import OperationStatus
    from casework.checkpoints.store import CheckpointStore
    from casework.errors import CheckpointError
    from casework.runner.export import ExportRow
    from casework.runtime.project import Project
    from casework.runtime.views.report_cases import ReportedCase

Item = TypeVar("Item")

STANDARD_OUTPUT = "-"


OutputOption = Annotated[
    str,
    typer.Option(
        "--output", "-o", metavar="FILE|-", help="File, - for standard output; zip: a folder."
    ),
]
FieldOption = Annotated[
    list[str] | None,
    typer.Option("--field", metavar="/POINTER", help="CSV, Parquet: this column; may be repeated."),
]


class ExportFormat(StrEnum):
    """What is written."""

    JSONL = "jsonl"
    CSV = "csv"
    PARQUET = "parquet"
    HTML = "html"
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
        json='one document: {"format", "file", "rows"} (html: "cases"; zip: "folder", "packages"); '
        "with -o - the export itself is the output",
        ends=(ExitCode.INTEGRITY,),
    )(export)


def export(
    invocation: Invocation,
    *,
    form: Annotated[ExportFormat, typer.Option("--format", help="What is written.")] = (
        ExportFormat.JSONL
    ),
    output: OutputOption = STANDARD_OUTPUT,
    case: CaseOption = None,
    only: Annotated[Only | None, typer.Option("--only", help="Only these operations.")] = None,
    campaigns: Annotated[
        bool, typer.Option("--campaigns", help="Also what lives on under a later id.")
    ] = False,
    calls: Annotated[bool, typer.Option("--calls", help="Also calls of clients.")] = False,
    fields: FieldOption = None,
    bom: Annotated[bool, typer.Option("--bom", help="CSV: begin with a byte order mark.")] = False,
    formulas: Annotated[
        bool,
        typer.Option("--keep-formulas", help="CSV: put no apostrophe before formulas."),
    ] = False,
    pipeline: PipelineOption = None,
) -> ExitCode:
    """Write results or packages. A file appears whole or not at all.

    jsonl: one object for each case and operation, with where it came from. csv: the same as a
    table, answers flattened by JSON Pointer, safe for spreadsheets. parquet: a table whose types
    come from the pipeline's schemas; needs the extra "parquet". html: a report for people, the
    texts beside the results. zip: each package as a sealed ZIP in a folder; the same generation
    gives the same bytes.
    """
    from casework.checkpoints.index_pages import every_case, pipeline_cases
    from casework.checkpoints.package_files import refuse_forgotten
    from casework.checkpoints.records import OperationStatus
    from casework.runtime.workspace import existing_store, require_cases

    _refuse_screen(form, output)
    project = invocation.project()
    store = existing_store(project)
    require_cases(store, case or ())
    for case_id in case or ():
        refuse_forgotten(store.open(case_id))
    if form is ExportFormat.ZIP:
        return _packages(invocation, store, case or every_case(store), output)
    cases = case or (every_case(store) if calls else pipeline_cases(store))
    status = OperationStatus[only.value.upper()] if only else None
    damaged: dict[str, CheckpointError] = {}
    chosen = _Chosen(store, cases, status, campaigns, calls, damaged)
    table = _Table(project, pipeline, tuple(fields) if fields else None, bom, formulas)
    _write(invocation, table.content(form, chosen), output)
    if output != STANDARD_OUTPUT:
        _tell(invocation, {"format": form.value, "file": output, **chosen.counted})
    for case_id, error in damaged.items():
        invocation.terminal.warn(f"casework: case {case_id} is left out: {error}")
    return ExitCode.INTEGRITY if damaged else ExitCode.SUCCESS


@dataclass(slots=True)
class _Chosen:
    """What is exported, counted on its way out."""

    store: CheckpointStore
    case_ids: Iterable[str]
    only: OperationStatus | None
    campaigns: bool
    calls: bool
    damaged: dict[str, CheckpointError]
    counted: dict[str, JSON] = field(default_factory=dict)

    def rows(self) -> Iterator[ExportRow]:
        from casework.runtime.views.export_rows import export_rows

        rows = export_rows(
            self.store,
            self.case_ids,
            only=self.only,
            every_campaign=self.campaigns,
            calls=self.calls,
            passed_over=self.damaged,
        )
        return self._counting("rows", rows)

    def cases(self) -> Iterator[ReportedCase]:
        from casework.runtime.views.report_cases import reported_cases

        cases = reported_cases(
            self.store,
            self.case_ids,
            only=self.only,
            every_campaign=self.campaigns,
            calls=self.calls,
            passed_over=self.damaged,
        )
        return self._counting("cases", cases)

    def _counting(self, name: str, items: Iterable[Item]) -> Iterator[Item]:
        self.counted = {name: 0}
        for number, item in enumerate(items, start=1):
            self.counted = {name: number}
            yield item


@dataclass(frozen=True, slots=True)
class _Table:
    """How rows become a table, as a person wants it."""

    project: Project
    pipeline: Path | None
    fields: tuple[str, ...] | None
    byte_order_mark: bool
    formulas: bool

    def content(self, form: ExportFormat, chosen: _Chosen) -> Iterator[bytes]:
        from casework.runner.export import jsonl_lines
        from casework.runtime.views.html_report import report_chunks

        match form:
            case ExportFormat.CSV:
                return self._csv(chosen.rows())
            case ExportFormat.PARQUET:
                return self._parquet(chosen.rows())
            case ExportFormat.HTML:
                return report_chunks(self.project.name, chosen.cases())
            case _:
                return jsonl_lines(chosen.rows())

    def _csv(self, rows: Iterable[ExportRow]) -> Iterator[bytes]:
        from casework.runner.csv_table import CsvOptions, csv_lines

        options = CsvOptions(
            fields=self.fields,
            output_schema=self._column_order(),
            byte_order_mark=self.byte_order_mark,
            neutralise=not self.formulas,
        )
        return csv_lines(rows, options)

    def _column_order(self) -> JSONObject | None:
        """Return the schema that gives columns their order, where the pipeline has just one."""
        from casework.runtime.views.status_report import read_settings

        pipeline = read_settings(self.project, self.pipeline).pipeline
        if pipeline is None or len(pipeline.operations) != 1:
            return None
        return pipeline.operations[0].output_schema

    def _parquet(self, rows: Iterable[ExportRow]) -> Iterator[bytes]:
        """Return a table with the columns of all the pipeline's schemas."""
        from casework.runner.csv_table import check_fields
        from casework.runner.operation_ids import pipeline_id
        from casework.runner.parquet_table import ParquetOptions, parquet_chunks, require_pyarrow
        from casework.runner.pipeline import Pipeline

        require_pyarrow()
        check_fields(self.fields or ())
        pipeline = Pipeline.load(self.project.pipeline_file(self.pipeline))
        schemas = {spec.id: spec.output_schema for spec in pipeline.operations}
        options = ParquetOptions(schemas, lambda name: pipeline_id(name, schemas), self.fields)
        return parquet_chunks(rows, options)


def _refuse_screen(form: ExportFormat, output: str) -> None:
    from casework.errors import ConfigurationError

    if form is ExportFormat.PARQUET and output == STANDARD_OUTPUT and sys.stdout.isatty():
        raise ConfigurationError(
            "Parquet is not for the screen",
            code="file_needed",
            where="export",
            remedy="give -o FILE, or a pipe",
        )


def _write(invocation: Invocation, lines: Iterable[bytes], output: str) -> None:
    """Write to standard output as it comes, or to a file whole or not at all."""
    from casework.runner.export import write_lines

    if output != STANDARD_OUTPUT:
        write_lines(Path(output), lines)
        return
    for line in lines:
        invocation.terminal.raw(line)
        if invocation.terminal.reader_gone:
            return


def _tell(invocation: Invocation, written: JSONObject) -> None:
    """Say what was written, and how many."""
    if invocation.terminal.as_json:
        invocation.terminal.document(written)
        return
    place = written.get("file") or written["folder"]
    name, number = list(written.items())[-1]
    invocation.terminal.text(f"{place}: {number:,} {name}")


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
    _tell(invocation, {"format": "zip", "folder": output, "packages": written})
    return ExitCode.SUCCESS
