"""The plan of a round: whom it may ask, in which order, and what it takes for an answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Generic, Protocol, TypeAlias, TypeVar

from casework.config.providers import ProviderConfig
from casework.gateway.clock import Deadline
from casework.gateway.errors import POLICY, FailureKind, another_target_may_answer
from casework.gateway.messages import (
    Credential,
    OnInvalidOutput,
    ProviderCall,
    ProviderReply,
    Usage,
)
from casework.gateway.outcomes import Attempt, Validator
from casework.gateway.reask import REASK_BYTES_MAX
from casework.gateway.validation import AcceptedAnswer
from casework.strict_json import JSONObject

C = TypeVar("C")
"""What a target is asked."""
R = TypeVar("R")
"""What it brings back."""
A = TypeVar("A")
"""What is taken for an answer."""
C_contra = TypeVar("C_contra", contravariant=True)
R_co = TypeVar("R_co", covariant=True)


class RoundPolicy(StrEnum):
    """What a failure means for the walk."""

    DURABLE = "durable"
    """One call a target; only what may pass by itself leads to the next target."""
    INTERACTIVE_AUTO = "interactive_auto"
    """Somebody waits: other keys, then other targets, within one deadline."""
    INTERACTIVE_STRICT = "interactive_strict"
    """Somebody waits for this very target: other keys, and nobody else."""

    @property
    def interactive(self) -> bool:
        """Tell whether a client waits, so that targets at rest are passed over."""
        return self is not RoundPolicy.DURABLE

    def goes_on_after(self, kind: FailureKind, http_status: int | None) -> bool:
        """Tell whether the walk asks the next target after this failure."""
        if self.interactive:
            return another_target_may_answer(kind, http_status)
        return POLICY[kind].temporary


class Ask(Protocol[C_contra, R_co]):
    """Ask one target, exactly once."""

    def __call__(
        self, call: C_contra, /, *, credential: Credential | None, deadline: Deadline
    ) -> Awaitable[R_co]:
        """Make the call and return what came back; a ProviderFailure says how it failed."""


@dataclass(frozen=True, slots=True)
class Target(Generic[C, R]):
    """One provider with one model and settings, and the call that it is to be asked."""

    provider: ProviderConfig
    model: str
    """The model's name as the server knows it."""
    ask: Ask[C, R]
    credential: Credential | None
    call: C
    currency: str
    """Currency of its prices, unless its own rates name another."""
    timeout_seconds: float
    """Longest time for one call."""
    tokens_max: int | None
    """The call's own limit of the answer; None where it sets none."""
    keeps_deadlines: bool = False
    """Whether its adapter ends in time, and at once when cancelled, without being watched."""


@dataclass(frozen=True, slots=True)
class Accepted(Generic[A]):
    """What came back is an answer."""

    answer: A
    usage: Usage | None


@dataclass(frozen=True, slots=True)
class Rejected:
    """What came back is none, and why."""

    kind: FailureKind
    usage: Usage | None = None
    schema_pointer: str | None = None


Verdict: TypeAlias = Accepted[A] | Rejected


@dataclass(frozen=True, slots=True)
class Repeats:
    """How often one target may be asked within a round."""

    calls_of_a_key_max: int = 1
    """Calls with one key, while the server is at fault."""
    keys_max: int = 1
    """Keys of one provider, while the keys are at fault."""
    delay_seconds: Callable[[int], float] = lambda _: 0.0
    """The wait after so many failed calls, where the server names none."""


ONCE: Final = Repeats()


def _let_go(_: object) -> None:
    """Do nothing: most of what comes back is only memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(Generic[C, R, A]):
    """The targets that a round walks, in order, and what it asks of them."""

    targets: tuple[Target[C, R], ...]
    """With several keys of a provider, one after another for each key."""
    policy: RoundPolicy
    judge: Callable[[R], Verdict[A]]
    """Decides what is an answer; pure, and it repairs nothing."""
    request_bytes: int
    """Size of what is sent of the document, in UTF-8."""
    deadline: Deadline | None = None
    """When the client is told, whatever came of it; None leaves each call its own time."""
    fair_seconds: float = 0.0
    """A server that was left less time by the deadline is not blamed for being late."""
    repeats: Repeats = ONCE
    on_invalid_output: OnInvalidOutput = OnInvalidOutput.ERROR
    keep_slot: Callable[[A, AsyncExitStack], None] | None = None
    """Hands the provider's slot to an answer that goes on after the walk, such as a stream."""
    discard: Callable[[R], None] = _let_go
    """Closes what came back after nobody waited for it any more."""
    asked_again: Callable[[C, Attempt], tuple[C, int]] | None = None
    """Makes the call of a re-ask, and its size; None where nothing is asked again."""

    @property
    def calls_of_a_target(self) -> tuple[int, ...]:
        """Return the most bytes of messages that each call to one target may send, in order."""
        if self.on_invalid_output is OnInvalidOutput.REASK:
            return self.request_bytes, self.request_bytes + REASK_BYTES_MAX
        return (self.request_bytes,)

    def asks_again_after(self, kind: FailureKind) -> bool:
        """Tell whether the same target is told what its answer broke, and asked once more."""
        return self.on_invalid_output is OnInvalidOutput.REASK and POLICY[kind].reask

    def goes_on_after(self, kind: FailureKind, http_status: int | None) -> bool:
        """Tell whether the walk asks the next target after this failure."""
        passed_on = self.on_invalid_output is OnInvalidOutput.NEXT_PROVIDER
        return self.policy.goes_on_after(kind, http_status) or (
            passed_on and POLICY[kind].another_may_answer
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationPlan(Plan[C, R, A]):
    """The plan of one round of an operation, with what the operation is frozen to."""

    validator: Validator
    """Who judges the answers; stands in every outcome."""
    configuration: JSONObject
    """Everything of the configuration that may change the answer, without addresses or secrets."""
    rounds_max: int
    retry_delay_seconds: float


CasePlan: TypeAlias = OperationPlan[ProviderCall, ProviderReply, AcceptedAnswer]
"""A round of an operation of a pipeline."""
AnyOperationPlan: TypeAlias = OperationPlan[Any, Any, Any]
"""A round of an operation, whatever it asks."""
