from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from casework.errors import ConfigurationError
from casework.runtime.cli.moments import read_moment

NOW = datetime(2026, 3, 29, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("90m", NOW - timedelta(minutes=90)),
        ("0s", NOW),
        ("36h", NOW - timedelta(hours=36)),
        ("2d", NOW - timedelta(days=2)),
        ("2026-01-31T08:00:00Z", datetime(2026, 1, 31, 8, tzinfo=UTC)),
        (
            "2026-01-31T08:00:00+05:30",
            datetime(2026, 1, 31, 8, tzinfo=timezone(timedelta(hours=5, minutes=30))),
        ),
    ],
)
def test_a_moment_is_read(text: str, moment: datetime) -> None:
    """How long ago, or when."""
    assert moment == read_moment(text, NOW, option="--since")


def test_without_an_offset_it_is_local() -> None:
    """As a person at this machine means it."""
    expected = datetime(2026, 1, 31).astimezone()
    assert expected == read_moment("2026-01-31", NOW, option="--since")


@pytest.mark.parametrize("text", ["", "yesterday", "-1h", "1w", "25:00", "999999d", "2026-02-30"])
def test_anything_else_is_refused(text: str) -> None:
    """With the forms that are known."""
    with pytest.raises(ConfigurationError) as caught:
        read_moment(text, NOW, option="--since")
    assert ("time_invalid", "--since") == (caught.value.code, caught.value.where)
