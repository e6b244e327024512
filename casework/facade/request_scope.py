"""What a request may reach: the narrowest of the client's key, its headers and its body."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Final

from casework.config.privacy_profile import PrivacyProfile
from casework.errors import InvalidRequest
from casework.facade.endpoint import Visit
from casework.gateway.scope import Scope

PRIVACY_HEADER: Final = b"x-casework-privacy-profile"
DEADLINE_HEADER: Final = b"x-casework-deadline-seconds"


def scope_of(visit: Visit, body_profile: PrivacyProfile | None) -> Scope:
    """Return what the request may reach: the narrowest of key, header and body.

    Raises:
        InvalidRequest: A header cannot be read.
    """
    headers, scope = visit.exchange.headers, visit.client.scope
    named = headers.get(PRIVACY_HEADER)
    seconds = headers.get(DEADLINE_HEADER)
    if named is None and seconds is None and body_profile is None:
        return scope
    profile = narrowest(scope.profile, body_profile)
    if named is not None:
        profile = narrowest(profile, _profile(named))
    return replace(
        scope,
        profile=profile,
        deadline_seconds=None if seconds is None else _seconds(seconds),
    )


def narrowest(first: PrivacyProfile | None, second: PrivacyProfile | None) -> PrivacyProfile | None:
    """Return the narrower of two profiles, either of which may be unnamed."""
    return second if first is None else first.narrowed_by(second)


def _profile(value: bytes) -> PrivacyProfile:
    try:
        return PrivacyProfile(value.decode("ascii").strip())
    except ValueError:
        pass
    # Raised out here, where an error that holds the value is no longer at hand.
    raise InvalidRequest(
        "the header names no privacy profile",
        code="invalid_header",
        where=PRIVACY_HEADER.decode(),
        remedy=f"use one of {', '.join(PrivacyProfile)}",
    )


def _seconds(value: bytes) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise InvalidRequest(
            "the header holds no positive number of seconds",
            code="invalid_header",
            where=DEADLINE_HEADER.decode(),
            remedy="write it like 2.5",
        )
    return seconds
