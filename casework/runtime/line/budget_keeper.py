"""Keeping the budget: what was spent, what is set aside, and whether the next round fits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from casework.checkpoints.store import CheckpointStore
from casework.config.limits import DayReset
from casework.errors import CheckpointError, LockBusy
from casework.gateway.clock import Clock
from casework.gateway.plan import AnyOperationPlan
from casework.runtime.line.budget import (
    ZERO,
    Cap,
    Caps,
    OverBudget,
    Standing,
    Unpriced,
    add_up,
    dearest_course,
    judge_next,
)
from casework.runtime.line.limit_windows import Day, day_of
from casework.runtime.line.line_state import Ledger, LineState, SetAside, Spending
from casework.runtime.line.spending import Pricing, RequestSize, past_rounds
from casework.runtime.line.work import Work
from casework.strict_json import JSONObject

MONEY = ""
"""The name under which the shared state says that money is counted without a gap."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A round may not begin now."""

    sentence: str
    for_good: bool
    """Whether it would not fit either if nothing were set aside for running rounds."""


class Spent:
    """The sums of the ledger, read on from where they were read last.

    Args:
        reset: When a day begins.
    """

    def __init__(self, reset: DayReset) -> None:
        self._reset = reset
        self._born = ""
        self._seq = 0
        self._day: Day | None = None
        self.total = ZERO
        self.today = ZERO
        self.unpriced = 0
        """Calls that are in no sum, because nobody can put a price on them."""

    def read(self, ledger: Ledger, now: datetime) -> None:
        """Take over what was noted since the last time."""
        day = self._day
        if ledger.born() != self._born or day is None or not day.begins_at <= now < day.ends_at:
            self._born, self._seq, self._day = ledger.born(), 0, day_of(now, self._reset)
            self.total = self.today = ZERO
            self.unpriced = 0
        for seq, entry in ledger.spent_after(self._seq):
            self._seq = seq
            self.total = add_up((self.total, entry.amount))
            self.unpriced += entry.unpriced
            if self._day is not None and entry.at >= self._day.begins_at:
                self.today = add_up((self.today, entry.amount))


class BudgetKeeper:
    """Lets rounds begin while they fit into the budget, beside other processes that do the same.

    Not promised: a result that was discarded stands in no package, so its money is in no sum; what
    is run without a governor, from a notebook, is noted with the next recount only.

    Args:
        caps: The budget.
        reset: When its day begins.
        state: Where processes share what they spend.
        pricing: Puts a price on rounds.
        owner: This process, as others know it.
    """

    def __init__(
        self,
        caps: Caps,
        reset: DayReset,
        *,
        state: LineState,
        pricing: Pricing,
        owner: str,
    ) -> None:
        self.caps = caps
        self._spent = Spent(reset)
        self._state = state
        self._pricing = pricing
        self._owner = owner
        self._run = ZERO
        self._sizes: dict[tuple[str, str], RequestSize] = {}

    def reserve(self, work: Work, plan: AnyOperationPlan, *, now: datetime) -> Refused | None:
        """Set aside what a round may cost, or return why it may not begin."""
        next_max = dearest_course(plan, self.caps)
        if isinstance(next_max, Unpriced):
            return Refused(next_max.sentence(), for_good=True)

        def decide(ledger: Ledger) -> Refused | None:
            self._spent.read(ledger, now)
            aside = ledger.set_aside()
            over = judge_next(next_max, self._standings(aside), caps=self.caps)
            if over is None:
                entry = SetAside(self._owner, work.case_id, work.operation_id, next_max)
                ledger.put_aside(entry)
                return None
            return self._refused(over, next_max)

        refused = self._state.in_ledger(decide)
        if refused is None:
            call = plan.targets[0].call
            self._sizes[work.key] = RequestSize.of(call.output_schema, dict(call.parameters))
        return refused

    def settle(self, work: Work, body: JSONObject | None) -> None:
        """Note what a round cost, and give back what was set aside for it.

        Args:
            work: The operation.
            body: The outcome that was committed; None if none was.
        """
        size = self._sizes.pop(work.key, RequestSize())
        entries = [] if body is None else [self._pricing.of_round(body, size)]

        def note(ledger: Ledger) -> None:
            ledger.release(self._owner, work.case_id, work.operation_id)
            ledger.spend(entries)

        self._state.in_ledger(note)
        self._run = add_up((self._run, *(entry.amount for entry in entries)))

    def _standings(self, aside: Iterable[SetAside]) -> dict[Cap, Standing]:
        entries = list(aside)
        everybody = add_up(entry.amount for entry in entries)
        own = add_up(entry.amount for entry in entries if entry.owner == self._owner)
        return {
            Cap.RUN: Standing(spent=self._run, set_aside=own),
            Cap.PER_DAY: Standing(spent=self._spent.today, set_aside=everybody),
            Cap.TOTAL: Standing(spent=self._spent.total, set_aside=everybody),
        }

    def _refused(self, over: OverBudget, next_max: Decimal) -> Refused:
        without = {cap: Standing(spent=s.spent) for cap, s in self._standings(()).items()}
        final = judge_next(next_max, without, caps=self.caps)
        return Refused((final or over).sentence(), for_good=final is not None)


def release_the_dead(
    store: CheckpointStore, state: LineState, *, pricing: Pricing, sign: Callable[[str], str]
) -> None:
    """Give back what dead processes had set aside, after noting what they had committed.

    Args:
        store: Its packages tell what was committed, its locks who lives.
        state: Where it was set aside.
        pricing: Puts a price on rounds.
        sign: Returns the name of the lock that an owner holds while it lives.
    """
    for owner in {entry.owner for entry in state.in_ledger(lambda ledger: ledger.set_aside())}:
        if not _is_dead(store, sign(owner)):
            continue
        entries = state.in_ledger(lambda ledger: ledger.set_aside())
        cases = {entry.case_id for entry in entries if entry.owner == owner}
        spent = [past.spending for past in past_rounds(store, pricing, cases=cases)]

        def give_back(ledger: Ledger, owner: str = owner, spent: list[Spending] = spent) -> None:
            ledger.spend(spent)
            ledger.release(owner)

        state.in_ledger(give_back)


def recount(store: CheckpointStore, state: LineState, *, pricing: Pricing, clock: Clock) -> None:
    """Count money and the calls of the last days anew from the packages."""
    oldest = clock.now() - timedelta(days=3)
    spent: list[Spending] = []
    calls: list[tuple[str, datetime]] = []
    for past in past_rounds(store, pricing):
        spent.append(past.spending)
        calls += [(provider, at) for provider, at in past.calls if at >= oldest]
    state.recount(calls, spent)


def _is_dead(store: CheckpointStore, name: str) -> bool:
    with suppress(LockBusy, CheckpointError), store.lock(name):
        return True
    return False
