from __future__ import annotations

import pytest

from casework.runner.documents.coverage import measure
from casework.runner.documents.text_report import PAGES_LISTED_MAX, TextReport


def report(text: str) -> TextReport:
    return TextReport.of(text, measure(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", (0, 0, 0)),
        ("a\nb\r\nc\rd\r\r\n\n", (2, 2, 2)),
        ("\u2028\u2029\u0085\f\v", (0, 0, 0)),
    ],
)
def test_line_ends_are_counted_by_kind(text: str, expected: tuple[int, int, int]) -> None:
    """Line feeds, carriage returns, and both together; separators are none of them."""
    found = report(text)
    assert expected == (found.line_feeds, found.carriage_returns, found.line_end_pairs)


def test_controls_are_counted_but_for_those_of_every_text() -> None:
    """Tab, line feed, form feed and carriage return belong in a text."""
    assert 5 == report("a\t\n\f\r\x00\x07\x1b\x7f\x85").control_characters


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("plain", "nfc"),
        ("\u00e9 \u2013", "nfc"),
        ("e\u0301", "nfd"),
        ("e\u0301 \u00e9", "mixed"),
        ("\uac00", "nfc"),
        ("\u1100\u1161", "nfd"),
    ],
)
def test_the_normal_form_is_noticed(text: str, form: str) -> None:
    """It is told and not changed."""
    assert form == report(text).normal_form


def test_pages_without_text_are_listed_up_to_a_limit() -> None:
    """The first ones are enough to find the place."""
    assert (2, 4) == report("one\f \fthree\f\ffive").pages_without_text
    assert tuple(range(1, PAGES_LISTED_MAX + 1)) == report("\f" * 500).pages_without_text
