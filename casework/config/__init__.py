"""Settings: TOML to frozen models, cross-checked at load."""

from __future__ import annotations

from casework.config.gateway_config import (
    CostConfig,
    GatewayConfig,
    RetryConfig,
    ValidationConfig,
    example_toml,
)
from casework.config.limits import BudgetConfig, OutageConfig, ProviderLimits
from casework.config.privacy_profile import PrivacyProfile, ProviderClass
from casework.config.providers import ProviderConfig, Rates

__all__ = [
    "BudgetConfig",
    "CostConfig",
    "GatewayConfig",
    "OutageConfig",
    "PrivacyProfile",
    "ProviderClass",
    "ProviderConfig",
    "ProviderLimits",
    "Rates",
    "RetryConfig",
    "ValidationConfig",
    "example_toml",
]
