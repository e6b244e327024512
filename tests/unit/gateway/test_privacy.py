"""The profile is a ceiling: order is kept, and no request lifts it."""

from __future__ import annotations

import pytest

from casework.config import GatewayConfig, PrivacyProfile
from casework.gateway.privacy import EligibilityReason, judge

TEXT = """
privacy_profile = "{profile}"
[[providers]]
id = "cloud"
adapter = "openai_compatible"
base_url = "https://api.cloud.example/v1"
model = "m"
[[providers]]
id = "off"
adapter = "rules"
enabled = false
[[providers]]
id = "house"
adapter = "openai_compatible"
base_url = "https://house.example/v1"
class = "self_hosted"
model = "m"
[[providers]]
id = "local"
adapter = "rules"
[[providers]]
id = "tunnel"
adapter = "openai_compatible"
base_url = "http://127.0.0.1:9/v1"
class = "cloud"
model = "m"
"""
ELIGIBLE = {
    PrivacyProfile.LOCAL_ONLY: ["local"],
    PrivacyProfile.SELF_HOSTED: ["house", "local"],
    PrivacyProfile.CLOUD_ALLOWED: ["cloud", "house", "local", "tunnel"],
}


@pytest.mark.parametrize("configured", list(PrivacyProfile))
@pytest.mark.parametrize("asked", [None, *PrivacyProfile])
def test_the_narrower_profile_holds(
    configured: PrivacyProfile, asked: PrivacyProfile | None
) -> None:
    """Whatever a request asks for, the configured profile stays the ceiling."""
    config = GatewayConfig.parse(TEXT.replace("{profile}", configured.value))
    verdicts = judge(config, asked)
    effective = configured.narrowed_by(asked)
    assert ELIGIBLE[effective] == [v.provider.id for v in verdicts if v.eligible]
    assert set(ELIGIBLE[effective]) <= set(ELIGIBLE[configured])


def test_every_provider_gets_a_reason_in_order() -> None:
    """An explanation lists all providers, also those that are passed over, with the reason."""
    config = GatewayConfig.parse(TEXT.replace("{profile}", "local_only"))
    assert [
        ("cloud", EligibilityReason.PRIVACY_PROFILE),
        ("off", EligibilityReason.DISABLED),
        ("house", EligibilityReason.PRIVACY_PROFILE),
        ("local", EligibilityReason.ELIGIBLE),
        ("tunnel", EligibilityReason.PRIVACY_PROFILE),
    ] == [(verdict.provider.id, verdict.reason) for verdict in judge(config, None)]
