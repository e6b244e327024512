"""How far documents may travel, in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from casework.config.privacy_profile import ProviderClass
from casework.gateway.privacy import Eligibility, EligibilityReason
from casework.strict_json import JSONObject

NO_MODEL: frozenset[str] = frozenset({"rules"})
"""Adapters that ask no model at all; said wherever such a provider is named."""


def travel_sentence(verdicts: Iterable[Eligibility]) -> str:
    """Say where a document may go, judged by what a call would act on."""
    beyond = [
        f"{verdict.provider.id} ({verdict.provider.provider_class.value})"
        for verdict in verdicts
        if verdict.eligible and verdict.provider.provider_class is not ProviderClass.LOCAL
    ]
    if not beyond:
        return "no document may leave this machine"
    return f"documents may leave this machine for {', '.join(beyond)}"


def asked_in_order(verdicts: Iterable[Eligibility]) -> str:
    """Name who is asked, in order."""
    names = [provider_label(v) for v in verdicts if v.eligible]
    return ", then ".join(names) if names else "nobody"


def excluded_sentence(verdicts: Iterable[Eligibility]) -> str:
    """Say which enabled providers the profile excludes; empty where it excludes nobody."""
    names = [
        f"{verdict.provider.id} ({verdict.provider.provider_class.value})"
        for verdict in verdicts
        if verdict.reason is EligibilityReason.PRIVACY_PROFILE
    ]
    return f"configured, and excluded by the profile: {', '.join(names)}" if names else ""


def provider_label(verdict: Eligibility) -> str:
    """Return a provider's name, with a mark where there is no model behind it."""
    provider = verdict.provider
    return f"{provider.id} (no model)" if provider.adapter in NO_MODEL else provider.id


def verdicts_to_json(verdicts: Sequence[Eligibility]) -> list[JSONObject]:
    """Return verdicts as JSON output carries them; addresses and keys are not part of it."""
    return [
        {
            "order": order,
            "id": verdict.provider.id,
            "adapter": verdict.provider.adapter,
            "model": verdict.provider.model,
            "class": verdict.provider.provider_class.value,
            "eligible": verdict.eligible,
            "reason": verdict.reason.value,
        }
        for order, verdict in enumerate(verdicts, start=1)
    ]
