"""Whether a round may begin under a budget, as exact arithmetic.

A round may begin if what was spent, what is set aside for running rounds and the dearest course of
this round stay within every cap. Its dearest course asks every target, each call at its upper
bound. What is unknown is never taken for zero, and currencies are never mixed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Context, Decimal
from enum import StrEnum
from typing import Final

from casework.gateway.cost_bounds import call_cost_max
from casework.gateway.plan import AnyOperationPlan

ZERO: Final = Decimal(0)

_EXACT: Final = Context(prec=80)
"""Wide enough for the sum of more amounts than a project can hold."""


class Cap(StrEnum):
    """What bounds the money."""

    TOTAL = "total"
    PER_DAY = "per_day"
    RUN = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """The bounds, in one currency; None is no bound."""

    currency: str
    total: Decimal | None = None
    per_day: Decimal | None = None
    run: Decimal | None = None
    """For one run, from its command line."""
    unknown_price_per_call: Decimal | None = None
    """What a call of unknown price counts; None lets none be made."""

    @property
    def bounded(self) -> bool:
        """Tell whether anything is bounded."""
        return any(cap is not None for cap in (self.total, self.per_day, self.run))

    def of(self, cap: Cap) -> Decimal | None:
        """Return one bound."""
        match cap:
            case Cap.TOTAL:
                return self.total
            case Cap.PER_DAY:
                return self.per_day
            case Cap.RUN:
                return self.run


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Money under one bound."""

    spent: Decimal = ZERO
    set_aside: Decimal = ZERO
    """For rounds that run now."""

    @property
    def committed(self) -> Decimal:
        """Return what is spent or may be."""
        return _EXACT.add(self.spent, self.set_aside)


@dataclass(frozen=True, slots=True)
class Unpriced:
    """Why the cost of a round has no bound in the budget's currency."""

    provider: str
    problem: str

    def sentence(self) -> str:
        """Return one sentence for people, with the way out."""
        return f"provider {self.provider!r} {self.problem}"


@dataclass(frozen=True, slots=True, kw_only=True)
class OverBudget:
    """Why a round may not begin: the bound that it could cross, and the numbers."""

    cap: Cap
    limit: Decimal
    standing: Standing
    next_max: Decimal
    currency: str

    def sentence(self) -> str:
        """Return one sentence for people."""
        aside = self.standing.set_aside
        running = f", {plain(aside)} set aside" if aside else ""
        return (
            f"the budget {_NAMES[self.cap]} is {plain(self.limit)} {self.currency}: "
            f"{plain(self.standing.spent)} spent{running}, "
            f"the next round may cost {plain(self.next_max)}"
        )


_NAMES: Final = {Cap.TOTAL: "of the project", Cap.PER_DAY: "of the day", Cap.RUN: "of this run"}


def dearest_course(plan: AnyOperationPlan, caps: Caps) -> Decimal | Unpriced:
    """Return the most that a round can cost, or why nobody can tell."""
    total = ZERO
    for target in plan.targets:
        rates = target.provider.rates
        if rates is not None and (rates.currency or target.currency) != caps.currency:
            return Unpriced(
                target.provider.id,
                f"charges in another currency than the budget's {caps.currency}; "
                "set its rates in that currency, or disable it",
            )
        for request_bytes in plan.calls_of_a_target:
            cost = call_cost_max(target, request_bytes)
            amount = caps.unknown_price_per_call if cost is None else cost.amount
            if amount is None:
                return Unpriced(
                    target.provider.id,
                    "has no rates, so what it costs is unknown; set its rates (0 if it is your "
                    "own) or unknown_price_per_call in [budget]",
                )
            total = _EXACT.add(total, amount)
    return total


def judge_next(
    next_max: Decimal, standings: dict[Cap, Standing], *, caps: Caps
) -> OverBudget | None:
    """Return the first bound that a round could cross; None if it may begin."""
    for cap, standing in standings.items():
        limit = caps.of(cap)
        if limit is not None and _EXACT.add(standing.committed, next_max) > limit:
            return OverBudget(
                cap=cap,
                limit=limit,
                standing=standing,
                next_max=next_max,
                currency=caps.currency,
            )
    return None


def add_up(amounts: Iterable[Decimal]) -> Decimal:
    """Return the exact sum of some amounts."""
    total = ZERO
    for amount in amounts:
        total = _EXACT.add(total, amount)
    return total


def plain(amount: Decimal) -> str:
    """Write an amount without an exponent and without needless zeros."""
    text = format(amount, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
