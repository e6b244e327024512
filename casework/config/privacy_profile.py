"""How far a document may travel: three classes of provider and the profiles that admit them."""

from __future__ import annotations

from enum import StrEnum


class ProviderClass(StrEnum):
    """Where a provider's machine stands, from the nearest to the farthest."""

    LOCAL = "local"
    """This machine, reached through a loopback address or in this very process."""
    SELF_HOSTED = "self_hosted"
    """A machine of the user's own, marked so by hand."""
    CLOUD = "cloud"
    """Everything else."""


class PrivacyProfile(StrEnum):
    """The farthest class of provider that may see a document."""

    LOCAL_ONLY = "local_only"
    SELF_HOSTED = "self_hosted"
    CLOUD_ALLOWED = "cloud_allowed"

    def permits(self, provider_class: ProviderClass) -> bool:
        """Tell whether a provider of this class may be contacted."""
        return _CLASSES.index(provider_class) <= _PROFILES.index(self)

    def narrowed_by(self, other: PrivacyProfile | None) -> PrivacyProfile:
        """Return the narrower of two profiles; None narrows nothing."""
        if other is None or _PROFILES.index(self) <= _PROFILES.index(other):
            return self
        return other


_CLASSES = tuple(ProviderClass)
_PROFILES = tuple(PrivacyProfile)
