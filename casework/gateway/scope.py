"""How far one request of a client may reach."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from casework.config.privacy_profile import PrivacyProfile


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """What a client's key, header and body narrow; nothing in it widens."""

    profile: PrivacyProfile | None = None
    """The narrowest that was asked for; None leaves what is configured."""
    models: tuple[str, ...] | None = None
    """Patterns with ``*`` of the names that may be asked for; None allows all."""
    deadline_seconds: float | None = None
    """Shortens the configured deadline; a longer one changes nothing."""

    def allows(self, *names: str) -> bool:
        """Tell whether a model may be asked for that goes by these names."""
        return self.models is None or any(
            fnmatchcase(name, pattern) for name in names for pattern in self.models
        )


UNBOUNDED = Scope()
"""Narrows nothing beyond the configuration."""
