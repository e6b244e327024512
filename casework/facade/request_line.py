"""What is written of each request when it ends: who, whom, how long; never a text."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from casework.config.privacy_profile import ProviderClass
from casework.gateway.messages import Cost

TEXT_CHARACTERS_MAX: Final = 256
"""Longest name of a model that is kept; a client may have sent a megabyte."""
FAILURES_MAX: Final = 20
"""Most failed attempts that are named; ``attempts`` counts them all."""


class FailedAttempt(msgspec.Struct, frozen=True):
    """Who failed, and how."""

    provider: str
    code: str
    http_status: int | None = None


class RequestLine(msgspec.Struct, frozen=True, kw_only=True):
    """One request, told in ids, names, codes and numbers.

    It holds no prompt, answer, address, header or key. One is made for each request, which is why
    it is not a dataclass: those take four times as long.
    """

    request_id: str
    at: datetime
    """When it arrived."""
    client: str | None
    """The label of the client's key; None for somebody unknown."""
    route: str
    status: int
    """Of the reply; 0 if none was begun."""
    elapsed_ms: float
    asked_model: str | None = None
    """As the client wrote it; None where it was not found to be a model, for it may be any text."""
    provider: str | None = None
    """Who answered, if anybody did, and of which class."""
    provider_class: ProviderClass | None = None
    model: str | None = None
    """As the server knows it."""
    policy: str | None = None
    code: str | None = None
    """Why there was no answer, or no whole one."""
    attempts: int = 0
    """Calls that were made, the last one too."""
    failures: tuple[FailedAttempt, ...] = ()
    upstream_ms: float | None = None
    """Time spent waiting for providers."""
    stream: bool = False
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    cost: Cost | None = None
    client_left: bool = False

    def bounded(self) -> RequestLine:
        """Return the line with what others wrote cut to a length that can be kept."""
        if (
            len(self.asked_model or "") <= TEXT_CHARACTERS_MAX
            and len(self.model or "") <= TEXT_CHARACTERS_MAX
            and len(self.failures) <= FAILURES_MAX
        ):
            return self
        return msgspec.structs.replace(
            self,
            asked_model=self.asked_model and self.asked_model[:TEXT_CHARACTERS_MAX],
            model=self.model and self.model[:TEXT_CHARACTERS_MAX],
            failures=self.failures[:FAILURES_MAX],
        )
