"""Who is at rest: one breaker a provider, and cooldowns of keys that only ever lengthen.

All of it is synchronous, so that no two tasks ever see it half changed. Nothing is written down.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from casework.config.serving import BreakerConfig
from casework.gateway.clock import Clock
from casework.gateway.errors import POLICY, Cooldown, CooldownScope, FailureKind, ProviderFailure
from casework.gateway.outcomes import Resting

COOLDOWN_SECONDS_MAX: Final = 3600.0
"""Longest rest that a server's Retry-After can bring about."""
RESTING_MAX: Final = 10_000
"""Most cooldowns remembered; the soonest to end are forgotten first."""


@dataclass(slots=True)
class _Breaker:
    failures: int = 0
    """Since the last success."""
    last_kind: FailureKind = FailureKind.CONNECT_ERROR
    open_until: float | None = None
    """On the monotonic clock; None while closed."""


class ProviderHealth:
    """Knows which providers and keys are at rest, from what their calls came to.

    A breaker opens after so many failures of the server in a row. When its time is over, one call
    is let through as a probe; until it reports, or for as long again, everybody else is kept out.

    Args:
        config: When breakers open and for how long.
        clock: The monotonic time counts.
    """

    def __init__(self, config: BreakerConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._breakers: dict[str, _Breaker] = {}
        self._cooling: dict[tuple[str, str | None, str | None], tuple[float, FailureKind]] = {}

    def resting(self, provider: str, key: str | None, model: str) -> Resting | None:
        """Tell whether a target is at rest, without any effect.

        Args:
            provider: Its provider.
            key: The label of its key.
            model: Its model.
        """
        now = self._clock.monotonic()
        longest = max(
            (
                self._cooling.get((provider, key, scope), (now, FailureKind.UNKNOWN))
                for scope in (model, None)
            ),
            key=lambda until_and_kind: until_and_kind[0],
        )
        until, kind = longest
        breaker = self._breakers.get(provider)
        if breaker and breaker.open_until is not None and breaker.open_until > until:
            until, kind = breaker.open_until, breaker.last_kind
        return Resting(provider, kind, until - now) if until > now else None

    def admit(self, provider: str, key: str | None, model: str) -> Resting | None:
        """Let a call through, or tell why not; a call let through must be reported.

        Where the breaker's time is over, the call is its probe, and others are kept out meanwhile.
        """
        if not self._breakers and not self._cooling:
            return None
        resting = self.resting(provider, key, model)
        breaker = self._breakers.get(provider)
        if resting is None and breaker is not None and breaker.open_until is not None:
            breaker.open_until = self._clock.monotonic() + self._config.open_seconds
        return resting

    def succeeded(self, provider: str, key: str | None, model: str) -> None:
        """Take note that a call was answered."""
        self._breakers.pop(provider, None)
        if self._cooling:
            self._cooling.pop((provider, key, model), None)

    def failed(
        self, provider: str, key: str | None, model: str, *, failure: ProviderFailure
    ) -> None:
        """Take note of how a call failed."""
        policy = POLICY[failure.kind]
        now = self._clock.monotonic()
        if policy.counts_for_breaker:
            self._count(provider, failure.kind, now)
        elif provider in self._breakers:
            self._breakers.pop(provider)  # the server answered, whatever it thought of the key
        if policy.cooldown is not None and not policy.counts_for_breaker:
            scope = model if policy.cooldown.scope is CooldownScope.KEY_AND_MODEL else None
            until = now + _rest_seconds(policy.cooldown, failure)
            self._cool((provider, key, scope), until, failure.kind)

    def abandoned(self, provider: str) -> None:
        """Take note that a call ended without a verdict, so that another may be the probe."""
        breaker = self._breakers.get(provider)
        if breaker is not None and breaker.open_until is not None:
            breaker.open_until = self._clock.monotonic()

    def is_open(self, provider: str) -> bool:
        """Tell whether the breaker of a provider keeps calls out."""
        breaker = self._breakers.get(provider)
        return (
            breaker is not None
            and breaker.open_until is not None
            and breaker.open_until > self._clock.monotonic()
        )

    def _count(self, provider: str, kind: FailureKind, now: float) -> None:
        breaker = self._breakers.setdefault(provider, _Breaker())
        breaker.failures += 1
        breaker.last_kind = kind
        if breaker.failures >= self._config.failures:
            breaker.open_until = max(breaker.open_until or 0.0, now + self._config.open_seconds)

    def _cool(
        self, resting: tuple[str, str | None, str | None], until: float, kind: FailureKind
    ) -> None:
        before = self._cooling.get(resting)
        if before is None or before[0] < until:
            self._cooling[resting] = (until, kind)
        if len(self._cooling) > RESTING_MAX:
            self._forget(self._clock.monotonic())

    def _forget(self, now: float) -> None:
        """Let go of what is over, and of the soonest to end beyond the most that is kept."""
        left = sorted(
            (item for item in self._cooling.items() if item[1][0] > now), key=lambda item: item[1]
        )
        self._cooling = dict(left[-RESTING_MAX:])


def _rest_seconds(cooldown: Cooldown, failure: ProviderFailure) -> float:
    """Return how long to rest: what the server asks for, within reason, or else the usual."""
    if failure.retry_after_seconds is None:
        return cooldown.seconds
    return min(failure.retry_after_seconds, COOLDOWN_SECONDS_MAX)
