"""Verbs that look into packages and change nothing: ``inspect``, ``audit``, ``verify``."""

from __future__ import annotations

from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, Annotated

import typer

from casework.runtime.cli.exit_codes import ExitCode
from casework.runtime.cli.verb import Invocation, verb
from casework.strict_json import JSON

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from casework.checkpoints.findings import VerifyReport
    from casework.checkpoints.inspection import Inspection
    from casework.runtime.views.audit import AuditRow, Unreadable


class AuditFormat(StrEnum):
    """How the rows of an audit are written."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def register(app: typer.Typer) -> None:
    """Add the verbs of this file."""
    verb(
        app,
        "inspect",
        json='one document: {"case_id", "package_id", "generation", "operations", ...}; '
        "with --timeline or --all JSON lines, with --request or --outcome the stored document",
        ends=(ExitCode.INTEGRITY,),
    )(inspect)
    verb(
        app,
        "audit",
        json='JSON lines: {"case_id", "provider", "model", "class", "started_at", "sent", ...}',
        ends=(ExitCode.INTEGRITY,),
    )(audit)
    verb(
        app,
        "verify",
        json='JSON lines: {"path", "case_id", "ok", "generation", "findings": [...]}',
        ends=(ExitCode.INTEGRITY,),
    )(verify)


def inspect(
    invocation: Invocation,
    *,
    case: Annotated[
        str | None, typer.Argument(metavar="[CASE]", help="Case id, package folder or ZIP.")
    ] = None,
    operation: Annotated[str | None, typer.Argument(metavar="[OP]")] = None,
    every: Annotated[bool, typer.Option("--all", help="List the cases of the project.")] = False,
    timeline: Annotated[bool, typer.Option("--timeline", help="Every commit.")] = False,
    request: Annotated[bool, typer.Option("--request", help="What was asked.")] = False,
    outcome: Annotated[bool, typer.Option("--outcome", help="What a round came to.")] = False,
    number: Annotated[
        int | None, typer.Option("--round", min=1, help="Which round; by default the last.")
    ] = None,
    raw: Annotated[
        bool, typer.Option("--raw", help="The stored bytes, unchanged (outcome or --request).")
    ] = False,
) -> ExitCode:
    """Look into one package: in the project, in a folder, or in a ZIP. Read-only.

    No settings are needed. Everything shown is checked against the commits. The stored request
    and outcomes hold the text of the document.
    """
    from casework.checkpoints.inspection import inspect_package
    from casework.errors import ConfigurationError
    from casework.runtime.package_places import package_at
    from casework.runtime.views import inspecting

    terminal = invocation.terminal
    if (case is None) != every:
        raise ConfigurationError(
            "name a case, or --all", code="nothing_chosen", where="inspect", remedy="one of both"
        )
    if case is None:
        _list_cases(invocation)
        return ExitCode.SUCCESS
    with inspect_package(package_at(case, invocation.project())) as package:
        if timeline:
            _timeline(invocation, package)
        elif request or outcome or raw:
            state = inspecting.only_operation(package, operation)
            path = inspecting.stored_path(state, outcome=not request, round_number=number)
            content = package.read(path)
            if raw:
                terminal.raw(content)
            else:
                _stored(invocation, content)
        elif terminal.as_json:
            terminal.document(inspecting.package_to_json(package))
        else:
            _overview(invocation, package, operation)
    return ExitCode.SUCCESS


def _overview(invocation: Invocation, package: Inspection, operation: str | None) -> None:
    from casework.runtime.views import inspecting

    for line in inspecting.package_lines(package):
        invocation.terminal.text(line)
    rows = [
        inspecting.operation_row(state)
        for state in package.operations()
        if operation in (None, state.operation_id)
    ]
    if operation is not None and not rows:
        package.operation(operation)  # refuses, and says where the others are
    invocation.terminal.table(inspecting.OPERATION_COLUMNS, rows)


def _list_cases(invocation: Invocation) -> None:
    from casework.checkpoints.index_pages import every_package
    from casework.runtime.views import inspecting
    from casework.runtime.workspace import existing_store

    packages = every_package(existing_store(invocation.project()).index)
    if invocation.terminal.as_json:
        for package in packages:
            invocation.terminal.json_line(inspecting.case_to_json(package))
    else:
        invocation.terminal.table(inspecting.CASE_COLUMNS, map(inspecting.case_row, packages))


def audit(
    invocation: Invocation,
    *,
    case: Annotated[list[str] | None, typer.Argument(metavar="[CASE]...")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every case of the project.")] = False,
    form: Annotated[AuditFormat, typer.Option("--format", help="How rows are written.")] = (
        AuditFormat.TABLE
    ),
) -> ExitCode:
    """Say which provider saw which document: one row for each call, failed ones too.

    Class, time, size, result, and whether anything was sent. A call whose end nobody saw is
    listed as unconfirmed: the document may have been seen, and paid for, twice.
    """
    from casework.checkpoints.package_files import refuse_forgotten
    from casework.errors import ConfigurationError
    from casework.runtime.views.audit import audit as audit_cases
    from casework.runtime.views.audit import audit_all
    from casework.runtime.workspace import existing_store, require_cases

    if bool(case) == every:
        raise ConfigurationError(
            "name cases, or --all", code="nothing_chosen", where="audit", remedy="one of both"
        )
    store = existing_store(invocation.project())
    require_cases(store, case or ())
    for case_id in case or ():
        refuse_forgotten(store.open(case_id))
    rows = audit_all(store) if every else audit_cases(store, case or ())
    form = AuditFormat.JSON if invocation.terminal.as_json else form
    damaged = _write_audit(invocation, rows, form)
    return ExitCode.INTEGRITY if damaged else ExitCode.SUCCESS


def verify(
    invocation: Invocation,
    *,
    target: Annotated[list[str] | None, typer.Argument(metavar="[CASE|FILE.zip|FOLDER]...")] = None,
    every: Annotated[bool, typer.Option("--all", help="Every package of the project.")] = False,
) -> ExitCode:
    """Judge packages: is their history possible, and is every byte what was committed?

    Needs no settings and no network and writes nothing. Without a target it judges every package
    of the project. Ends with 6 if anything is wrong. Notes are harmless: a crash may leave them.
    """
    from casework.checkpoints.verify import never_begun
    from casework.checkpoints.verify import verify as judge
    from casework.runtime.package_places import all_packages, package_at
    from casework.runtime.views import phrases

    project, terminal = invocation.project(), invocation.terminal
    paths: Iterable[Path] = all_packages(project) if every or not target else ()
    reports = ((path, never_begun(path) or judge(path)) for path in paths)
    named = ((path, judge(path)) for path in (package_at(name, project) for name in target or ()))
    sound = wrong = unborn = 0
    for path, report in chain(reports, named):
        unborn += report.ok and not report.generation
        sound += report.ok and report.generation > 0
        wrong += not report.ok
        _show_report(invocation, path, report)
    if not terminal.as_json:
        cut_off = f"; {unborn:,} cut off before the first commit, to be imported again"
        told = f"{phrases.plural(sound, 'package')} sound, {wrong:,} not"
        terminal.text(told + (cut_off if unborn else ""))
    return ExitCode.INTEGRITY if wrong else ExitCode.SUCCESS


def _timeline(invocation: Invocation, package: Inspection) -> None:
    from casework.runtime.views import inspecting

    terminal = invocation.terminal
    if terminal.as_json:
        for entry in package.timeline():
            terminal.json_line(inspecting.entry_to_json(entry))
        return
    terminal.table(inspecting.TIMELINE_COLUMNS, map(inspecting.entry_row, package.timeline()))


def _stored(invocation: Invocation, content: bytes) -> None:
    """Write a stored document in a readable form."""
    from casework.strict_json import parse

    invocation.terminal.document(parse(content))


def _write_audit(
    invocation: Invocation, rows: Iterable[AuditRow | Unreadable], form: AuditFormat
) -> int:
    """Write the rows and return how many cases could not be read."""
    from casework.runner.csv_table import csv_line
    from casework.runtime.views.audit import COLUMNS, Unreadable

    terminal, table, damaged = invocation.terminal, list[tuple[str, ...]](), 0
    if form is AuditFormat.CSV:
        terminal.raw(csv_line(COLUMNS))
    for row in rows:
        if terminal.reader_gone:
            break
        if isinstance(row, Unreadable):
            damaged += 1
            terminal.warn(f"casework: case {row.case_id}: {row.error}")
        elif form is AuditFormat.JSON:
            terminal.json_line(row.to_json())
        elif form is AuditFormat.CSV:
            terminal.raw(csv_line(row.cells(local=False)))
        else:
            table.append(row.cells(local=True))
    if form is AuditFormat.TABLE:
        terminal.table(COLUMNS, table)
    return damaged


def _show_report(invocation: Invocation, path: Path, report: VerifyReport) -> None:
    terminal = invocation.terminal
    if terminal.as_json:
        findings: list[JSON] = [
            {
                "code": found.code,
                "path": found.path,
                "detail": found.detail,
                "severity": found.severity.value,
            }
            for found in report.findings
        ]
        terminal.json_line(
            {
                "path": str(path),
                "case_id": report.case_id,
                "package_id": report.package_id,
                "generation": report.generation,
                "ok": report.ok,
                "findings": findings,
            }
        )
        return
    name = report.case_id or str(path)
    shown = report.findings if terminal.verbose else report.errors
    for found in shown:
        terminal.text(f"{name}: {found.path}: {found.detail} [{found.code}]")
    if terminal.verbose and report.ok and report.generation:
        terminal.text(f"{name}: sound, generation {report.generation}")
