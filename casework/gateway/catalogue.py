"""Which models each provider was found to have; asked beside the service, never before a call."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from casework.config.gateway_config import GatewayConfig
from casework.config.providers import MODEL_CHARACTERS_MAX, ProviderConfig
from casework.errors import CaseworkError
from casework.gateway.chat.calls import ListingProvider
from casework.gateway.clock import Clock, Deadline
from casework.gateway.errors import FailureKind
from casework.gateway.messages import Credential
from casework.gateway.privacy import judge
from casework.gateway.routing import KnownModels

_logger = logging.getLogger(__name__)

ANSWER_SECONDS_MAX: Final = 5.0
"""How long one provider may take to say which models it has."""
ASKED_AT_ONCE_MAX: Final = 8
MODELS_MAX: Final = 10_000
"""Most models of one provider that are kept."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a provider was found to have."""

    models: frozenset[str] = frozenset()
    """From the last time that it said so."""
    left_out: int = 0
    """Names beyond the most that is kept, too long, or holding what no name holds."""
    failure: str | None = None
    """Code of why it did not say so when it was asked last."""

    @property
    def complete(self) -> bool:
        """Tell whether these are all the models that it has."""
        return self.failure is None and not self.left_out


class Catalogue:
    """Knows the models of the providers that can say so, and takes nothing else from them.

    Only who is enabled and eligible under the configured profile is asked.

    Args:
        config: The providers and the ceiling of privacy.
        clock: The time.
        adapter_of: Gives the adapter of a provider; only those that list models are asked.
        keys_of: Gives the keys of a provider; the first is used.
    """

    def __init__(
        self,
        config: GatewayConfig,
        clock: Clock,
        *,
        adapter_of: Callable[[ProviderConfig], object],
        keys_of: Callable[[ProviderConfig], tuple[Credential | None, ...]],
    ) -> None:
        self._config = config
        self._clock = clock
        self._adapter_of = adapter_of
        self._keys_of = keys_of
        self._found: dict[str, Found] = {}
        self._edition = 0
        self._discovered = not config.models.discover

    @property
    def discovered(self) -> bool:
        """Tell whether every provider that is to be asked has been asked once."""
        return self._discovered

    @property
    def found(self) -> Mapping[str, Found]:
        """Return what is known, by provider id; who was never asked is not in it."""
        return self._found

    @property
    def edition(self) -> int:
        """Return a number that is another one whenever other models are known."""
        return self._edition

    @property
    def known_models(self) -> KnownModels:
        """Return the models by provider id; what is returned never changes."""
        return {provider: found.models for provider, found in self._found.items()}

    async def discover(self, tell: Callable[[KnownModels], None]) -> None:
        """Ask every provider once, and return when all have answered or failed.

        A failure leaves what was known. Nobody is asked where discovery is switched off.

        Args:
            tell: Told all that is known, each time that one has answered.
        """
        if not self._config.models.discover:
            return
        room = asyncio.Semaphore(ASKED_AT_ONCE_MAX)

        async def ask(provider: ProviderConfig) -> None:
            async with room:
                await self._ask(provider)
            tell(self.known_models)

        eligible = [v.provider for v in judge(self._config, None) if v.eligible]
        await asyncio.gather(*(ask(provider) for provider in eligible))
        self._discovered = True

    async def _ask(self, provider: ProviderConfig) -> None:
        try:
            names = await self._names(provider)
        except CaseworkError as error:
            self._fail(provider, error.code)
        except TimeoutError:
            self._fail(provider, FailureKind.TIMEOUT)
        except Exception as error:  # noqa: BLE001 - the edge of the provider's task
            self._fail(provider, FailureKind.UNKNOWN, exception=type(error).__name__)
        else:
            if names is not None:
                self._found[provider.id] = _kept(names)
                self._edition += 1

    async def _names(self, provider: ProviderConfig) -> tuple[str, ...] | None:
        """Return what a provider says; None from one that cannot say."""
        adapter = self._adapter_of(provider)
        if not isinstance(adapter, ListingProvider):
            return None
        credential = self._keys_of(provider)[0]
        deadline = Deadline.after(ANSWER_SECONDS_MAX, self._clock)
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            return await adapter.models(credential=credential, deadline=deadline)

    def _fail(self, provider: ProviderConfig, code: str, **told: str) -> None:
        known = self._found.get(provider.id, Found())
        self._found[provider.id] = Found(known.models, known.left_out, code)
        _logger.warning(
            "models not discovered",
            extra={"action": "discovery_failed", "provider": provider.id, "code": code, **told},
        )


def _kept(names: Iterable[str]) -> Found:
    """Keep the names that can be shown and asked for, in bounds."""
    kept: set[str] = set()
    left_out = 0
    for name in names:
        if name in kept:
            continue
        if len(kept) < MODELS_MAX and _is_name(name):
            kept.add(name)
        else:
            left_out += 1
    return Found(frozenset(kept), left_out)


def _is_name(name: str) -> bool:
    return 0 < len(name) <= MODEL_CHARACTERS_MAX and name.isprintable()
