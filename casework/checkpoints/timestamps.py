"""The one way a moment is written: RFC 3339 in UTC with ``Z``."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

_FORM: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{6}))?Z", re.ASCII)


def write_time(moment: datetime) -> str:
    """Write an aware moment as UTC text, with microseconds only where there are any.

    Raises:
        ValueError: The moment has no time zone, so nobody can know when it was.
    """
    if moment.tzinfo is None:
        raise ValueError("a moment without a time zone cannot be stored")
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def read_time(text: str) -> datetime:
    """Read what :func:`write_time` wrote, and no other form.

    Raises:
        ValueError: The text is not a moment in that form.
    """
    match = _FORM.fullmatch(text)
    if match is None:
        raise ValueError("not a moment in UTC with Z")
    year, month, day, hour, minute, second, fraction = match.groups()
    return datetime(
        int(year),
        int(month),
        int(day),
        int(hour),
        int(minute),
        int(second),
        int(fraction or 0),
        tzinfo=UTC,
    )
