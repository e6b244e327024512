"""Rounds whose start is known and whose end is not: each may have been paid for in vain."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from casework.checkpoints.inflight import Intent, IntentStart, IntentTarget
from casework.checkpoints.store import CheckpointStore
from casework.checkpoints.timestamps import write_time
from casework.gateway.messages import Usage
from casework.gateway.plan import AnyOperationPlan, Target
from casework.gateway.prices import cost_of
from casework.runner.fingerprints import OperationIdentity


def unconfirmed_starts(
    store: CheckpointStore, identity: OperationIdentity, number: int
) -> tuple[IntentStart, ...]:
    """Return the earlier starts of this very round that no outcome answers."""
    announced = store.inflight.look(identity.case_id, identity.ophash)
    intent = announced.newest
    earlier = () if intent is None or intent.round != number else (*intent.earlier, intent.start())
    if announced.damaged:
        return (*earlier, _UNREADABLE)
    return earlier


_UNREADABLE: Final = IntentStart("unknown", (IntentTarget("unknown", "unknown"),))
"""Stands for an announcement that cannot be read: somebody was about to be asked."""


def announce(
    store: CheckpointStore,
    identity: OperationIdentity,
    plan: AnyOperationPlan,
    *,
    number: int,
    earlier: tuple[IntentStart, ...],
    at: datetime,
) -> None:
    """Write down, durably, whom the round is about to ask and what it may cost at most.

    Raises:
        StorageError: It could not be written; nobody may be asked.
    """
    store.inflight.begin(
        Intent(
            case_id=identity.case_id,
            package_id=identity.package_id,
            ophash=identity.ophash,
            operation_id=identity.operation_id,
            round=number,
            started_at=write_time(at),
            targets=tuple(
                _target(target, request_bytes)
                for target in plan.targets
                for request_bytes in plan.calls_of_a_target
            ),
            earlier=earlier,
        )
    )


def withdraw(
    store: CheckpointStore, identity: OperationIdentity, earlier: tuple[IntentStart, ...]
) -> None:
    """Take back the newest announcement, because nobody was asked; earlier starts stay announced.

    Raises:
        StorageError: It could not be written; the start stays announced.
    """
    if not earlier:
        store.inflight.end(identity.case_id, identity.ophash)
        return
    announced = store.inflight.look(identity.case_id, identity.ophash).newest
    if announced is not None:
        *before, last = earlier
        store.inflight.begin(
            replace(
                announced, started_at=last.started_at, targets=last.targets, earlier=tuple(before)
            )
        )


def _target(target: Target[Any, Any], request_bytes: int) -> IntentTarget:
    provider = target.provider
    return IntentTarget(
        provider=provider.id,
        model=target.model,
        provider_class=provider.provider_class.value,
        cost_max=_cost_max(target, request_bytes),
    )


def _cost_max(target: Target[Any, Any], request_bytes: int) -> str | None:
    """Return the most that one call can cost; a token is never shorter than one byte.

    Unknown without rates, and without a token limit, which alone bounds the answer.
    """
    if target.tokens_max is None:
        return None
    usage = Usage(prompt_tokens=request_bytes, completion_tokens=target.tokens_max)
    cost = cost_of(usage, target.provider.rates, currency=target.currency)
    return None if cost is None else f"{cost.amount:f} {cost.currency}"
