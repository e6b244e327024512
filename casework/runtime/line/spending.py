"""What committed rounds cost under a budget, from their outcome files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Final

from casework.checkpoints.names import request_path
from casework.checkpoints.store import CheckpointStore
from casework.checkpoints.timestamps import read_time
from casework.config.gateway_config import GatewayConfig
from casework.config.providers import ProviderConfig
from casework.errors import CheckpointError
from casework.gateway.cost_bounds import cost_bound
from casework.runner.calls import calls_of
from casework.runner.outcome_files import calls_in, outcomes_of, starts_in
from casework.runtime.line.budget import ZERO, Caps, add_up
from casework.runtime.line.line_state import Spending
from casework.strict_json import JSON, JSONObject, canonical, digest, integer_or_none, parse

_HTTP_ERRORS: Final = range(300, 600)


@dataclass(frozen=True, slots=True)
class RequestSize:
    """What bounds the tokens of a call beside the size of its messages."""

    schema_bytes: int = 0
    max_tokens: int | None = None

    @classmethod
    def of(cls, output_schema: JSON, parameters: JSON) -> RequestSize:
        """Measure a request as it is stored."""
        limit = parameters.get("max_tokens") if isinstance(parameters, dict) else None
        return cls(len(canonical(output_schema)), integer_or_none(limit))


class Pricing:
    """Puts a price on rounds, in the currency of the budget.

    A call counts what it cost. One whose cost nobody told counts the most that it can have cost,
    unless it reached nobody or the server refused it with an HTTP error, which counts nothing. What
    cannot be priced at all is counted apart, never taken for zero.

    Args:
        config: The providers and their rates.
        caps: The budget.
    """

    def __init__(self, config: GatewayConfig, caps: Caps) -> None:
        self._providers = {provider.id: provider for provider in config.providers}
        self._currency = config.cost.currency
        self._caps = caps

    def of_round(self, body: JSONObject, size: RequestSize) -> Spending:
        """Return what the round of an outcome file cost."""
        prices = [self._of_call(call, size) for call in calls_in(body)]
        for _, targets in starts_in(body):
            prices += [self._of_start(target) for target in targets]
        return Spending(
            bytes.fromhex(digest(body))[:16],
            read_time(str(body.get("started_at"))),
            add_up(price for price in prices if price is not None),
            prices.count(None),
        )

    def _of_call(self, call: JSONObject, size: RequestSize) -> Decimal | None:
        sent, cost = call.get("sent"), call.get("cost")
        if sent is False:
            return ZERO
        if isinstance(cost, dict):
            return _in_currency(cost.get("amount"), cost.get("currency"), self._caps.currency)
        if call.get("http_status") in _HTTP_ERRORS:
            return ZERO
        provider = self._providers.get(str(call.get("provider")))
        bound = None if provider is None else self._bound(provider, call, size)
        return self._caps.unknown_price_per_call if bound is None else bound

    def _bound(
        self, provider: ProviderConfig, call: JSONObject, size: RequestSize
    ) -> Decimal | None:
        sent_bytes = integer_or_none(call.get("request_bytes")) or 0
        cost = cost_bound(
            provider,
            sent_bytes=sent_bytes + size.schema_bytes,
            max_tokens=size.max_tokens,
            currency=self._currency,
        )
        return cost.amount if cost and cost.currency == self._caps.currency else None

    def _of_start(self, target: JSONObject) -> Decimal | None:
        """Price a call that a crash cut off: it may have cost all that it could."""
        amount, _, currency = str(target.get("cost_max") or "").partition(" ")
        priced = _in_currency(amount, currency, self._caps.currency)
        return self._caps.unknown_price_per_call if priced is None else priced


def _in_currency(amount: JSON, currency: JSON, wanted: str) -> Decimal | None:
    if currency != wanted or not isinstance(amount, str):
        return None
    try:
        return Decimal(amount)
    except InvalidOperation:
        return None


@dataclass(frozen=True, slots=True)
class PastRound:
    """One committed round as the packages tell of it."""

    spending: Spending
    calls: tuple[tuple[str, datetime], ...]
    """Whom it asked, and when."""


def past_rounds(
    store: CheckpointStore, pricing: Pricing, *, cases: Iterable[str] | None = None
) -> Iterator[PastRound]:
    """Yield every committed round of some cases, or of all; what cannot be read is left out."""
    for case_id in store.list() if cases is None else cases:
        with suppress(CheckpointError, ValueError):
            read = partial(store.read_file, case_id)
            states = [s for s in store.open(case_id).operations.values() if s.rounds_completed]
            for state in states:
                request = parse(read(request_path(state.ophash)))
                known = request if isinstance(request, dict) else {}
                size = RequestSize.of(known.get("output_schema"), known.get("parameters"))
                for _, outcome in outcomes_of([state], read):
                    yield PastRound(
                        pricing.of_round(outcome.body, size), tuple(_calls(outcome.body))
                    )


def _calls(body: JSONObject) -> Iterator[tuple[str, datetime]]:
    for call, raw in zip(calls_of(body), calls_in(body), strict=True):
        if call.sent is not False:
            yield call.provider, read_time(str(raw.get("started_at")))
    for started_at, targets in starts_in(body):
        for target in targets:
            yield str(target.get("provider")), read_time(started_at)
