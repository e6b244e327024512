"""Shell patterns over relative POSIX paths, with ``*`` held back by slashes."""

from __future__ import annotations

import functools
import re
from typing import Final

PATTERN_LENGTH_MAX: Final = 512

_PIECE: Final = re.compile(r"\*\*/|/\*\*\Z|\*+|\?|\[!?\]?[^\]/]*\]|.", re.DOTALL)


@functools.lru_cache(maxsize=1024)
def compile_glob(pattern: str) -> re.Pattern[str]:
    """Turn a pattern into an expression that must match a whole path.

    ``*`` and ``?`` stop at slashes, ``**/`` stands for any number of folders, also none, a final
    ``/**`` for everything below, ``[a-z]`` and ``[!a-z]`` for one character.

    Raises:
        ValueError: The pattern is too long, or its brackets hold a bad range.
    """
    if len(pattern) > PATTERN_LENGTH_MAX:
        raise ValueError(f"a pattern has at most {PATTERN_LENGTH_MAX} characters")
    try:
        return re.compile("".join(map(_translated, _PIECE.findall(pattern))), re.DOTALL)
    except re.error as error:
        raise ValueError("the brackets of a pattern hold a bad range") from error


def glob_matches(pattern: str, path: str) -> bool:
    """Tell whether a pattern matches a whole path; case counts."""
    return compile_glob(pattern).fullmatch(path) is not None


def _translated(piece: str) -> str:
    match piece:
        case "**/":
            return "(?:[^/]+/)*"
        case "/**":
            return "/.+"
        case "?":
            return "[^/]"
        case _ if piece.startswith("*"):
            return "[^/]*"
        case _ if len(piece) > 1:
            return _bracket(piece[1:-1])
    return re.escape(piece)


def _bracket(inner: str) -> str:
    negated = inner.startswith("!")
    letters = inner.removeprefix("!").replace("\\", r"\\").replace("[", r"\[").replace("]", r"\]")
    return f"(?!/)[^{letters}]" if negated else f"(?!/)[{letters.replace('^', chr(92) + '^')}]"
