"""What a reply's headers say of how it came about."""

from __future__ import annotations

from typing import TypeVar
from urllib.parse import quote

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
        headers: list[Header] = []
        if withheld:
            names = ",".join(quote(name, safe="") for name in withheld)
            headers.append((b"x-casework-withheld", names.encode()))
        if self._shown:
            served = answered.served
            upstream_ms = served.elapsed_ms + sum(a.served.elapsed_ms for a in answered.attempts)
            total_ms = (self._clock.monotonic() - begun) * 1000
            headers += [
                (b"x-casework-provider", served.provider.encode()),
                (b"x-casework-model", quote(served.model, safe="/:@+-._ ").encode()),
                (b"x-casework-attempts", b"%d" % (len(answered.attempts) + 1)),
                (b"x-casework-upstream-ms", b"%d" % upstream_ms),
                (b"x-casework-overhead-ms", b"%d" % max(total_ms - upstream_ms, 0)),
            ]
        return headers
