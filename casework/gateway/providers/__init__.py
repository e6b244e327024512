"""The adapters that ship with Casework, by the name under which an entry asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from casework.gateway.providers.llamacpp import LlamaCppProvider
from casework.gateway.providers.openai_compatible import OpenAICompatibleProvider
from casework.gateway.providers.provider import ProviderFactory
from casework.gateway.providers.replay import ReplayProvider
from casework.gateway.providers.rules import RulesProvider
from casework.gateway.providers.scripted import ScriptedProvider

BUILT_IN: Final[Mapping[str, ProviderFactory]] = MappingProxyType(
    {
        "llamacpp": LlamaCppProvider.from_config,
        "openai_compatible": OpenAICompatibleProvider.from_config,
        "replay": ReplayProvider.from_config,
        "rules": RulesProvider.from_config,
        "scripted": ScriptedProvider.from_config,
    }
)
"""What each makes is let go with its ``aclose``."""
