"""What is unusual about a text: line ends, controls, normal form, pages without text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias
from unicodedata import ucd_3_2_0

from casework.runner.documents.coverage import Coverage, empty_pages

NormalForm: TypeAlias = Literal["nfc", "nfd", "mixed"]

PAGES_LISTED_MAX: Final = 100

_CONTROLS: Final = re.compile("[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f]")
"""All controls but tab, line feed, form feed and carriage return."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextReport:
    """What was noticed about a text as models read it; nothing of it was changed for that."""

    line_feeds: int = 0
    """Line ends that are a line feed alone."""
    carriage_returns: int = 0
    """Carriage returns without a line feed."""
    line_end_pairs: int = 0
    """Carriage return and line feed together."""
    control_characters: int = 0
    surrogates_replaced: int = 0
    """Halves of character pairs for which U+FFFD stands in the text."""
    normal_form: NormalForm = "nfc"
    """The Unicode normal form that the text has, by the tables of Unicode 3.2."""
    pages_without_text: tuple[int, ...] = ()
    """The first numbers of pages on which nothing can be read."""

    @classmethod
    def of(cls, text: str, coverage: Coverage, *, surrogates_replaced: int = 0) -> TextReport:
        """Look at a text whose pages were counted."""
        all_pages = coverage.pages == coverage.pages_with_text
        pairs = text.count("\r\n")
        return cls(
            line_feeds=text.count("\n") - pairs,
            carriage_returns=text.count("\r") - pairs,
            line_end_pairs=pairs,
            control_characters=sum(1 for _ in _CONTROLS.finditer(text)),
            surrogates_replaced=surrogates_replaced,
            normal_form=_normal_form(text),
            pages_without_text=() if all_pages else empty_pages(text, pages_max=PAGES_LISTED_MAX),
        )


def _normal_form(text: str) -> NormalForm:
    # The current tables grow with every Python; those of Unicode 3.2 are the same in each.
    if text.isascii() or ucd_3_2_0.is_normalized("NFC", text):
        return "nfc"
    return "nfd" if ucd_3_2_0.is_normalized("NFD", text) else "mixed"
