"""What the demonstration ends with: a table, counts that reconcile, agreement, and the way on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from casework.checkpoints.records import OperationStatus
from casework.runner.export import ExportRow
from casework.runner.inbox_items import PERSON_CODES
from casework.runner.operation_ids import pipeline_id
from casework.runner.pipeline import Pipeline
from casework.runtime.cli.run_session import RunResult, calls_line, result_to_json
from casework.runtime.cli.terminal import Terminal
from casework.runtime.demo import DemoProject, LicenceCase, Score, Verdict, score
from casework.runtime.importing import ImportCount
from casework.runtime.views import phrases
from casework.runtime.views.export_rows import export_rows
from casework.runtime.views.status_view import counts_line
from casework.runtime.workspace import Workspace
from casework.strict_json import JSON, JSONObject

ROWS_SHOWN: Final = 60
INBOX_SHOWN: Final = 5

_FIELDS: Final = ("license_id", "family")
"""Members of an answer that can be compared with the answer key; the first one there is."""


@dataclass(frozen=True, slots=True)
class DemoReport:
    """One run of the demonstration, compared with what the distributions declare."""

    folder: str
    packages: str
    imported: ImportCount
    result: RunResult
    rows: tuple[ExportRow, ...]
    field: str
    """Which member of the answers was compared."""
    score: Score

    @classmethod
    def gather(
        cls,
        prepared: DemoProject,
        workspace: Workspace,
        pipeline: Pipeline,
        *,
        imported: ImportCount,
        result: RunResult,
    ) -> DemoReport:
        """Read the results back from the packages and compare them."""
        declared = {
            item.document.case_id: item.declared
            for item in prepared.items
            if isinstance(item, LicenceCase)
        }
        ids = [spec.id for spec in pipeline.operations]
        rows = tuple(
            row
            for row in export_rows(workspace.store, declared)
            if pipeline_id(row.operation_id, ids) in ids
        )
        answers: dict[str, JSON] = {
            row.case_id: row.output for row in rows if row.status == OperationStatus.SUCCESS
        }
        properties = pipeline.operations[0].output_schema.get("properties")
        members = properties if isinstance(properties, dict) else {}
        field = next((name for name in _FIELDS if name in members), _FIELDS[0])
        return cls(
            folder=str(prepared.folder),
            packages=str(workspace.project.runtime / "cases"),
            imported=imported,
            result=result,
            rows=rows,
            field=field,
            score=score(answers, declared, field=field),
        )

    def show(self, terminal: Terminal, label: str) -> None:
        """Write the report for people."""
        self._show_table(terminal)
        terminal.text("")
        terminal.text(label)
        terminal.text(counts_line(self.result.counts))
        terminal.text(self._reconciliation())
        terminal.text(self._agreement())
        for line in self._inbox_lines():
            terminal.text(line)
        terminal.text(f"packages: {self.packages}")
        option = f"--project {self.folder}"
        terminal.text(f"try next: casework inbox list {option}")
        terminal.text(f"          casework audit --all {option}")
        terminal.text(f"          casework verify {option}")
        terminal.text(calls_line(self.result))

    def to_json(self) -> JSONObject:
        """Return the report as one JSON document."""
        counts, summary = self.score.counts, self.imported.summary()
        return {
            **result_to_json(self.result),
            "imported": {
                "found": summary.found,
                "created": self.imported.created,
                "known": self.imported.known,
                "refused": summary.refused,
            },
            "agreement": {
                "field": self.field,
                **{verdict.value: number for verdict, number in counts.items()},
                "judged": self.score.judged,
                "commonest": self.score.commonest,
            },
            "inbox": [{"case_id": row.case_id, "reason": row.error} for row in self._waiting()],
            "packages": self.packages,
        }

    def _show_table(self, terminal: Terminal) -> None:
        verdicts = {case.case_id: case for case in self.score.cases}
        shown = []
        for row in self.rows[:ROWS_SHOWN]:
            case = verdicts[row.case_id]
            answer = case.answered or row.error or phrases.UNKNOWN
            declared = case.declared or "nothing"
            verdict = case.verdict.value.replace("_", " ")
            shown.append((row.case_id, row.status, answer, declared, verdict))
        terminal.table(("case", "status", self.field, "declared", "verdict"), shown)
        more = len(self.rows) - ROWS_SHOWN
        if more > 0:
            terminal.text(f"... and {more:,} more: casework export --project {self.folder}")

    def _reconciliation(self) -> str:
        counts, summary = self.result.counts, self.imported.summary()
        states = (
            f"{counts.success} done + {counts.error} error + {counts.blocked} inbox + "
            f"{counts.retry} retry + {counts.waiting} waiting + {counts.running} running"
        )
        verdict = "reconciles" if counts.reconciles else "DOES NOT RECONCILE"
        return (
            f"imported {counts.cases:,} cases ({summary.documents:,} of this environment, "
            f"{summary.refused:,} refused): {counts.total:,} operations = {states}; {verdict}"
        )

    def _agreement(self) -> str:
        counts = self.score.counts
        return (
            f"agreement with the declared licences: {counts[Verdict.AGREES]:,} of "
            f"{self.score.judged:,} judged, {counts[Verdict.PARTLY]:,} partly, "
            f"{counts[Verdict.DISAGREES]:,} not; {counts[Verdict.NO_ANSWER]:,} without an answer, "
            f"{counts[Verdict.UNDECLARED]:,} declare nothing usable "
            f"(always answering the commonest would get {self.score.commonest:,})"
        )

    def _waiting(self) -> list[ExportRow]:
        return [
            row
            for row in self.rows
            if row.status == OperationStatus.BLOCKED
            or (row.status == OperationStatus.ERROR and row.error in PERSON_CODES)
        ]

    def _inbox_lines(self) -> list[str]:
        waiting = self._waiting()
        if not waiting:
            return ["inbox: nothing waits for a person"]
        reasons = Counter(row.error or phrases.UNKNOWN for row in waiting)
        why = ", ".join(f"{reason} {number:,}" for reason, number in reasons.most_common())
        lines = [f"inbox: {phrases.plural(len(waiting), 'case')} for a person ({why})"]
        lines += [f"  {row.case_id}: {row.error}" for row in waiting[:INBOX_SHOWN]]
        if len(waiting) > INBOX_SHOWN:
            lines.append(f"  ... and {len(waiting) - INBOX_SHOWN:,} more")
        return lines
