"""Patterns over documents do bounded work, whatever the document says."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.gateway.providers.bounded_pattern import (
    REPEAT_MAX,
    UnboundedPatternError,
    compile_bounded,
)


@pytest.mark.parametrize(
    "pattern",
    [
        "(a+)+",
        "(a*)*b",
        "(?:a|aa)+",
        "(?P<x>(?:a?b?){9})*",
        "(a|a)*c",
        ".*a.*b.*c",
        "a{1,500}b{1,500}",
        "((a{1,9}){1,9}){1,9}",
        r"(x)(?P<n>y+)(?P=n)*(z+)",
        "x{1001}",
        "a *",
        "(?x) a",
        "(?xi:a b)c+d+e+",
        "a" * 1001,
        "(",
        "[a",
        "[[a]",
        "a**",
        "\\",
        "(?P<x>a)(?P<x>b)",
    ],
)
def test_patterns_that_could_work_for_ever_are_refused(pattern: str) -> None:
    """Repeats of repeats, wide repeats side by side, and broken patterns do not load."""
    with pytest.raises(UnboundedPatternError) as caught:
        compile_bounded(pattern)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (
            "Apache License, Version 2",
            "the Apache\n   License,\tVersion 2.0",
            "Apache\n   License,\tVersion 2",
        ),
        ("MIT( License)?", "MIT License", "MIT License"),
        ("MIT( License)?", "MITRE", "MIT"),
        ("[a b]c", " c", " c"),
        (r"a\ b", "a b", "a b"),
        (r"\(c\) [0-9]{4}", "(c) 2026", "(c) 2026"),
        ("^b$", "a\nb\nc", "b"),
        ("(?i)mit", "MIT", "MIT"),
        (r"[]x]+", "a]x]", "]x]"),
        (r"[^]]+", "a]", "a"),
        ("a{}", "aa{}", "a{}"),
        ("a{,2}b", "aaab", "aab"),
        ("a{2,}", "aaa", "aaa"),
        ("a+?", "aaa", "a"),
        ("(?>a+)b", "aab", "aab"),
        ("a++b", "aab", "aab"),
        ("(?<=x)a", "xa", "a"),
        ("a(?!b)", "aba", "a"),
        ("(?P<q>['\"]).(?P=q)", "'x'", "'x'"),
        ("(a)?(?(1)b|c)", "ab", "ab"),
        ("cat|dog", "dog", "dog"),
        (r"\d+(\.\d{1,2})?", "v12.25", "12.25"),
    ],
)
def test_ordinary_patterns_find_what_they_should(pattern: str, text: str, found: str) -> None:
    """Limits change nothing about patterns as people write them."""
    match = compile_bounded(pattern).search(text)
    assert match is not None
    assert found == match.group()


def test_an_unlimited_repeat_is_cut() -> None:
    """A star takes two hundred characters and no more."""
    match = compile_bounded("a*").match("a" * 1000)
    assert match is not None
    assert REPEAT_MAX == len(match.group())


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        (r".*foo", "x" * 200_000),
        (r"\s+foo", " " * 200_000),
        ("a b c d e f", ("a" + " " * 150) * 1000),
        (r"(\w+)\s(\w+)x", "word " * 20_000),
        (r"(?>a+)+b", "a" * 100_000),
    ],
)
def test_hostile_documents_take_bounded_time(pattern: str, text: str) -> None:
    """A document of one endless line or blank is searched in moments."""
    begun = time.process_time()
    assert compile_bounded(pattern).search(text) is None
    assert 8.0 > time.process_time() - begun


@given(st.text("ab |()[]{}*+?.\\^$,1d", max_size=14), st.text("ab 1", max_size=12))
def test_a_loaded_pattern_says_what_the_plain_one_says(pattern: str, text: str) -> None:
    """On short texts without runs of blanks, limits change no verdict."""
    try:
        bounded = compile_bounded(pattern)
    except UnboundedPatternError:
        return
    plain = re.search(pattern, text, re.MULTILINE)
    if " " not in pattern:
        found = bounded.search(text)
        assert (plain and plain.span()) == (found and found.span())
    elif plain:
        assert bounded.search(text)
