from __future__ import annotations

import pytest

from casework.runner.documents.coverage import Coverage, measure


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Coverage(0, 1, 0)),
        (" \r\n\t \u00a0\u3000", Coverage(0, 1, 0)),
        ("\ufeff\u200b\u2060\u00ad\u2028\u202e\ufffd\x1b", Coverage(0, 1, 0)),
        ("ab c", Coverage(3, 1, 1)),
        ("\uac00\ub098 \U0001f600", Coverage(3, 1, 1)),
        ("one\ftwo", Coverage(6, 2, 2)),
        ("one\f \n", Coverage(3, 1, 1)),
        ("\f\f\f", Coverage(0, 3, 0)),
        ("one\f\f\fx\f", Coverage(4, 4, 2)),
    ],
)
def test_real_characters_are_counted_page_by_page(text: str, expected: Coverage) -> None:
    """White space, invisible marks and lost characters are no text; a form feed ends a page."""
    assert expected == measure(text)


@pytest.mark.parametrize(
    ("coverage", "empty"),
    [
        (Coverage(0, 1, 0), True),
        (Coverage(5, 1, 1), False),
        (Coverage(5, 10, 4), True),
        (Coverage(5, 10, 5), False),
        (Coverage(9000, 311, 113), True),
    ],
)
def test_text_on_less_than_half_of_the_pages_counts_as_none(
    coverage: Coverage, *, empty: bool
) -> None:
    """A scan in which most pages were not recognised is not asked about."""
    assert empty is coverage.is_empty()


def test_the_share_of_pages_can_be_set() -> None:
    """Zero asks for a single real character only."""
    assert not Coverage(1, 100, 1).is_empty(0)
    assert Coverage(0, 100, 0).is_empty(0)
    assert Coverage(99, 100, 99).is_empty(1)
