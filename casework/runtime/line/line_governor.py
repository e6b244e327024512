"""The governor of a project's line: a person's orders, limits of calls, outages, the budget."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from casework.checkpoints.store import CheckpointStore
from casework.config.gateway_config import GatewayConfig
from casework.config.limits import OutageConfig
from casework.errors import StorageError
from casework.gateway.clock import Clock
from casework.gateway.plan import AnyOperationPlan
from casework.gateway.privacy import judge
from casework.runner.operation_result import OperationResult
from casework.runtime.line.budget import Caps
from casework.runtime.line.budget_keeper import (
    MONEY,
    BudgetKeeper,
    Refused,
    recount,
    release_the_dead,
)
from casework.runtime.line.governor import UNBOUNDED, Hold, HoldReason
from casework.runtime.line.line_gate import earliest_opening
from casework.runtime.line.line_state import LineState
from casework.runtime.line.orders import LineOrders
from casework.runtime.line.outage import LinePhase, OutageRule
from casework.runtime.line.outage_keeper import OutageKeeper
from casework.runtime.line.spending import Pricing
from casework.runtime.line.work import Work

_LOG = logging.getLogger(__name__)

ORDER_SECONDS: Final = 2.0
"""How soon a line that a person paused looks whether it may go on."""

BUDGET_SECONDS: Final = 2.0
"""How soon a round is judged again that only money set aside for others kept from beginning."""

SPENT_SECONDS: Final = 20.0
"""How soon one is judged again that would not fit if nothing were set aside either."""

CANARY_SLACK_SECONDS: Final = 60.0
"""What a canary's round may take beyond its calls."""

OTHERS_LOOKED_AT: Final = 16
"""How many due operations are looked at for one that has more rounds left."""


@dataclass(frozen=True, slots=True)
class LineParts:
    """What a line consists of."""

    store: CheckpointStore
    config: GatewayConfig
    clock: Clock
    state: LineState
    orders: LineOrders


class LineGovernor:
    """Says what one process may begin, beside the other processes of its project.

    To be used inside :meth:`at_work`.

    Args:
        parts: The line.
        owner: This process, as others know it; no two are ever called the same.
        concurrency: Rounds at once.
        chance: Returns a random number from 0 to 1.
        run_budget: The most that this run may spend, in the currency of ``[cost]``.
    """

    def __init__(
        self,
        parts: LineParts,
        *,
        owner: str,
        concurrency: int,
        chance: Callable[[], float],
        run_budget: Decimal | None = None,
    ) -> None:
        self._parts = parts
        self._owner = owner
        config, clock = parts.config, parts.clock
        self.caps = caps_of(config, run_budget)
        self._pricing = Pricing(config, self.caps)
        self._budget = BudgetKeeper(
            self.caps, config.budget, state=parts.state, pricing=self._pricing, owner=owner
        )
        self._outage: OutageKeeper | None = None
        if config.outage.enabled:
            self._outage = OutageKeeper(
                rule_of(config.outage),
                state=parts.state,
                clock=clock,
                chance=chance,
                concurrency=concurrency,
            )
        self._eligible = [v.provider for v in judge(config, None) if v.eligible]
        first = self._eligible[0].limits if self._eligible else None
        self._first_max = first.max_concurrency if first else None
        self._counts = _kept_counts(config, self.caps)
        self._refused: Refused | None = None
        self._refused_at = 0.0

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Count what has to be counted, and show a sign of life, while the context lasts.

        Raises:
            StorageError: What processes share cannot be used.
        """
        store, state = self._parts.store, self._parts.state
        with store.lock(_sign(self._owner)):
            self._count_without_gap()
            if MONEY in state.counted():
                release_the_dead(store, state, pricing=self._pricing, sign=_sign)
            if self._outage is not None:
                self._outage.start()
            try:
                yield
            finally:
                store.locks.discard(_sign(self._owner))

    def room(self, running: int) -> int | Hold:
        """Return how many more rounds may be begun at this moment, at least one, or why none."""
        hold = self._order() or self._over_budget() or self._at_limit()
        if hold is not None:
            return hold
        room = UNBOUNDED
        if self._outage is not None:
            allowed = self._outage.room(running)
            if allowed <= 0:
                return Hold(HoldReason.OUTAGE, self._outage.seconds_until_room())
            if self._outage.watch.phase is not LinePhase.OPEN:
                room = allowed
        if self._first_max is not None:
            room = min(room, self._first_max - running)
        return room if room > 0 else Hold(HoldReason.LIMIT, None)

    def reserve(self, work: Work, plan: AnyOperationPlan) -> Hold | None:
        """Set aside what a round may cost and use, or return why it may not run now."""
        if work.key in self._parts.orders.cancelled():
            return Hold(HoldReason.CANCELLED, None)
        hold = self._order()
        if hold is not None or not plan.targets:
            return hold
        self._make_up_what_was_lost()
        seconds = earliest_opening(
            self._parts.state,
            [target.provider for target in plan.targets],
            clock=self._parts.clock,
        )
        if seconds is not None:
            return Hold(HoldReason.LIMIT, seconds)
        if not self._outage_lets(work, plan):
            assert self._outage is not None
            return Hold(HoldReason.OUTAGE, self._outage.seconds_until_room())
        hold = self._reserve_money(work, plan)
        if hold is not None and self._outage is not None:
            self._outage.let_go(work.key)
        return hold

    def ended(self, work: Work, result: OperationResult | None) -> None:
        """Take note of a round that was reserved; None if it left no result."""
        try:
            self._note_money(work, result)
        except StorageError as error:
            # What was set aside stays so until this process ends; then the packages are asked.
            _LOG.warning("a round's cost is not noted", extra={"action": error.code})
        if self._refused is not None and not self._refused.for_good:
            self._refused = None
        if self._outage is not None:
            self._outage.ended(work.key, result)

    def _order(self) -> Hold | None:
        paused = self._parts.orders.paused()
        if paused is None:
            return None
        return Hold(HoldReason.PAUSED, ORDER_SECONDS, paused.reason)

    def _at_limit(self) -> Hold | None:
        if not self._eligible:
            return None
        seconds = earliest_opening(self._parts.state, self._eligible, clock=self._parts.clock)
        return None if seconds is None else Hold(HoldReason.LIMIT, seconds)

    def _over_budget(self) -> Hold | None:
        """Return the hold of the last refusal until something can have changed."""
        refused = self._refused
        if refused is None:
            return None
        age = self._parts.clock.monotonic() - self._refused_at
        wait = SPENT_SECONDS if refused.for_good else BUDGET_SECONDS
        if age >= wait:
            return None
        seconds = None if refused.for_good else BUDGET_SECONDS
        return Hold(HoldReason.BUDGET, seconds, refused.sentence)

    def _reserve_money(self, work: Work, plan: AnyOperationPlan) -> Hold | None:
        if not self.caps.bounded:
            return None
        self._refused = self._budget.reserve(work, plan, now=self._parts.clock.now())
        self._refused_at = self._parts.clock.monotonic()
        return self._over_budget()

    def _note_money(self, work: Work, result: OperationResult | None) -> None:
        body = None
        if result is not None and result.outcome is not None and not result.reused:
            body = result.outcome.body
        if self.caps.bounded or (body is not None and MONEY in self._parts.state.counted()):
            self._budget.settle(work, body)

    def _outage_lets(self, work: Work, plan: AnyOperationPlan) -> bool:
        if self._outage is None:
            return True
        paused = self._outage.watch.phase is LinePhase.PAUSED
        if paused and self._spends_last_round(work, plan):
            return False
        calls = sum(target.timeout_seconds for target in plan.targets)
        most = calls * len(plan.calls_of_a_target) + CANARY_SLACK_SECONDS
        return self._outage.begin(work.key, most_seconds=most)

    def _spends_last_round(self, work: Work, plan: AnyOperationPlan) -> bool:
        """Tell whether a canary would use up an operation that another one could spare."""
        index = self._parts.store.index
        for operation in index.operations(work.case_id):
            if operation.operation_id == work.operation_id:
                if operation.rounds_completed < plan.rounds_max - 1:
                    return False
                break
        others = index.due(self._parts.clock.now(), OTHERS_LOOKED_AT)
        return any(
            operation.rounds_completed < (operation.rounds_max or plan.rounds_max) - 1
            for operation in others
        )

    def _make_up_what_was_lost(self) -> None:
        """Count anew if the shared file was lost under this process.

        Who runs under other settings may have said since that other providers are counted; that is
        no loss, and two such processes would count all packages again at every round.
        """
        if self._counts:
            counted = self._parts.state.counted()
            if not counted or (self.caps.bounded and MONEY not in counted):
                self._count_without_gap()

    def _count_without_gap(self) -> None:
        """Count from the packages what nobody has counted so far, or what was lost."""
        parts = self._parts
        counted = parts.state.counted()
        if not self._counts <= counted:
            recount(parts.store, parts.state, pricing=self._pricing, clock=parts.clock)
        wanted = self._counts | (counted & {MONEY})
        if wanted != counted:
            parts.state.set_counted(wanted)


def caps_of(config: GatewayConfig, run_budget: Decimal | None = None) -> Caps:
    """Return the bounds that the settings and a run's command line name."""
    budget = config.budget
    return Caps(
        currency=config.cost.currency,
        total=budget.total,
        per_day=budget.per_day,
        run=run_budget,
        unknown_price_per_call=budget.unknown_price_per_call,
    )


def _kept_counts(config: GatewayConfig, caps: Caps) -> frozenset[str]:
    """Return what has to be counted without a gap: providers by id, and money as an empty text."""
    by_day = {
        provider.id
        for provider in config.enabled_providers
        if provider.limits is not None and provider.limits.requests_per_day is not None
    }
    return frozenset(by_day | ({MONEY} if caps.bounded else set()))


def rule_of(config: OutageConfig) -> OutageRule:
    """Return the rule that the settings name."""
    return OutageRule(
        failed_rounds=config.failed_rounds,
        cases=config.cases,
        canary_seconds=config.canary_seconds,
        canary_seconds_max=config.canary_seconds_max,
    )


def _sign(owner: str) -> str:
    """Return the name of the lock that an owner holds while it lives."""
    return f"\0line {owner}"
