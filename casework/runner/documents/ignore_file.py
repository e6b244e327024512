"""The ignore file of a folder to import: names and patterns that are passed over."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from casework.runner.documents.document import Problem, ProblemCode, Refusal
from casework.runner.glob_patterns import compile_glob

IGNORE_FILE: Final = ".caseworkignore"
IGNORE_FILE_BYTES_MAX: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class _Rule:
    pattern: re.Pattern[str]
    by_name: bool
    """Compare the last part of a path alone, at any depth."""
    folders_only: bool
    ignores: bool

    def matches(self, path: str, *, is_folder: bool) -> bool:
        if self.folders_only and not is_folder:
            return False
        return self.pattern.fullmatch(path.rpartition("/")[2] if self.by_name else path) is not None


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """Rules in order; the last one that matches decides.

    The lines are those of a Git ignore file in their plain forms: ``#`` begins a comment, ``!``
    takes a path back in, a slash at the end means folders only, a slash elsewhere ties the pattern
    to the top folder. A file below an ignored folder cannot be taken back in.
    """

    rules: tuple[_Rule, ...] = ()

    @classmethod
    def parse(cls, text: str) -> IgnoreRules:
        """Read the text of an ignore file.

        Raises:
            ValueError: A pattern cannot be understood; the message names its line.
        """
        rules = []
        for number, line in enumerate(text.split("\n"), start=1):
            pattern = line.strip()
            if not pattern or pattern.startswith("#"):
                continue
            try:
                rules.append(_rule(pattern))
            except ValueError as error:
                raise ValueError(f"line {number}: {error}") from None
        return cls(tuple(rules))

    @classmethod
    def read(cls, content: bytes | Problem, where: str) -> IgnoreRules | Refusal:
        """Read the bytes of an ignore file, or refuse everything that it would rule over."""
        if isinstance(content, Problem):
            return Refusal(content)
        try:
            return cls.parse(content.decode("utf-8-sig"))
        except ValueError as error:
            reason = "is not UTF-8" if isinstance(error, UnicodeError) else str(error)
            message = f"the ignore file cannot be used, so nothing was imported: {reason}"
            return Refusal(Problem(ProblemCode.UNREADABLE, where, message))

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """Tell whether a path, relative to the top folder, is passed over."""
        for rule in reversed(self.rules):
            if rule.matches(path, is_folder=is_folder):
                return rule.ignores
        return False


def _rule(pattern: str) -> _Rule:
    ignores = not pattern.startswith("!")
    pattern = pattern.removeprefix("!")
    folders_only = pattern.endswith("/")
    pattern = pattern.removesuffix("/")
    by_name = "/" not in pattern
    return _Rule(compile_glob(pattern.removeprefix("/")), by_name, folders_only, ignores)
