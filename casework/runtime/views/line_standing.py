"""How the line of a project stands: paused or not, whose limits are reached, what money is left."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from casework.config.gateway_config import GatewayConfig
from casework.config.providers import ProviderConfig
from casework.errors import StorageError
from casework.gateway.clock import Clock, steady_time
from casework.gateway.privacy import judge
from casework.runtime.line.budget import Cap, Standing, add_up, plain
from casework.runtime.line.budget_keeper import MONEY, Spent
from casework.runtime.line.limit_windows import Closed, day_of
from casework.runtime.line.line_governor import caps_of
from casework.runtime.line.line_state import Ledger, LineState
from casework.runtime.line.orders import LineOrders, Paused
from casework.runtime.views import phrases
from casework.strict_json import JSON, JSONObject


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitStanding:
    """How a provider stands under its limits."""

    provider: str
    closed: Closed | None
    today: int | None
    """Calls of its day, all processes together; None where no day is limited."""
    per_day: int | None
    resets_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetStanding:
    """How the money stands under one bound."""

    cap: Cap
    limit: Decimal
    standing: Standing | None
    """None where nobody has counted yet; the next run does."""


@dataclass(frozen=True, slots=True)
class OutageStanding:
    """Since when nobody answers, and when a single round finds out whether that has changed."""

    since: datetime
    next_canary_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class LineStanding:
    """Everything that may hold the line back."""

    paused: Paused | None = None
    outage: OutageStanding | None = None
    limits: tuple[LimitStanding, ...] = ()
    budget: tuple[BudgetStanding, ...] = ()
    currency: str = ""
    unpriced: int = 0
    """Calls that are in no sum, because nobody can put a price on them."""
    cancelled: int = 0


def line_standing(
    orders: LineOrders, state: LineState | None, *, config: GatewayConfig | None, clock: Clock
) -> LineStanding:
    """Look how the line stands; counts nothing anew and contacts nobody.

    Args:
        orders: What a person ordered.
        state: What processes share; None where no process has shared anything yet.
        config: The settings; None where there are none to be read.
        clock: The time.
    """
    now = clock.now()
    paused, cancelled = orders.paused(), len(orders.cancelled())
    if state is None:
        return LineStanding(paused=paused, cancelled=cancelled)
    with suppress(StorageError):
        outage = _outage(state, clock)
        if config is None:
            return LineStanding(paused=paused, cancelled=cancelled, outage=outage)
        budget, unpriced = _budget(state, config, now)
        return LineStanding(
            paused=paused,
            cancelled=cancelled,
            outage=outage if config.outage.enabled else None,
            limits=tuple(_limits(state, config, clock)),
            budget=budget,
            currency=config.cost.currency,
            unpriced=unpriced,
        )
    return LineStanding(paused=paused, cancelled=cancelled)


def _outage(state: LineState, clock: Clock) -> OutageStanding | None:
    shared = state.outage()
    if shared is None:
        return None
    wait = shared.next_canary_at - steady_time(clock)
    return OutageStanding(shared.since, clock.now() + max(wait, timedelta()))


def _limits(state: LineState, config: GatewayConfig, clock: Clock) -> Iterator[LimitStanding]:
    for verdict in judge(config, None):
        if verdict.eligible and verdict.provider.limits is not None:
            yield _limit(state, verdict.provider, clock)


def _limit(state: LineState, provider: ProviderConfig, clock: Clock) -> LimitStanding:
    limits, now = provider.limits, clock.now()
    assert limits is not None
    daily = limits.requests_per_day is not None
    return LimitStanding(
        provider=provider.id,
        closed=state.closed(provider.id, limits, now=now, steady=steady_time(clock)),
        today=state.calls_today(provider.id, limits, now=now) if daily else None,
        per_day=limits.requests_per_day,
        resets_at=day_of(now, limits).ends_at if daily else None,
    )


def _budget(
    state: LineState, config: GatewayConfig, now: datetime
) -> tuple[tuple[BudgetStanding, ...], int]:
    caps = caps_of(config)
    if not caps.bounded:
        return (), 0
    spent = Spent(config.budget)

    def look(ledger: Ledger) -> Decimal:
        spent.read(ledger, now)
        return add_up(entry.amount for entry in ledger.set_aside())

    aside = state.in_ledger(look)
    counted = MONEY in state.counted()
    sums = {Cap.TOTAL: spent.total, Cap.PER_DAY: spent.today}
    found = (
        BudgetStanding(
            cap=cap,
            limit=limit,
            standing=Standing(spent=amount, set_aside=aside) if counted else None,
        )
        for cap, amount in sums.items()
        if (limit := caps.of(cap)) is not None
    )
    return tuple(found), spent.unpriced


def standing_lines(standing: LineStanding) -> Iterator[str]:
    """Yield a line for each thing that holds the line back, or may do so soon."""
    yield from standstill_lines(standing)
    if standing.limits:
        yield "limits  " + "      ".join(map(_limit_phrase, standing.limits))
    if standing.budget:
        unpriced = ""
        if standing.unpriced:
            unpriced = f"  and {phrases.plural(standing.unpriced, 'call')} of unknown price"
        parts = (_budget_phrase(entry, standing.currency) for entry in standing.budget)
        yield "budget  " + "      ".join(parts) + unpriced
    yield from _cancelled_lines(standing)


def standstill_lines(standing: LineStanding) -> Iterator[str]:
    """Yield why nothing is begun at all, if it is so."""
    if standing.paused is not None:
        reason = f": {standing.paused.reason}" if standing.paused.reason else ""
        since = phrases.local_time(standing.paused.at)
        yield f"paused by hand since {since}{reason}  (casework resume)"
    if standing.outage is not None:
        since = phrases.local_time(standing.outage.since)
        again = phrases.local_time(standing.outage.next_canary_at)
        yield f"outage  nobody answers since {since}, next single try {again}"


def hold_lines(standing: LineStanding) -> Iterator[str]:
    """Yield all that keeps work from being begun, for a run that ends with work left over."""
    yield from standstill_lines(standing)
    for limit in standing.limits:
        if limit.closed is not None:
            until = phrases.local_time(limit.closed.opens_at)
            yield f"limit  {limit.provider} is at {limit.closed.kind} until {until}"
    yield from _cancelled_lines(standing)


def _cancelled_lines(standing: LineStanding) -> Iterator[str]:
    if standing.cancelled:
        cancelled = phrases.plural(standing.cancelled, "operation")
        way = "casework cancel --undo, with CASE or --all"
        yield f"cancelled  {cancelled}  (begin them after all: {way})"


def _limit_phrase(limit: LimitStanding) -> str:
    told = limit.provider
    if limit.per_day is not None and limit.today is not None:
        told += f"  {phrases.count(limit.today)} of {phrases.count(limit.per_day)} calls today"
        told += f" (new day {phrases.local_time(limit.resets_at)})"
    if limit.closed is not None:
        told += f"  at {limit.closed.kind} until {phrases.local_time(limit.closed.opens_at)}"
    elif limit.per_day is None:
        told += "  below its limits"
    return told


def _budget_phrase(entry: BudgetStanding, currency: str) -> str:
    name = {Cap.TOTAL: "in all", Cap.PER_DAY: "today", Cap.RUN: "this run"}[entry.cap]
    if entry.standing is None:
        return f"{plain(entry.limit)} {currency} {name}, not counted yet"
    share = f" ({int(100 * entry.standing.spent / entry.limit)}%)" if entry.limit else ""
    aside = entry.standing.set_aside
    running = f", {plain(aside)} set aside" if aside else ""
    spent = f"{plain(entry.standing.spent)} of {plain(entry.limit)} {currency}"
    return f"{spent} {name}{share}{running}"


def standing_to_json(standing: LineStanding) -> JSONObject:
    """Return the standing as JSON carries it; times in UTC, amounts as text."""
    limits: list[JSON] = [
        {
            "provider": limit.provider,
            "calls_today": limit.today,
            "requests_per_day": limit.per_day,
            "resets_at": phrases.utc_time(limit.resets_at),
            "reached": limit.closed.kind.value if limit.closed else None,
            "opens_at": phrases.utc_time(limit.closed.opens_at) if limit.closed else None,
        }
        for limit in standing.limits
    ]
    budget: list[JSON] = [
        {
            "bound": entry.cap.value,
            "limit": plain(entry.limit),
            "currency": standing.currency,
            "spent": plain(entry.standing.spent) if entry.standing else None,
            "set_aside": plain(entry.standing.set_aside) if entry.standing else None,
        }
        for entry in standing.budget
    ]
    paused: JSONObject | None = None
    if standing.paused is not None:
        since = phrases.utc_time(standing.paused.at)
        paused = {"since": since, "reason": standing.paused.reason}
    outage: JSONObject | None = None
    if standing.outage is not None:
        outage = {
            "since": phrases.utc_time(standing.outage.since),
            "next_canary_at": phrases.utc_time(standing.outage.next_canary_at),
        }
    return {
        "paused": paused,
        "outage": outage,
        "limits": limits,
        "budget": budget,
        "calls_of_unknown_price": standing.unpriced,
        "cancelled": standing.cancelled,
    }
