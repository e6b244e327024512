from __future__ import annotations

import pytest

from casework.runner.documents.ignore_file import IgnoreRules

RULES = IgnoreRules.parse("""
# drafts are not for models
*.draft
/top.txt
build/
notes/*.md
!notes/keep.md
**/deep/x
""")


@pytest.mark.parametrize(
    ("path", "is_folder", "expected"),
    [
        ("a.draft", False, True),
        ("sub/a.draft", False, True),
        ("top.txt", False, True),
        ("sub/top.txt", False, False),
        ("build", True, True),
        ("sub/build", True, True),
        ("build", False, False),
        ("notes/a.md", False, True),
        ("notes/keep.md", False, False),
        ("notes/sub/a.md", False, False),
        ("deep/x", False, True),
        ("a/b/deep/x", False, True),
        ("# drafts are not for models", False, False),
    ],
)
def test_the_last_rule_that_matches_decides(path: str, *, is_folder: bool, expected: bool) -> None:
    """Plain lines of a Git ignore file mean here what they mean there."""
    assert expected is RULES.ignores(path, is_folder=is_folder)


def test_no_rules_ignore_nothing() -> None:
    """A folder without the file is read whole."""
    assert not IgnoreRules().ignores("a", is_folder=False)


def test_a_bad_pattern_is_named_by_its_line() -> None:
    """A mistake in the file is not passed over."""
    with pytest.raises(ValueError, match="line 3: "):
        IgnoreRules.parse("a\n\n[z-a]\n")
