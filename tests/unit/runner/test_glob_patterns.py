from __future__ import annotations

import pytest

from casework.runner.glob_patterns import PATTERN_LENGTH_MAX, compile_glob, glob_matches


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("*", "a.txt", True),
        ("*", "a/b.txt", False),
        ("*.md", "A.MD", False),
        ("licen[cs]e*", "license.txt", True),
        ("[!a]*", "b", True),
        ("[!a]*", "a", False),
        ("[!a]b", "/b", False),
        ("[]]", "]", True),
        ("[^]", "^", True),
        ("[a-c]x", "bx", True),
        ("a[", "a[", True),
        ("?.txt", "a.txt", True),
        ("a?b", "a/b", False),
        ("**/x", "x", True),
        ("**/x", "a/b/x", True),
        ("**/x", "ax", False),
        ("a/**", "a/b/c", True),
        ("a/**", "a", False),
        ("a/**/b", "a/b", True),
        ("a/**/b", "a/x/y/b", True),
        ("a.b", "axb", False),
        ("{x}$", "{x}$", True),
        ("a\nb", "a\nb", True),
    ],
)
def test_patterns_match_whole_paths(pattern: str, path: str, *, expected: bool) -> None:
    """Stars stop at slashes, double stars do not, and all else is a letter."""
    assert expected is glob_matches(pattern, path)


@pytest.mark.parametrize("pattern", ["[z-a]", "x" * (PATTERN_LENGTH_MAX + 1)])
def test_patterns_without_a_meaning_are_refused(pattern: str) -> None:
    """A range the wrong way round and a giant pattern are mistakes."""
    with pytest.raises(ValueError, match="pattern"):
        compile_glob(pattern)
