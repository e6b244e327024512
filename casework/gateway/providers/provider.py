"""The seam to a model: one method that makes one call, and one that lets go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeAlias

from casework.config.providers import ProviderConfig
from casework.gateway.clock import Deadline
from casework.gateway.messages import Credential, ProviderCall, ProviderReply


class LLMProvider(Protocol):
    """Ask one target, exactly once.

    An adapter never tries again, never follows a redirect and never looks at the answer's
    content; whether the text is an acceptable answer is decided by the round.
    """

    async def complete(
        self, call: ProviderCall, *, credential: Credential | None, deadline: Deadline
    ) -> ProviderReply:
        """Make the call and return what came back.

        Raises:
            ProviderFailure: The call failed; its kind says how.
        """

    async def aclose(self) -> None:
        """Let go of connections and processes; further calls are a defect of the caller."""


ProviderFactory: TypeAlias = Callable[[ProviderConfig], LLMProvider]
