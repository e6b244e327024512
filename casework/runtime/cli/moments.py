"""Moments as a person types them."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from typing import Final

from casework.errors import ConfigurationError

_AGO: Final = re.compile(r"(?P<number>[0-9]{1,6})(?P<unit>[smhd])")
_UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def read_moment(text: str, now: datetime, *, option: str) -> datetime:
    """Return the moment that is meant.

    Args:
        text: An ISO 8601 date or time, local where it names no offset; or how long ago, as ``90m``
            or ``2d``.
        now: The time.
        option: The option, for the error.

    Raises:
        ConfigurationError: It is neither; code ``time_invalid``.
    """
    ago = _AGO.fullmatch(text)
    try:
        if ago:
            return now - timedelta(**{_UNITS[ago["unit"]]: int(ago["number"])})
        moment = datetime.fromisoformat(text)
        return moment if moment.tzinfo is not None else moment.astimezone()
    except (ValueError, OverflowError):
        raise ConfigurationError(
            "is no time",
            code="time_invalid",
            where=option,
            remedy="write it like 2026-01-31T08:00:00+01:00, 2026-01-31, 90m, 12h or 2d",
        ) from None
