"""What the oracle may say of a package."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """How much a finding matters."""

    ERROR = "error"
    """The package is not what was committed."""
    NOTE = "note"
    """Something harmless lies about; a crash may leave it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as the commits say."""

    code: str
    path: str
    """The file that is wrong, as a path in the package."""
    detail: str
    severity: Severity = Severity.ERROR


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What the oracle found, and which package it judged."""

    findings: tuple[Finding, ...]
    case_id: str | None = None
    package_id: str | None = None
    generation: int = 0
    forgotten: bool = False
    """Whether the content was removed on purpose, and only the records are left."""

    @property
    def ok(self) -> bool:
        """Tell whether the history is possible and every byte is as committed."""
        return all(finding.severity is Severity.NOTE for finding in self.findings)

    @property
    def errors(self) -> tuple[Finding, ...]:
        """Return the findings that are not mere notes."""
        return tuple(found for found in self.findings if found.severity is Severity.ERROR)
