"""Take keys from the environment, under labels that may be shown."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from casework.config.providers import ProviderConfig
from casework.errors import ConfigurationError
from casework.gateway.messages import Credential

SECRET_CHARACTERS_MAX: Final = 8000
"""Longest key that common servers still take in one header line."""
CREDENTIALS_MAX: Final = 1000
"""Most keys that are kept checked."""


def credentials_for(
    provider: ProviderConfig, environment: Mapping[str, str]
) -> tuple[Credential, ...]:
    """Return a provider's keys in the order in which its entry names their variables.

    A provider that names no variable has no keys and is called without one. A key's label is its
    variable and place in the list, like ``MY_API_KEY#1``.

    Raises:
        ConfigurationError: A variable is unset, empty or holds what no key can hold. Names the
            variable, never its value.
    """
    return tuple(
        _credential(name, position, environment.get(name, ""), provider_id=provider.id)
        for position, name in enumerate(provider.api_key_env, start=1)
    )


@lru_cache(maxsize=CREDENTIALS_MAX)
def _credential(name: str, position: int, value: str, *, provider_id: str) -> Credential:
    where = f'provider "{provider_id}"'
    secret = value.strip()
    if not secret:
        raise ConfigurationError(
            f"the environment variable {name} is not set or empty",
            code="missing_credential",
            where=where,
            remedy=f"set {name}, or disable the provider",
        )
    usable = secret.isascii() and secret.isprintable() and " " not in secret
    if not usable or len(secret) > SECRET_CHARACTERS_MAX:
        raise ConfigurationError(
            f"the environment variable {name} holds blanks, control characters, characters beyond "
            f"ASCII or more than {SECRET_CHARACTERS_MAX} characters",
            where=where,
            remedy="set it to the bare key, without a word such as Bearer before it",
        )
    return Credential(f"{name}#{position}", secret)
