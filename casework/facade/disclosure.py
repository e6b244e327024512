"""What a reply's headers say of how it came about."""

from __future__ import annotations

from typing import TypeVar
from urllib.parse import quote

from casework.facade.durable_calls import KeptAnswer
from casework.facade.exchange import Header
from casework.gateway.clock import Clock
from casework.gateway.outcomes import Answered

A = TypeVar("A")


class Disclosure:
    """Writes the headers that say who answered, after how many attempts and in what time.

    Args:
        shown: Whether they are written at all. What was withheld from the provider is always said.
        clock: The time.
    """

    def __init__(self, *, shown: bool, clock: Clock) -> None:
        self._shown = shown
        self._clock = clock

    def headers(
        self, answered: Answered[A], *, withheld: tuple[str, ...], begun: float
    ) -> list[Header]:
        """Return the headers of an answer.

        Args:
            answered: How it came about.
            withheld: Members of the request that the provider was not sent as they stand.
            begun: When the request arrived, on the monotonic clock.
        """
        headers = _withheld(withheld)
        if self._shown:
            served = answered.served
            upstream_ms = served.elapsed_ms + sum(a.served.elapsed_ms for a in answered.attempts)
            total_ms = (self._clock.monotonic() - begun) * 1000
            headers += [
                *_who(served.provider, served.model),
                (b"x-casework-attempts", b"%d" % (sum(a.made for a in answered.attempts) + 1)),
                (b"x-casework-upstream-ms", b"%d" % upstream_ms),
                (b"x-casework-overhead-ms", b"%d" % max(total_ms - upstream_ms, 0)),
            ]
        return headers

    def kept(self, kept: KeptAnswer, *, withheld: tuple[str, ...], begun: float) -> list[Header]:
        """Return the headers of an answer that is kept; one that was recorded says so.

        Args:
            kept: The answer.
            withheld: Members of the request that the provider is never sent.
            begun: When the request arrived, on the monotonic clock.
        """
        withheld = (*withheld, *kept.dropped)
        if kept.walked is not None:
            return self.headers(kept.walked, withheld=withheld, begun=begun)
        headers = [*_withheld(withheld), (b"x-casework-reused", b"true")]
        return [*headers, *_who(kept.provider, kept.model)] if self._shown else headers


def _withheld(names: tuple[str, ...]) -> list[Header]:
    if not names:
        return []
    return [(b"x-casework-withheld", ",".join(quote(name, safe="") for name in names).encode())]


def _who(provider: str, model: str) -> list[Header]:
    return [
        (b"x-casework-provider", provider.encode()),
        (b"x-casework-model", quote(model, safe="/:@+-._ ").encode()),
    ]
