"""What a run has done so far in this session: speed, tokens, money, and how each provider fares."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from decimal import Decimal
from statistics import median
from typing import Final

from casework.runner.calls import Call

RATE_WINDOW_SECONDS: Final = 300
ETA_COMPLETIONS_MIN: Final = 20
LATENCIES_KEPT: Final = 128
_BUCKET_SECONDS: Final = 5


@dataclass(slots=True)
class UsageTally:
    """Tokens and money of some calls; what is unknown is counted, never taken for zero."""

    calls: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    calls_without_tokens: int = 0
    calls_without_price: int = 0
    cost: dict[str, Decimal] = field(default_factory=dict)
    """Known money by currency; currencies are never added up."""
    cut_off: int = 0
    """Starts of rounds whose end nobody saw: their calls are not among ``calls``."""

    def add(self, call: Call) -> None:
        """Count one call; one that reached nobody used nothing."""
        self.calls += 1
        if call.sent is False:
            return
        if call.prompt_tokens is None or call.completion_tokens is None:
            self.calls_without_tokens += 1
        self.prompt_tokens += call.prompt_tokens or 0
        self.completion_tokens += call.completion_tokens or 0
        if call.cost is None or call.currency is None:
            self.calls_without_price += 1
        else:
            self.cost[call.currency] = self.cost.get(call.currency, Decimal(0)) + call.cost


@dataclass(slots=True)
class ProviderTally:
    """How one provider fared in this session."""

    model: str = ""
    calls: int = 0
    failures: int = 0
    last_code: str | None = None
    """Code of its latest call; None if that one brought an accepted answer."""
    latencies_ms: deque[int] = field(default_factory=lambda: deque(maxlen=LATENCIES_KEPT))

    @property
    def median_ms(self) -> float | None:
        """Return the median of its latest call times."""
        return median(self.latencies_ms) if self.latencies_ms else None


class SessionTally:
    """Count what a session does; times are monotonic seconds.

    Args:
        begun: When the session began.
    """

    def __init__(self, begun: float) -> None:
        self._begun = begun
        self._buckets: deque[tuple[int, int]] = deque()
        self.completions = 0
        """Operations that this session brought to an end; reused results do not count."""
        self.rounds = 0
        self.calls = 0
        """Calls that this session made."""
        self.usage = UsageTally()
        """What its rounds used, those included whose calls an earlier session had made."""
        self.providers: dict[str, ProviderTally] = {}
        self.reasons: Counter[str] = Counter()
        """Why operations ended in ERROR or BLOCKED."""

    def round(self, calls: Iterable[Call], *, adopted: bool = False, cut_off: int = 0) -> None:
        """Count a committed round and its calls.

        Args:
            calls: The calls that its outcome tells of.
            adopted: Whether an earlier session made them and died before the commit.
            cut_off: Earlier starts of this round whose end nobody saw.
        """
        self.rounds += 1
        self.usage.cut_off += cut_off
        for call in calls:
            self.usage.add(call)
            if adopted:
                continue
            self.calls += 1
            provider = self.providers.setdefault(call.provider, ProviderTally())
            provider.model = call.model
            provider.calls += 1
            provider.failures += call.code is not None
            provider.last_code = call.code
            if call.elapsed_ms is not None:
                provider.latencies_ms.append(call.elapsed_ms)

    def completed(self, now: float, reason: str | None) -> None:
        """Count an operation that came to an end, with the reason if it was not SUCCESS."""
        self.completions += 1
        if reason is not None:
            self.reasons[reason] += 1
        bucket = int(now // _BUCKET_SECONDS)
        if self._buckets and self._buckets[-1][0] == bucket:
            self._buckets[-1] = (bucket, self._buckets[-1][1] + 1)
        else:
            self._buckets.append((bucket, 1))
        self._forget(now)

    def rate_per_minute(self, now: float) -> float | None:
        """Return completions a minute over the last five minutes; None before the first."""
        self._forget(now)
        elapsed = min(max(now - self._begun, 1.0), RATE_WINDOW_SECONDS)
        done = sum(count for _, count in self._buckets)
        return done * 60.0 / elapsed if self.completions else None

    def eta_seconds(self, now: float, remaining: int) -> float | None:
        """Return the seconds that the rest will take at this session's speed.

        None until twenty operations have come to an end, because fewer say nothing.
        """
        if self.completions < ETA_COMPLETIONS_MIN:
            return None
        return remaining * (now - self._begun) / self.completions

    def _forget(self, now: float) -> None:
        oldest = int((now - RATE_WINDOW_SECONDS) // _BUCKET_SECONDS)
        while self._buckets and self._buckets[0][0] <= oldest:
            self._buckets.popleft()
