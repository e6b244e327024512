"""The adapters that ship with Casework, by the name under which a provider's entry asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from casework.gateway.providers.provider import ProviderFactory
from casework.gateway.providers.rules import RulesProvider
from casework.gateway.providers.scripted import ScriptedProvider

BUILT_IN: Final[Mapping[str, ProviderFactory]] = MappingProxyType(
    {
        "rules": RulesProvider.from_config,
        "scripted": ScriptedProvider.from_config,
    }
)
"""What each makes is let go with its ``aclose``."""
