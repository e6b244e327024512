"""Cutting a text that is too long for one request into parts that can be put together again."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from unicodedata import ucd_3_2_0

from casework.errors import ConfigurationError

CHUNK_BYTES_MIN: Final = 64
"""Least size of a chunk; a smaller one could be filled by a single letter with its marks."""

_BACK_MAX: Final = 32
"""How many characters are given up at most to keep a letter and its marks together."""

_FLAG_HALVES_MAX: Final = 1024
"""How far back halves of flags are counted, to tell which two are one flag."""

_PARAGRAPHS: Final = re.compile(r"\n(?:[ \t\r]*\n)+|\f")
_LINES: Final = re.compile(r"\n")
_SENTENCES: Final = re.compile(
    r"[.!?\u2026][\"'\u201d\u2019\u00bb)\]]{0,4}[ \t\r\n]+"
    r"|[\u3002\uff01\uff1f][\"'\u201d\u2019\u300d\u300f\uff09]{0,4}"
)
_WORDS: Final = re.compile(r"[ \t\r\n]+")
_BORDERS: Final = (_PARAGRAPHS, _LINES, _SENTENCES, _WORDS)
"""Where a text may be cut, the best places first; the cut lies after the match."""

_JOINERS: Final = frozenset("\u200d\u0c4d\u094d\u09cd\u1039")
"""What ties the next character to the one before: the joiner of emoji, and some viramas."""
_CONTINUES: Final = re.compile(
    r"[\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u1ab0-\u1aff"
    r"\u1dc0-\u1dff\u200c\u200d\u20d0-\u20ff\ufe00-\ufe0f\ufe20-\ufe2f"
    r"\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f\U000e0100-\U000e01ef]"
)


@dataclass(frozen=True, slots=True)
class Chunk:
    """One part of a text."""

    number: int
    """Counts from 1."""
    total: int
    start: int
    """Offset of its first character in the whole text."""
    end: int
    """Offset behind its last character."""
    overlap: int
    """How many characters at its beginning are also the end of the chunk before."""
    text: str

    @property
    def fresh(self) -> str:
        """Return what no chunk before this one holds; all of them in order are the text."""
        return self.text[self.overlap :]


def split_text(text: str, *, chunk_bytes: int, overlap_bytes: int) -> tuple[Chunk, ...]:
    """Cut a text into parts of at most so many bytes of UTF-8.

    A cut is made after a paragraph, else after a line, else after a sentence, else after a word,
    where one of these ends in the second half of a chunk; else between two characters, and then
    not between a letter and its marks unless these go on for very long. The same text and sizes
    give the same chunks on every machine. There is always at least one chunk; a text that fits,
    also an empty one, is a single chunk.

    Args:
        text: The whole text.
        chunk_bytes: Most bytes of a chunk, what it repeats included.
        overlap_bytes: Most bytes that a chunk repeats from the end of the one before.

    Raises:
        ConfigurationError: The sizes leave no room for a text; code ``chunk_size``.
    """
    if chunk_bytes < CHUNK_BYTES_MIN or not 0 <= overlap_bytes <= chunk_bytes // 2:
        raise ConfigurationError(
            "a text cannot be cut into chunks of these sizes",
            code="chunk_size",
            remedy=f"give at least {CHUNK_BYTES_MIN} bytes a chunk, and repeat at most half of it",
        )
    cuts: list[tuple[int, int]] = []
    start = end = 0
    while True:
        before, end = end, _end(text, start, fresh_from=end, chunk_bytes=chunk_bytes)
        cuts.append((start, end))
        if end == len(text):
            break
        start = _start(text, end, not_before=before, overlap_bytes=overlap_bytes)
    ends = [0, *(end for _, end in cuts)]
    return tuple(
        Chunk(number, len(cuts), start, end, ends[number - 1] - start, text[start:end])
        for number, (start, end) in enumerate(cuts, start=1)
    )


def _end(text: str, start: int, *, fresh_from: int, chunk_bytes: int) -> int:
    """Return where the chunk ends that begins at ``start``; always behind ``fresh_from``."""
    last = start + _fitting(text[start : start + chunk_bytes], chunk_bytes)
    if last == len(text):
        return last
    middle = max(fresh_from, (start + last) // 2)
    for border in _BORDERS:
        ends = [found.end() for found in border.finditer(text, middle, last)]
        for cut in reversed(ends):
            if _is_apart(text, cut):
                return cut
    for cut in range(last, max(fresh_from, last - _BACK_MAX), -1):
        if _is_apart(text, cut):
            return cut
    return last


def _start(text: str, end: int, *, not_before: int, overlap_bytes: int) -> int:
    """Return where the next chunk begins: as early as it may, at the best border near there."""
    tail = text[max(not_before, end - overlap_bytes) : end]
    content = tail.encode("utf-8", "surrogatepass")[-overlap_bytes:] if overlap_bytes else b""
    while content and content[0] & 0xC0 == 0x80:  # noqa: PLR2004 - a byte inside a character
        content = content[1:]
    first = end - len(content.decode("utf-8", "surrogatepass"))
    middle = (first + end) // 2
    for border in _BORDERS:
        for found in border.finditer(text, first, middle):
            if _is_apart(text, found.end()):
                return found.end()
    for cut in range(first, min(end, first + _BACK_MAX)):
        if _is_apart(text, cut):
            return cut
    return first


def _fitting(text: str, bytes_max: int) -> int:
    """Return how many characters fit into so many bytes."""
    content = text.encode("utf-8", "surrogatepass")
    if len(content) <= bytes_max:
        return len(text)
    while content[bytes_max] & 0xC0 == 0x80:  # noqa: PLR2004 - a byte inside a character
        bytes_max -= 1
    return len(content[:bytes_max].decode("utf-8", "surrogatepass"))


def _is_apart(text: str, cut: int) -> bool:
    """Tell whether a cut here separates no letter from its marks and no ``CR`` from its ``LF``."""
    if not 0 < cut < len(text):
        return True
    before, after = text[cut - 1], text[cut]
    return not (
        before in _JOINERS
        or (before == "\r" and after == "\n")
        or _CONTINUES.match(after)
        # The database of Unicode 3.2 is the same in every Python.
        or ucd_3_2_0.category(after)[0] == "M"
        or (_is_flag_half(after) and _flag_halves_before(text, cut) % 2 == 1)
    )


def _is_flag_half(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _flag_halves_before(text: str, cut: int) -> int:
    count = 0
    while count < min(cut, _FLAG_HALVES_MAX) and _is_flag_half(text[cut - 1 - count]):
        count += 1
    return count
