"""What one round came to: its attempts, and one of three ends."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeAlias, TypeVar

from casework.config.privacy_profile import ProviderClass
from casework.gateway.errors import FailureKind
from casework.gateway.messages import Cost, Usage
from casework.strict_json import JSON

A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """One call to one target: who, when, and whether the document left for it."""

    provider: str
    model: str
    provider_class: ProviderClass
    key_label: str | None
    started_at: datetime
    elapsed_ms: int
    sent: bool
    """Whether any byte of the request may have reached the provider; True when in doubt."""
    request_bytes: int
    """Size of the messages in UTF-8, whether sent or not."""
    usage: Usage | None
    cost: Cost | None
    reask: bool = False
    """Whether the target was told which rule its answer before this one had broken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A call that failed, and how."""

    served: Served
    kind: FailureKind
    http_status: int | None = None
    schema_pointer: str | None = None
    """JSON Pointer into the schema (never into the answer) of the rule that was broken."""

    @property
    def made(self) -> bool:
        """Tell whether there was a call at all; a limit may have forbidden it."""
        return self.served.sent or self.kind is not FailureKind.LIMIT_REACHED


@dataclass(frozen=True, slots=True)
class Validator:
    """Which engine accepted the answer; verdicts of engines differ, so it is recorded."""

    engine: str
    version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered(Generic[A]):
    """A target gave what the plan takes for an answer."""

    started_at: datetime
    elapsed_ms: int
    attempts: tuple[Attempt, ...]
    """Earlier failures of this round, in order."""
    served: Served
    answer: A


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundSucceeded:
    """A target gave an answer that passed validation."""

    started_at: datetime
    elapsed_ms: int
    attempts: tuple[Attempt, ...]
    """Earlier failures of this round, in order."""
    served: Served
    output: JSON
    surrogates_replaced: int
    validator: Validator


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundErred:
    """A controlled error ended the round; no further target was asked."""

    started_at: datetime
    elapsed_ms: int
    attempts: tuple[Attempt, ...]
    """Earlier failures of this round, in order, without the final one."""
    final: Attempt


@dataclass(frozen=True, slots=True)
class Resting:
    """A target that is not asked for a while."""

    provider: str
    kind: FailureKind
    """The failure that it rests after."""
    seconds: float
    """For how long from now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundUnavailable:
    """Every target failed in a way that may pass."""

    started_at: datetime
    elapsed_ms: int
    attempts: tuple[Attempt, ...]
    retry_after_seconds: float | None
    """The longest wait that a target asked for, not clamped; None if none did. Where a client
    waits: when the first of the targets is no longer at rest."""
    resting: tuple[Resting, ...] = ()
    """Targets that were passed over, because they are at rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRejected:
    """No target was asked, because the input itself rules an answer out."""

    started_at: datetime
    kind: FailureKind


RoundOutcome: TypeAlias = RoundSucceeded | RoundErred | RoundUnavailable
Walked: TypeAlias = Answered[A] | RoundErred | RoundUnavailable
"""What a walk came to, whatever its plan takes for an answer."""
