"""Who would be asked, in which order, and why the others would not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from casework.config.privacy_profile import PrivacyProfile
from casework.gateway.privacy import Eligibility, EligibilityReason
from casework.runner.operation_spec import OperationSpec
from casework.runtime.views.travel import provider_label, travel_sentence, verdicts_to_json
from casework.runtime.workspace import Workspace
from casework.strict_json import JSON, JSONObject

_WORDS = {
    EligibilityReason.ELIGIBLE: "may be asked",
    EligibilityReason.DISABLED: "its entry says enabled = false",
    EligibilityReason.PRIVACY_PROFILE: "its class lies beyond the profile",
}

COLUMNS = ("order", "provider", "class", "adapter", "model", "eligible", "reason")


@dataclass(frozen=True, slots=True)
class Explanation:
    """The verdicts under one profile."""

    operation_id: str | None
    """None for the configuration as a whole."""
    profile: PrivacyProfile
    verdicts: tuple[Eligibility, ...]

    def title(self) -> str:
        """Return the sentence that stands over the verdicts."""
        subject = "configuration" if self.operation_id is None else f"operation {self.operation_id}"
        return f"{subject}: profile {self.profile.value}, {travel_sentence(self.verdicts)}"

    def rows(self) -> list[tuple[str, ...]]:
        """Return the verdicts for people, under the names of ``COLUMNS``."""
        return [
            (
                str(order),
                provider_label(verdict),
                verdict.provider.provider_class.value,
                verdict.provider.adapter,
                verdict.provider.model,
                "yes" if verdict.eligible else "no",
                _WORDS[verdict.reason],
            )
            for order, verdict in enumerate(self.verdicts, start=1)
        ]

    def to_json(self) -> JSONObject:
        """Return the verdicts as JSON output carries them."""
        providers: list[JSON] = [*verdicts_to_json(self.verdicts)]
        return {
            "operation_id": self.operation_id,
            "privacy_profile": self.profile.value,
            "travel": travel_sentence(self.verdicts),
            "providers": providers,
        }


def explain(workspace: Workspace, specs: Iterable[OperationSpec]) -> list[Explanation]:
    """Explain the configuration, then each of some operations; nobody is contacted."""
    profile, gateway = workspace.config.privacy_profile, workspace.gateway
    whole = Explanation(None, profile, gateway.explain())
    return [
        whole,
        *(
            Explanation(
                spec.id,
                profile.narrowed_by(spec.privacy_profile),
                gateway.explain(spec.privacy_profile),
            )
            for spec in specs
        ),
    ]
