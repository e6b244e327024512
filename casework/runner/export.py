"""Results on their way out: one record for each case and operation, with where it came from."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from casework.checkpoints.disk import Disk, put_file, refuse_special
from casework.checkpoints.records import OperationStatus
from casework.checkpoints.reviews import Review
from casework.checkpoints.timestamps import write_time
from casework.errors import StorageError
from casework.gateway.messages import Cost, Usage
from casework.strict_json import JSON, JSONObject

_LINE_ENDS: Final = {"\u2028": "\\u2028", "\u2029": "\\u2029", "\u0085": "\\u0085"}
"""Characters that JSON allows in strings and that many readers take for the end of a line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportRow:
    """One operation of one case, finished or not; what is not known is None, never zero."""

    case_id: str
    package_id: str
    generation: int
    analysis_revision: int
    operation_id: str
    status: str
    """What it counts as: its own state, unless a person decided otherwise."""
    output: JSON = None
    """The answer that stands: the validated one, or what a person made of it; None without one."""
    output_sha256: str | None = None
    error: str | None = None
    """The stable code of the failure that ended the operation, also where a person helped out."""
    http_status: int | None = None
    review: Review | None = None
    """A person's newest decision about it."""
    provider: str | None = None
    model: str | None = None
    provider_class: str | None = None
    prompt_version: str | None = None
    prompt_sha256: str | None = None
    request_fingerprint: str | None = None
    config_fingerprint: str | None = None
    rounds_completed: int = 0
    started_at: datetime | None = None
    elapsed_ms: int | None = None
    usage: Usage | None = None
    cost: Cost | None = None

    @property
    def answered(self) -> bool:
        """Tell whether there is an answer, be it null."""
        return self.status == OperationStatus.SUCCESS.value or self.output is not None

    def to_json(self) -> JSONObject:
        """Return the row with its members always in the same order."""
        return {
            "case_id": self.case_id,
            "operation_id": self.operation_id,
            "analysis_revision": self.analysis_revision,
            "status": self.status,
            "output": self.output,
            "error": self.error,
            "http_status": self.http_status,
            "review": _review_to_json(self.review) if self.review else None,
            "provider": self.provider,
            "model": self.model,
            "class": self.provider_class,
            "prompt_version": self.prompt_version,
            "prompt_sha256": self.prompt_sha256,
            "request_fingerprint": self.request_fingerprint,
            "config_fingerprint": self.config_fingerprint,
            "output_sha256": self.output_sha256,
            "package_id": self.package_id,
            "generation": self.generation,
            "rounds_completed": self.rounds_completed,
            "started_at": write_time(self.started_at) if self.started_at else None,
            "elapsed_ms": self.elapsed_ms,
            "usage": self.usage.to_json() if self.usage else None,
            "cost": self.cost.to_json() if self.cost else None,
        }


def _review_to_json(review: Review) -> JSONObject:
    return {
        "verdict": review.verdict.value,
        "number": review.number,
        "actor": review.actor,
        "decided_at": write_time(review.decided_at),
        "reason": review.reason,
        "corrected": [correction.pointer for correction in review.corrections],
        "corrects_sha256": review.corrects_sha256,
    }


def provenance(row: JSONObject) -> dict[str, JSON]:
    """Return the members of a row beside the answer, nested ones as ``usage.total_tokens``."""
    flat: dict[str, JSON] = {}
    for name, value in row.items():
        nested = _NESTED.get(name)
        if nested is not None:
            members = value if isinstance(value, dict) else {}
            flat.update({f"{name}.{member}": members.get(member) for member in nested})
        elif name != "output":
            flat[name] = value
    return flat


_NESTED: Final[Mapping[str, tuple[str, ...]]] = {
    "review": ("verdict", "number", "actor", "decided_at", "reason", "corrected"),
    "usage": ("prompt_tokens", "completion_tokens", "total_tokens"),
    "cost": ("amount", "currency"),
}

EMPTY_ROW: Final = ExportRow(
    case_id="", package_id="", generation=0, analysis_revision=0, operation_id="", status=""
)
"""A row that tells nothing; its members name the columns of every table."""


def jsonl_lines(rows: Iterable[ExportRow]) -> Iterator[bytes]:
    """Yield one JSON object a row, in UTF-8, as a line that every reader takes for one line."""
    for row in rows:
        text = json.dumps(row.to_json(), ensure_ascii=False, allow_nan=False)
        for character, escape in _LINE_ENDS.items():
            if character in text:
                text = text.replace(character, escape)
        yield f"{text}\n".encode()


def write_lines(path: Path, lines: Iterable[bytes], *, disk: Disk | None = None) -> int:
    """Write a file whole or not at all, line by line, and return how many lines it got.

    A file that is there keeps its bytes until the new one is complete and on the disk. A link
    stays, and what it leads to is replaced.

    Raises:
        StorageError: The disk refused, or a folder, a device or a pipe has the name; what was
            there is untouched.
    """
    disk = disk or Disk()
    target = os.path.realpath(path)
    count = 0

    def counted() -> Iterator[bytes]:
        nonlocal count
        for line in lines:
            count += 1
            yield line

    try:
        refuse_special(str(path))
        put_file(disk, target, counted())
    except OSError as error:
        raise StorageError(
            f"the export could not be written: {error.strerror or type(error).__name__}",
            where=str(path),
            remedy="make room or choose another place; nothing was changed",
        ) from None
    return count
