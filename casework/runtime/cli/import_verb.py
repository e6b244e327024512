"""The verb ``import``: files become cases, and nothing is guessed in silence."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from casework.runtime.cli.exit_codes import ExitCode
from casework.runtime.cli.verb import Invocation, verb
from casework.strict_json import JSON, JSONObject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from casework.runner.documents import ImportItem, ImportOptions, Problem
    from casework.runtime.cli.terminal import Terminal
    from casework.runtime.importing import ImportCount, ImportEvent

STANDARD_INPUT: Final = Path("-")
DEFAULT_NAME: Final = "stdin"
PROBLEMS_SHOWN: Final = 20
PROBLEMS_LISTED: Final = 1000


class ImportFormat(StrEnum):
    """How files are taken apart."""

    AUTO = "auto"
    ZIP = "zip"
    FILES = "files"
    JSONL = "jsonl"
    CSV = "csv"
    TSV = "tsv"
    JSON = "json"
    EML = "eml"
    MBOX = "mbox"


def register(app: typer.Typer) -> None:
    """Add the verb of this file."""
    verb(
        app,
        "import",
        json='one document: {"found", "created", "known", "refused", "problems": [...], ...}',
        ends=(ExitCode.SOME_ERROR, ExitCode.LOCKED),
    )(import_)


def import_(
    invocation: Invocation,
    *,
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Files, folders, or - for standard input."),
    ],
    form: Annotated[
        ImportFormat,
        typer.Option("--format", help="auto goes by the file's ending; files: one case a file."),
    ] = ImportFormat.AUTO,
    id_field: Annotated[
        str | None, typer.Option("--id-field", help="Member or column that holds the case id.")
    ] = None,
    text_field: Annotated[
        str | None, typer.Option("--text-field", help="Member or column that holds the text.")
    ] = None,
    encoding: Annotated[
        str | None, typer.Option("--encoding", help="Read every file so, instead of finding out.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="Standard input: what its cases are named after.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Report only; write nothing.")] = False,
) -> ExitCode:
    """Make a case of each file, and of each record of a file that holds many.

    The case id is the file's relative path. Guessed encodings, empty texts and duplicates are
    reported now, before anything is paid for. Importing the same again changes nothing. Ends with
    3 if something could not be imported.
    """
    from casework.gateway.clock import SystemClock
    from casework.runner.documents import ImportOptions, ProblemCode, RecordFields
    from casework.runtime.importing import ImportCount, import_documents, look_at
    from casework.runtime.workspace import open_store

    options = ImportOptions(
        format=form.value, fields=RecordFields(id_field, text_field), encoding=encoding
    )
    items, anything = _peeked(_items(paths, options, name))
    if dry_run or not anything:
        events = look_at(items)
    else:
        store = open_store(invocation.project(), SystemClock())
        store.prove()
        events = import_documents(items, store)
    count, report = ImportCount(), _Problems(invocation.terminal)
    try:
        for event in events:
            count.add(event)
            report.add(event)
    finally:
        _show(count, report, invocation.terminal, dry_run=dry_run)
    if not dry_run and not invocation.project().config_file.exists():
        invocation.terminal.note("this folder has no settings yet: casework init writes them")
    summary = count.summary()
    if summary.documents == 0 and set(summary.problems) <= {ProblemCode.NOT_FOUND}:
        invocation.terminal.warn("casework: nothing to import was found there [nothing_found]")
        return ExitCode.USAGE
    return ExitCode.SOME_ERROR if summary.refused else ExitCode.SUCCESS


def _items(paths: list[Path], options: ImportOptions, name: str | None) -> Iterator[ImportItem]:
    """Return what is to be imported, from paths or from standard input."""
    from casework.errors import ConfigurationError
    from casework.runner.documents import read_documents

    if STANDARD_INPUT not in paths:
        if name is not None:
            raise ConfigurationError(
                "only standard input is given a name",
                code="name_without_stdin",
                remedy="leave --name out, or import -",
            )
        return read_documents(paths, options)
    if len(paths) > 1 or options.format in {"auto", "zip"}:
        raise ConfigurationError(
            "standard input is imported alone and has no ending to go by",
            code="stdin_format",
            remedy="say casework import - --format jsonl (or files, csv, tsv, json, eml, mbox)",
        )
    return _from_standard_input(name or DEFAULT_NAME, options)


def _from_standard_input(name: str, options: ImportOptions) -> Iterator[ImportItem]:
    from casework.runner.documents import read_stream
    from casework.runtime.importing import standard_input

    with standard_input() as stream:
        yield from read_stream(stream, name, options)


def _peeked(items: Iterator[ImportItem]) -> tuple[Iterator[ImportItem], bool]:
    """Tell whether there is any document, so that a mistyped path makes no project folder."""
    from casework.runner.documents import Document

    seen: list[ImportItem] = []
    for item in items:
        seen.append(item)
        if isinstance(item, Document):
            return chain(seen, items), True
    return iter(seen), False


class _Problems:
    """Remarks on documents: the first ones at once, the rest counted."""

    def __init__(self, terminal: Terminal) -> None:
        self._terminal = terminal
        self._shown: Counter[str] = Counter()
        self.listed: list[JSON] = []
        self.left_out = 0

    def add(self, event: ImportEvent) -> None:
        """Take up what was noticed about one item."""
        from casework.runner.documents import Refusal
        from casework.runtime.importing import Arrived

        match event:
            case Arrived(document):
                for problem in document.problems:
                    self._note(problem, refused=False)
            case Refusal(problem):
                self._note(problem, refused=True)

    def _note(self, problem: Problem, *, refused: bool) -> None:
        if len(self.listed) < PROBLEMS_LISTED:
            self.listed.append(_problem_to_json(problem, refused=refused))
        else:
            self.left_out += 1
        self._shown[problem.code] += 1
        if self._shown[problem.code] <= PROBLEMS_SHOWN:
            self._terminal.note(f"{'refused' if refused else 'note'}: {problem}")
        elif self._shown[problem.code] == PROBLEMS_SHOWN + 1:
            self._terminal.note(f"more remarks of the kind {problem.code} are only counted")


def _problem_to_json(problem: Problem, *, refused: bool) -> JSONObject:
    return {
        "code": problem.code.value,
        "where": problem.where,
        "message": problem.message,
        "refused": refused,
    }


def _show(count: ImportCount, report: _Problems, terminal: Terminal, *, dry_run: bool) -> None:
    """Tell the count; what came in equals what came out."""
    summary = count.summary()
    skipped = sum(summary.skipped.values())
    if terminal.as_json:
        terminal.document(
            {
                "dry_run": dry_run,
                "found": summary.found,
                "created": count.created,
                "known": count.known,
                "would_be_created": count.would_be,
                "refused": summary.refused,
                "skipped": {reason.value: n for reason, n in summary.skipped.items()},
                "bytes": summary.original_bytes,
                "problem_counts": {code.value: n for code, n in summary.problems.items()},
                "problems": report.listed,
                "problems_left_out": report.left_out,
            }
        )
        return
    parts = [f"{count.would_be:,} would be imported"] if dry_run else [f"{count.created:,} new"]
    if count.known:
        parts.append(f"{count.known:,} there already, unchanged")
    parts.append(f"{summary.refused:,} refused")
    terminal.text(f"found {summary.found:,}: {', '.join(parts)}")
    if skipped:
        terminal.text(f"passed over: {skipped:,} hidden or ignored files and folders")
    if summary.problems:
        remarks = ", ".join(f"{code.value} {n:,}" for code, n in summary.problems.items())
        terminal.text(f"remarks: {remarks}")
    if not dry_run and count.created + count.known:
        terminal.note("next: casework run")
