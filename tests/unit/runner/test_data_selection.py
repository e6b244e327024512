from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from casework.runner.data_selection import (
    DataSelector,
    TextPart,
    check_pattern,
    join_texts,
    select_texts,
)


@dataclass(frozen=True)
class Entry:
    path: str
    name: str | None = None


FILES = (
    Entry("package.json"),
    Entry("original/b.md"),
    Entry("original/license~1.txt", "LICENSE.txt"),
    Entry("original/sub/a.html"),
    Entry("case/import.json"),
    Entry("case/facts.json"),
    Entry("case/text/license~2.txt", "text/LICENSE.txt.txt"),
    Entry("case/text/sub/a~3.txt", "text/sub/a.html.txt"),
)


@pytest.mark.parametrize(
    ("patterns", "paths"),
    [
        ([], ["case/text/license~2.txt", "original/b.md", "case/text/sub/a~3.txt"]),
        (["LICENSE*"], ["case/text/license~2.txt"]),
        (["license*"], []),
        (["*"], ["case/text/license~2.txt", "original/b.md"]),
        (["**/*.html", "*.md"], ["case/text/sub/a~3.txt", "original/b.md"]),
        (["b.md", "*.md", "b.*"], ["original/b.md"]),
        (["case/facts.json", "*.md"], ["case/facts.json", "original/b.md"]),
        (["case/*.json"], ["case/facts.json", "case/import.json"]),
        (["case/text/**"], ["case/text/license~2.txt", "case/text/sub/a~3.txt"]),
        (["package.json"], []),
    ],
)
def test_texts_are_chosen_by_the_users_own_names(patterns: list[str], paths: list[str]) -> None:
    """What was made of an original stands for it, and nothing is chosen twice."""
    found = select_texts(DataSelector(tuple(patterns)), FILES)
    assert paths == [part.path for part in found]


def test_the_order_of_the_files_is_of_no_account() -> None:
    """The same package gives the same data, however its files are listed."""
    every = select_texts(DataSelector(), FILES)
    assert every == select_texts(DataSelector(), tuple(reversed(FILES)))
    assert TextPart("LICENSE.txt", "case/text/license~2.txt") == every[0]


@pytest.mark.parametrize("pattern", ["", "/a", "./a", "../a", "original/a", "a\nb", "[z-a]"])
def test_a_pattern_that_cannot_match_is_named(pattern: str) -> None:
    """A mistake is found at load and not as an empty selection."""
    assert check_pattern(pattern) is not None


@pytest.mark.parametrize("pattern", ["*.md", "case/x.json", "**/a b.txt", "[!a]*"])
def test_a_sound_pattern_has_no_problem(pattern: str) -> None:
    """Ordinary patterns pass."""
    assert check_pattern(pattern) is None


def test_a_single_text_stands_as_it_is() -> None:
    """Nothing, not even a name, is added to it."""
    assert "  text\r\n" == join_texts([("name", "  text\r\n")])


def test_several_texts_stand_under_headings_that_tell_their_length() -> None:
    """A document that imitates a heading cannot give its length away for another's."""
    parts: Sequence[tuple[str, str]] = [('a "b"', "one"), ("c", "two\n")]
    expected = (
        '--- document 1 of 2, 3 characters: "a \\"b\\"" ---\n\none\n\n'
        '--- document 2 of 2, 4 characters: "c" ---\n\ntwo\n'
    )
    assert expected == join_texts(parts)


def test_no_texts_are_no_text() -> None:
    """A selection without a match is empty, which is then refused."""
    assert "" == join_texts([])
