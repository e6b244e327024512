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
"""Longest rest, whatever a server's Retry-After says and however often it was needed."""
DOUBLINGS_MAX: Final = 10
RESTING_MAX: Final = 10_000
"""Most cooldowns remembered; the soonest to end are forgotten first."""


class Probe:
    """The one call that is let through to find out whether a server is back."""

    __slots__ = ()


@dataclass(slots=True)
class _Breaker:
    failures: int = 0
    """Since the last success."""
    last_kind: FailureKind = FailureKind.CONNECT_ERROR
    open_until: float | None = None
    """On the monotonic clock; None while closed."""
    probe: Probe | None = None
    """The latest, until it reports."""


@dataclass(slots=True)
class _Cooldown:
    until: float
    """On the monotonic clock; what is over is kept, for the next one is longer."""
    kind: FailureKind
    again: int = 0
    """How many rests came before, without a success between them."""


class ProviderHealth:
    """Knows which providers and keys are at rest, from what their calls came to.

    A breaker opens after so many failures of the server in a row. When its time is over, one call
    is let through as a probe; until it reports, or for as long again, everybody else is kept out.
    A cooldown that is needed again without a success between is twice as long, unless the server
    says how long.

    Args:
        config: When breakers open and for how long.
        clock: The monotonic time counts.
    """

    def __init__(self, config: BreakerConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._breakers: dict[str, _Breaker] = {}
        self._cooling: dict[tuple[str, str | None, str | None], _Cooldown] = {}

    def resting(self, provider: str, key: str | None, model: str) -> Resting | None:
        """Tell whether a target is at rest, without any effect.

        Args:
            provider: Its provider.
            key: The label of its key.
            model: Its model.
        """
        now = self._clock.monotonic()
        until, kind = now, FailureKind.UNKNOWN
        for scope in (model, None):
            cooldown = self._cooling.get((provider, key, scope))
            if cooldown is not None and cooldown.until > until:
                until, kind = cooldown.until, cooldown.kind
        breaker = self._breakers.get(provider)
        if breaker and breaker.open_until is not None and breaker.open_until > until:
            until, kind = breaker.open_until, breaker.last_kind
        return Resting(provider, kind, until - now) if until > now else None

    def admit(self, provider: str, key: str | None, model: str) -> Resting | Probe | None:
        """Let a call through, or tell why not; a call let through must be reported.

        Where the breaker's time is over, the call is its probe, and others are kept out meanwhile.
        A probe that ends without a report is handed back, see :meth:`abandoned`.
        """
        if not self._breakers and not self._cooling:
            return None
        resting = self.resting(provider, key, model)
        breaker = self._breakers.get(provider)
        if resting is None and breaker is not None and breaker.open_until is not None:
            breaker.open_until = self._clock.monotonic() + self._config.open_seconds
            breaker.probe = Probe()
            return breaker.probe
        return resting

    def succeeded(self, provider: str, key: str | None, model: str) -> None:
        """Take note that a call was answered; a rest that others asked for meanwhile goes on."""
        self._breakers.pop(provider, None)
        if self._cooling:
            now = self._clock.monotonic()
            for scope in (model, None):
                cooldown = self._cooling.get((provider, key, scope))
                if cooldown is not None and cooldown.until <= now:
                    del self._cooling[provider, key, scope]

    def begun(self, provider: str) -> None:
        """Take note that a stream has begun: it closes an open breaker, and forgets no failures."""
        breaker = self._breakers.get(provider)
        if breaker is not None and breaker.open_until is not None:
            del self._breakers[provider]

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
            self._cool((provider, key, scope), policy.cooldown, failure, now=now)

    def abandoned(self, provider: str, probe: Probe) -> None:
        """Take note that a probe ended without a verdict, so that another call may be it."""
        breaker = self._breakers.get(provider)
        if breaker is not None and breaker.probe is probe:
            breaker.open_until, breaker.probe = self._clock.monotonic(), None

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
        breaker.last_kind, breaker.probe = kind, None
        if breaker.failures >= self._config.failures:
            breaker.open_until = max(breaker.open_until or 0.0, now + self._config.open_seconds)

    def _cool(
        self,
        resting: tuple[str, str | None, str | None],
        cooldown: Cooldown,
        failure: ProviderFailure,
        *,
        now: float,
    ) -> None:
        rest = self._cooling.get(resting)
        if rest is None:
            rest = self._cooling[resting] = _Cooldown(now, failure.kind)
        elif rest.until <= now:
            rest.again = min(rest.again + 1, DOUBLINGS_MAX)
        seconds = failure.retry_after_seconds
        if seconds is None:
            seconds = cooldown.seconds * 2.0**rest.again
        until = now + min(seconds, COOLDOWN_SECONDS_MAX)
        if until > rest.until:
            rest.until, rest.kind = until, failure.kind
        if len(self._cooling) > RESTING_MAX:
            self._forget(now)

    def _forget(self, now: float) -> None:
        """Let go of what is over, and of the soonest to end beyond the most that is kept."""
        left = sorted(
            (item for item in self._cooling.items() if item[1].until > now),
            key=lambda item: item[1].until,
        )
        self._cooling = dict(left[-RESTING_MAX:])
