"""Answers stand beside their source, and every call is told of."""

from __future__ import annotations

import asyncio
import json

from casework.gateway.errors import FailureKind
from casework.gateway.providers.scripted import Fail, Reply
from casework.runner.documents import (
    Document,
    ImportItem,
    Problem,
    ProblemCode,
    RawFile,
    ReadFile,
    Refusal,
    make_document,
    read_file,
)
from casework.runtime.importing import Arrival, Arrived, ImportCount, import_documents, look_at
from casework.runtime.run.interruption import Interruption
from casework.runtime.views.audit import COLUMNS, AuditRow, Unreadable, audit_all
from casework.runtime.views.evidence import case_evidence
from casework.runtime.views.export_rows import export_rows
from tests.support.pipeline_workspace import Desk

DOWN = Fail(FailureKind.HTTP_429, http_status=429)


def worked() -> Desk:
    """Give a workspace in which one case was answered in its second round."""
    desk = Desk(
        [DOWN, Reply('{"answer": "Line two", "sure": true}')],
        texts={"=a": "Line one\nLine two here\n"},
    )
    asyncio.run(desk.run().run(Interruption()))
    return desk


def test_a_quote_is_found_in_its_line() -> None:
    """A text of the answer that stands in the source is shown with its place."""
    found = case_evidence(worked().store, "=a")
    (operation,) = found.operations
    (quote,) = operation.quotes
    assert ("/answer", "text.txt", 2) == (quote.pointer, quote.file, quote.line)
    assert ("desk", "m-1") == (operation.provider, operation.model)
    assert ">    2  Line two here" in list(found.lines())


def test_a_text_of_many_lines_cannot_forge_the_source() -> None:
    """What a model wrote below its first line begins as no line of the view does."""
    forged = "fine\n--- text.txt\n>    1  Severity: low"
    desk = Desk([Reply(json.dumps({"answer": forged}))], texts={"a": "Severity: high"})
    asyncio.run(desk.run().run(Interruption()))
    shown = "\n".join(case_evidence(desk.store, "a").lines()).split("\n")
    assert ["--- text.txt"] == [line for line in shown if line.startswith("---")]
    assert ["     1  Severity: high"] == [line for line in shown if line[1:].startswith("    1  ")]
    assert "      | --- text.txt" in shown


def test_every_call_is_in_the_audit() -> None:
    """The refused call and the accepted one are rows of their own, with what was sent."""
    rows = [row for row in audit_all(worked().store) if isinstance(row, AuditRow)]
    assert [(1, "http_429"), (2, "accepted")] == [(r.exposure.round, r.result) for r in rows]
    assert ["yes", "yes"] == [row.sent for row in rows]
    assert len(COLUMNS) == len(rows[0].cells(local=False))


def test_a_damaged_case_is_named_and_the_others_follow() -> None:
    """A case that cannot be opened is one row, not the end."""
    desk = Desk([Reply('{"answer": 1}')], texts={"a": "One."})
    asyncio.run(desk.run().run(Interruption()))
    state = next(iter(desk.store.open("a").operations.values()))
    path = state.artifacts[-1].path
    folder = next(iter(desk.store._storage.list("cases")))
    (case,) = desk.store._storage.list(f"cases/{folder[:-1]}")
    desk.store._storage.delete(f"cases/{folder}{case}{path}")
    (row,) = audit_all(desk.store)
    assert isinstance(row, Unreadable)


def test_export_rows_follow_the_newest_campaign() -> None:
    """What lives on under a later id is left out, unless all campaigns are wanted."""
    desk = Desk([Reply("no JSON")], texts={"a": "One."})
    asyncio.run(desk.run().run(Interruption()))
    head = desk.store.open("a")
    desk.store.resume("a", head.package_id, "first", new_operation_id="first@2")
    newest = [row.operation_id for row in export_rows(desk.store, ["a"])]
    every = [row.operation_id for row in export_rows(desk.store, ["a"], every_campaign=True)]
    assert (["first@2"], ["first", "first@2"]) == (newest, every)


def document(case_id: str, text: bytes) -> Document:
    file = read_file(RawFile("text.txt", text, case_id))
    assert isinstance(file, ReadFile)
    return make_document(case_id, [file], source=case_id)


def test_an_import_counts_what_it_met() -> None:
    """New, known, changed and refused items add up, in their order."""
    desk = Desk([DOWN], texts={"x": "One."})
    items: list[ImportItem] = [
        document("p", b"P."),
        Refusal(Problem(ProblemCode.BINARY, "q", "is no text")),
    ]
    first = list(import_documents(items, desk.store))
    second = list(import_documents([document("p", b"P."), document("p2", b"P.")], desk.store))
    changed = list(import_documents([document("p", b"Other.")], desk.store))
    assert [Arrival.CREATED] == [e.arrival for e in first if isinstance(e, Arrived)]
    assert [Arrival.KNOWN, Arrival.CREATED] == [e.arrival for e in second if isinstance(e, Arrived)]
    assert [ProblemCode.DUPLICATE_ID] == [e.problem.code for e in changed if isinstance(e, Refusal)]
    count = ImportCount()
    for event in (*first, *second, *changed):
        count.add(event)
    summary = count.summary()
    assert (2, 1, 2, 5) == (count.created, count.known, summary.refused, summary.found)


def test_a_dry_run_writes_nothing() -> None:
    """What would be imported is counted, and the store stays as it was."""
    (event,) = look_at([document("p", b"P.")])
    assert isinstance(event, Arrived)
    assert Arrival.WOULD_BE is event.arrival
