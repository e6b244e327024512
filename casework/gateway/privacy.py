"""Decide who may see a document: the one judgement behind every call and every explanation."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from casework.config.gateway_config import GatewayConfig
from casework.config.privacy_profile import PrivacyProfile
from casework.config.providers import ProviderConfig


class EligibilityReason(StrEnum):
    """Why a provider is asked or passed over."""

    ELIGIBLE = "eligible"
    DISABLED = "disabled"
    """Its entry says ``enabled = false``."""
    PRIVACY_PROFILE = "privacy_profile"
    """Its class lies beyond the effective profile."""


@dataclass(frozen=True, slots=True)
class Eligibility:
    """The verdict on one provider."""

    provider: ProviderConfig
    reason: EligibilityReason

    @property
    def eligible(self) -> bool:
        """Tell whether the provider may be contacted."""
        return self.reason is EligibilityReason.ELIGIBLE


def judge(config: GatewayConfig, profile: PrivacyProfile | None) -> tuple[Eligibility, ...]:
    """Judge every configured provider, in order, under the narrower of two profiles.

    Args:
        config: Its own profile is the ceiling, whatever is asked for.
        profile: What the request narrows it to; None narrows nothing.
    """
    effective = config.privacy_profile.narrowed_by(profile)
    return tuple(Eligibility(p, _reason(p, effective)) for p in config.providers)


def _reason(provider: ProviderConfig, effective: PrivacyProfile) -> EligibilityReason:
    if not provider.enabled:
        return EligibilityReason.DISABLED
    if not effective.permits(provider.provider_class):
        return EligibilityReason.PRIVACY_PROFILE
    return EligibilityReason.ELIGIBLE
