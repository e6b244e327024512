"""How much there is to read in a text, page by page."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from typing import Final

PAGES_WITH_TEXT_MIN: Final = 0.5
"""The least share of pages with text; below it a document counts as empty."""

_VOID: Final = re.compile(
    r"[\s\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    r"\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffd]+"
)
"""White space, controls, marks without a shape, and what stands for lost characters."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """Real characters, and on how many pages they stand."""

    characters: int
    """Characters that leave a mark on paper."""
    pages: int
    """Parts between form feeds; 1 where there is none."""
    pages_with_text: int

    def is_empty(self, pages_with_text_min: float = PAGES_WITH_TEXT_MIN) -> bool:
        """Tell whether there is nothing to read, or nothing on too many pages."""
        return self.characters == 0 or self.pages_with_text < pages_with_text_min * self.pages


def measure(text: str) -> Coverage:
    """Count the real characters of a text and its pages; a form feed at the end ends a page."""
    counts = [len(_VOID.sub("", page)) for page in _pages(text)]
    return Coverage(sum(counts), len(counts), sum(1 for count in counts if count))


def empty_pages(text: str, *, pages_max: int) -> tuple[int, ...]:
    """Return the numbers of the first pages without a real character, counted from 1."""
    numbers = (n for n, page in enumerate(_pages(text), start=1) if not _VOID.sub("", page))
    return tuple(islice(numbers, pages_max))


def _pages(text: str) -> list[str]:
    pages = text.split("\f")
    if len(pages) > 1 and not pages[-1].strip():
        pages.pop()
    return pages
