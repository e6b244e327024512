"""Numbers and times as people read them."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from typing import Final

from casework.checkpoints.timestamps import write_time
from casework.strict_json import JSON

UNKNOWN: Final = "unknown"

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_THOUSAND, _MILLION = 1000, 1_000_000


def local_time(moment: datetime | None) -> str:
    """Return a moment in the local zone, with its offset, to the second."""
    return "-" if moment is None else moment.astimezone().isoformat(sep=" ", timespec="seconds")


def utc_time(moment: datetime | None) -> str | None:
    """Return a moment as JSON carries it: UTC, with Z."""
    return None if moment is None else write_time(moment)


def value(single: JSON) -> str:
    """Return a text as it is, and any other value as JSON writes it."""
    return single if isinstance(single, str) else json.dumps(single, ensure_ascii=False)


def duration(seconds: float | None) -> str:
    """Return a length of time in its two largest units; None is unknown."""
    if seconds is None:
        return UNKNOWN
    whole = max(round(seconds), 0)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min {whole % _MINUTE:02d} s"
    if whole < _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE:02d} min"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR:02d} h"


def count(number: int) -> str:
    """Return a whole number with its thousands apart."""
    return f"{number:,}"


def rounded(number: int) -> str:
    """Return a large number short."""
    if number < 10 * _THOUSAND:
        return count(number)
    if number < _MILLION:
        return f"{number / _THOUSAND:.0f}k"
    return f"{number / _MILLION:.1f}M"


def tokens(known: int, calls_without: int) -> str:
    """Return a sum of tokens; where no call told its tokens the sum is unknown, not zero."""
    return UNKNOWN if calls_without and not known else rounded(known)


def money(cost: dict[str, Decimal], calls_without_price: int) -> str:
    """Return known costs by currency and how many calls have no known price."""
    known = " + ".join(f"{amount:.4f} {currency}" for currency, amount in sorted(cost.items()))
    if not known:
        return UNKNOWN if calls_without_price else "none"
    missing = f", {count(calls_without_price)} calls price unknown" if calls_without_price else ""
    return f"{known} known{missing}"


def plural(number: int, noun: str) -> str:
    """Return a number with its noun."""
    return f"{count(number)} {noun}" + ("" if number == 1 else "s")
