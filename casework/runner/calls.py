"""The calls that an outcome file tells of, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

from casework.runner.outcome_files import calls_in, starts_in
from casework.strict_json import JSONObject, integer_or_none, text_or_none


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call to one provider, as its outcome recorded it."""

    provider: str
    model: str
    code: str | None
    """Why it failed; None for an accepted answer."""
    http_status: int | None
    sent: bool | None
    """Whether any byte may have reached the provider."""
    elapsed_ms: int | None
    prompt_tokens: int | None
    completion_tokens: int | None
    cost: Decimal | None
    currency: str | None


def calls_of(outcome: JSONObject) -> Iterator[Call]:
    """Yield the calls of one round in order: earlier failures, then the one that ended it."""
    return map(_call, calls_in(outcome))


def cut_off_starts(outcome: JSONObject) -> int:
    """Return how often the round was begun before and cut off, its calls perhaps paid in vain."""
    return len(starts_in(outcome))


def _call(body: JSONObject) -> Call:
    usage, cost = body.get("usage"), body.get("cost")
    usage = usage if isinstance(usage, dict) else {}
    cost = cost if isinstance(cost, dict) else {}
    amount, sent = cost.get("amount"), body.get("sent")
    return Call(
        provider=str(body.get("provider")),
        model=str(body.get("model")),
        code=text_or_none(body.get("code")),
        http_status=integer_or_none(body.get("http_status")),
        sent=None if sent is None else bool(sent),
        elapsed_ms=integer_or_none(body.get("elapsed_ms")),
        prompt_tokens=integer_or_none(usage.get("prompt_tokens")),
        completion_tokens=integer_or_none(usage.get("completion_tokens")),
        cost=Decimal(amount) if isinstance(amount, str) else None,
        currency=str(cost.get("currency")) if isinstance(amount, str) else None,
    )
