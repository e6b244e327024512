"""Regular expressions over documents whose work has a bound whatever the document says."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from typing import Final

PATTERN_CHARACTERS_MAX: Final = 1_000
REPEAT_MAX: Final = 200
"""What an unlimited repeat is cut at."""
WAYS_MAX: Final = 50_000
"""Most ways in which the repeats of one pattern can share out a text between them."""

_QUANTIFIER: Final = re.compile(r"([*+?]|\{([0-9]*)(,?)([0-9]*)\})([?+]?)")
_GROUP_OPENING: Final = re.compile(
    r"\(\?(?:P<[^>]*>|P=[^)]*|[:>=!]|<[=!]|[aiLmsux-]+[:)]|\([^)]*\))|\("
)
_CHARACTER: Final = re.compile(r".", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\.", re.DOTALL)
_CLASS: Final = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)
_BLANKS: Final = re.compile(r" +")


class UnboundedPatternError(ValueError):
    """The pattern could work for ever, or is no regular expression. The text says why."""


@dataclass(slots=True)
class _Group:
    """A group that is still open."""

    atomic: bool = False
    """It never gives back what it took."""
    ways: int = 1
    """Ways of the branch that is being read."""
    earlier: int = 0
    """Ways of the branches before it, taken together."""

    @property
    def all_ways(self) -> int:
        """Return the ways of the whole group."""
        return 1 if self.atomic else self.earlier + self.ways


def compile_bounded(pattern: str) -> re.Pattern[str]:
    """Compile a pattern (Python's ``re``, lines matched by ``^`` and ``$``) within bounds.

    A blank outside a character class stands for any run of white space, line ends too. A repeat
    without a limit is cut at 200 characters. A pattern is refused if its repeats and alternatives
    can share out a text between them in more than 50,000 ways, as those of ``(a+)+`` can.

    Raises:
        UnboundedPatternError: The pattern is refused.
    """
    if len(pattern) > PATTERN_CHARACTERS_MAX:
        raise UnboundedPatternError(f"is longer than {PATTERN_CHARACTERS_MAX} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", FutureWarning)
            flags = re.compile(pattern).flags
        if flags & re.VERBOSE:
            raise UnboundedPatternError("uses the flag x, in which blanks mean nothing")
        return re.compile(_Rewriting(pattern).rewritten(), re.MULTILINE)
    except re.error as error:
        problem = f"is no regular expression: {error.msg}"
    except FutureWarning:
        problem = "holds a character set that later versions of Python read otherwise"
    except (OverflowError, RecursionError):
        problem = "is too large"
    raise UnboundedPatternError(problem)


class _Rewriting:
    """One walk along a pattern that sets limits and counts the ways."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._open = [_Group()]
        self._out: list[str] = []

    def rewritten(self) -> str:
        """Return the pattern with every repeat limited."""
        while self._at < len(self._pattern):
            self._atom()
        if self._open[0].all_ways > WAYS_MAX:
            raise UnboundedPatternError(
                "holds too many wide repeats; limit them, like {0,20}, or make them possessive, "
                "like ++"
            )
        return "".join(self._out)

    def _atom(self) -> None:
        character = self._pattern[self._at]
        if character == "(":
            opening = self._take(_GROUP_OPENING)
            if opening.endswith(")") and not opening.startswith("(?("):
                self._repeat(1)
            else:
                self._open.append(_Group(atomic=opening == "(?>"))
        elif character == ")":
            self._out.append(character)
            self._at += 1
            self._repeat(self._open.pop().all_ways)
        elif character == "|":
            self._out.append(character)
            self._at += 1
            group = self._open[-1]
            group.earlier, group.ways = min(group.earlier + group.ways, WAYS_MAX + 1), 1
        elif character == " ":
            self._blanks()
        else:
            self._take({"\\": _ESCAPE, "[": _CLASS}.get(character, _CHARACTER))
            self._repeat(1)

    def _take(self, token: re.Pattern[str]) -> str:
        found = token.match(self._pattern, self._at)
        assert found is not None, "the pattern was compiled before"
        self._at = found.end()
        self._out.append(found.group())
        return found.group()

    def _blanks(self) -> None:
        found = _BLANKS.match(self._pattern, self._at)
        assert found is not None
        self._at = found.end()
        if _QUANTIFIER.match(self._pattern, self._at):
            raise UnboundedPatternError("repeats a blank, which is already any run of white space")
        self._out.append(rf"\s{{1,{REPEAT_MAX}}}+")

    def _repeat(self, ways: int) -> None:
        """Limit the quantifier behind an atom, if there is one, and count the ways of both."""
        found = _QUANTIFIER.match(self._pattern, self._at)
        if found is not None and found.group(1) != "{}":
            self._at = found.end()
            least, most = _limits(found)
            sign = found.group(5)
            self._out.append(f"{{{least},{most}}}{sign}")
            ways = 1 if sign == "+" else (most - least + 1) * _power(ways, most)
        group = self._open[-1]
        group.ways = min(group.ways * ways, WAYS_MAX + 1)


def _power(ways: int, times: int) -> int:
    return 1 if ways == 1 else min(ways ** min(times, 64), WAYS_MAX + 1)


def _limits(found: re.Match[str]) -> tuple[int, int]:
    sign, least, comma, most = found.group(1), found.group(2), found.group(3), found.group(4)
    if sign == "?":
        return 0, 1
    if sign in "*+":
        return (0 if sign == "*" else 1), REPEAT_MAX
    low = int(least or 0)
    high = low if not comma else int(most) if most else max(low, REPEAT_MAX)
    if high > PATTERN_CHARACTERS_MAX:
        raise UnboundedPatternError(f"repeats more than {PATTERN_CHARACTERS_MAX} times")
    return low, high
