"""``[providers.limits]``, ``[budget]`` and ``[outage]``: what may hold work back.

None of it changes an answer, so none of it belongs to the configuration that an operation is
frozen to.
"""

from __future__ import annotations

from datetime import UTC, time, tzinfo
from decimal import Decimal
from typing import Annotated, Any, Final, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    Strict,
    StrictBool,
    StrictStr,
    ValidationInfo,
    field_validator,
)

from casework.config.settings_problems import FROZEN, settings_error

AMOUNT_MAX: Final = Decimal(1_000_000_000)
DECIMAL_PLACES_MAX: Final = 12


def _amount(value: Any) -> Any:
    """Read an amount from a text or a number, exactly as it is written."""
    if isinstance(value, float):
        return Decimal(repr(value))
    return value


Amount: TypeAlias = Annotated[
    Decimal,
    BeforeValidator(_amount),
    Field(ge=0, le=AMOUNT_MAX, decimal_places=DECIMAL_PLACES_MAX, allow_inf_nan=False),
]
Wait: TypeAlias = Annotated[float, Strict(), Field(ge=0.01, le=86_400, allow_inf_nan=False)]
Calls: TypeAlias = Annotated[int, Strict(), Field(ge=1, le=1_000_000_000)]


def zone_named(name: str) -> tzinfo:
    """Return a time zone by its name; UTC needs no list of zones on the machine.

    Raises:
        ValueError: There is none of that name.
    """
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, OSError) as error:
        raise ValueError("no such time zone") from error


def _time_of_day(value: Any) -> Any:
    """Read a time of day; TOML has a form of its own for it, and the quoted one is taken too."""
    if isinstance(value, time):
        return value
    try:
        return time.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        raise settings_error("is no time of day", 'write it like "00:00"') from None


TimeOfDay: TypeAlias = Annotated[time, BeforeValidator(_time_of_day)]


class DayReset(BaseModel):
    """When a new day begins, for what is counted by the day."""

    model_config = FROZEN

    day_resets_at: TimeOfDay = time(0)
    """Local time at which the count of the day begins anew."""
    time_zone: StrictStr = "UTC"
    """Name of the zone whose days count; changes of its clocks are followed."""

    @field_validator("day_resets_at")
    @classmethod
    def _plain_time(cls, moment: time) -> time:
        if moment.tzinfo is not None:
            raise settings_error("carries a zone", "name the zone in time_zone")
        return moment

    @field_validator("time_zone")
    @classmethod
    def _zone(cls, name: str) -> str:
        try:
            zone_named(name)
        except ValueError:
            raise settings_error(
                "names no time zone", 'write a name like "Europe/Berlin" or "UTC"'
            ) from None
        return name


class ProviderLimits(DayReset):
    """How often a provider may be called; all processes of a project count together."""

    max_concurrency: Annotated[int, Strict(), Field(ge=1, le=1000)] | None = None
    """Most calls in flight at once in one process."""
    requests_per_minute: Calls | None = None
    """Most calls within any sixty seconds."""
    requests_per_day: Calls | None = None
    """Most calls between two resets."""


class BudgetConfig(DayReset):
    """How much money may be spent; in the currency of ``[cost]``."""

    total: Amount | None = None
    """For everything that the project's rounds cost, from the first on."""
    per_day: Amount | None = None
    """For what the rounds begun on one day cost."""
    unknown_price_per_call: Annotated[Amount | None, Field(gt=0)] = None
    """What a call counts whose price is unknown; without it, such a call is not made."""

    @property
    def bounded(self) -> bool:
        """Tell whether there is any budget."""
        return self.total is not None or self.per_day is not None


class OutageConfig(BaseModel):
    """When the line waits because nobody answers."""

    model_config = FROZEN

    enabled: StrictBool = True
    """False lets every operation use up its rounds, whoever is down."""
    failed_rounds: Annotated[int, Strict(), Field(ge=1, le=1000)] = 3
    """Rounds that end unavailable in a row before the line waits."""
    cases: Annotated[int, Strict(), Field(ge=2, le=1000)] = 3
    """How many different cases they must belong to."""
    canary_seconds: Wait = 15.0
    """Wait before a first single round tries again; doubled each time."""
    canary_seconds_max: Wait = 600.0
    """Longest wait between two such rounds."""

    @field_validator("canary_seconds_max")
    @classmethod
    def _not_shorter(cls, longest: float, info: ValidationInfo) -> float:
        if longest < info.data.get("canary_seconds", 0.0):
            raise settings_error("is shorter than canary_seconds", "make it at least as long")
        return longest
