"""The gate before every call: a seam at which somebody may say that nobody is asked now."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

from casework.config.providers import ProviderConfig


@dataclass(frozen=True, slots=True)
class AtLimit:
    """The provider may not be called now."""

    seconds: float
    """When to ask again, at the earliest."""


class CallGate(Protocol):
    """Lets calls through, or not."""

    def bounds(self, provider: ProviderConfig) -> bool:
        """Tell whether calls to a provider are bounded at all; if not, nobody asks for a slot."""

    def call(self, provider: ProviderConfig) -> AbstractAsyncContextManager[AtLimit | None]:
        """Surround one call to a provider; a limit as its value means that none may be made."""


class OpenGate:
    """A gate without limits."""

    def bounds(self, provider: ProviderConfig) -> bool:  # noqa: ARG002 - the seam's signature
        """Tell that nothing is bounded."""
        return False

    @asynccontextmanager
    async def call(self, provider: ProviderConfig) -> AsyncIterator[AtLimit | None]:  # noqa: ARG002 - the seam's signature
        """Let the call through."""
        yield None
