"""Limits, budgets and the numbers of an outage: read exactly, refused in one line."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from decimal import Decimal

import pytest

from casework.config import GatewayConfig
from casework.config.limits import zone_named
from casework.errors import ConfigurationError

PROVIDER = """[[providers]]
id = "a"
adapter = "openai_compatible"
base_url = "http://127.0.0.1:8080/v1"
model = "m"
"""


def test_limits_are_read() -> None:
    """A provider's limits and the start of its day come as written."""
    limits = """[providers.limits]
max_concurrency = 2
requests_per_minute = 60
requests_per_day = 1000
day_resets_at = "07:30"
time_zone = "Europe/Berlin"
"""
    read = GatewayConfig.parse(PROVIDER + limits).providers[0].limits
    assert read is not None
    assert (2, 60, 1000) == (
        read.max_concurrency,
        read.requests_per_minute,
        read.requests_per_day,
    )
    assert (time(7, 30), "Europe/Berlin") == (read.day_resets_at, read.time_zone)


def test_nothing_holds_back_unless_it_is_asked_for() -> None:
    """Without settings there is no limit and no budget, and outages are watched for."""
    config = GatewayConfig.parse(PROVIDER)
    assert config.providers[0].limits is None
    assert not config.budget.bounded
    assert (True, 3, 3, 15.0, 600.0) == (
        config.outage.enabled,
        config.outage.failed_rounds,
        config.outage.cases,
        config.outage.canary_seconds,
        config.outage.canary_seconds_max,
    )


def test_amounts_are_exact() -> None:
    """An amount is the decimal that stands in the file, quoted or not."""
    budget = GatewayConfig.parse(PROVIDER + '[budget]\ntotal = "0.50"\nper_day = 0.1\n').budget
    assert (Decimal("0.50"), Decimal("0.1")) == (budget.total, budget.per_day)
    assert budget.bounded


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ('[providers.limits]\nday_resets_at = "25:00"', "day_resets_at is no time of day"),
        ("[providers.limits]\nday_resets_at = 7", "day_resets_at is no time of day"),
        ('[providers.limits]\nday_resets_at = "07:00Z"', "day_resets_at carries a zone"),
        ('[providers.limits]\ntime_zone = "Mars/Base"', "time_zone names no time zone"),
        ('[budget]\ntime_zone = "../zone"', "time_zone names no time zone"),
        ("[providers.limits]\nrequests_per_minute = 0", "requests_per_minute is out of range"),
        ('[budget]\ntotal = "-5"', "total is out of range"),
        ('[budget]\ntotal = "NaN"', "total is no finite number"),
        ("[budget]\ntotal = true", "total is no number"),
        ('[budget]\nunknown_price_per_call = "0"', "unknown_price_per_call is out of range"),
        ("[outage]\ncanary_seconds_max = 1.0", "canary_seconds_max is shorter"),
        ("[outage]\ncases = 1", "cases is out of range"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_its_line(settings: str, told: str) -> None:
    """The error names the line, what is wrong and the way out."""
    with pytest.raises(ConfigurationError) as caught:
        GatewayConfig.parse(f"{PROVIDER}{settings}\n", source="llm.toml")
    assert str(caught.value).startswith("llm.toml:7:1: ")
    assert told in str(caught.value)
    assert "; " in str(caught.value)


def test_utc_needs_no_list_of_zones() -> None:
    """UTC is known on every machine; others come with their changes of the clock."""
    assert UTC is zone_named("UTC")
    summer = datetime(2026, 7, 1, tzinfo=zone_named("Europe/Berlin"))
    assert timedelta(hours=2) == summer.utcoffset()
