"""Find the line and column of every key in a TOML text that a parser has already accepted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, TypeAlias

Path: TypeAlias = tuple[str | int, ...]

_BLANK: Final = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_INLINE_BLANK: Final = re.compile(r"[ \t]*")
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_STRING: Final = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|\'[^\'\n]*\'', re.DOTALL
)
_SCALAR: Final = re.compile(r"[^,\]}\n#]*")


class TomlPlaces:
    """Positions of the keys of one accepted TOML text.

    Args:
        text: The text; anything a TOML parser refuses gives positions that mean nothing.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._offsets: dict[Path, int] = {(): 0}
        self._array_lengths: dict[Path, int] = {}
        self._scan()

    @property
    def offsets(self) -> Mapping[Path, int]:
        """Return where each key or table begins, by its path."""
        return self._offsets

    def offset(self, path: Path) -> int:
        """Return where a key begins; where it is absent, where its table does."""
        while path not in self._offsets:
            path = path[:-1]
        return self._offsets[path]

    def line_and_column(self, path: Path) -> tuple[int, int]:
        """Return line and column, from 1, of a key or else of the table it belongs to."""
        offset = self.offset(path)
        before = self._text[:offset]
        return before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1

    def _scan(self) -> None:
        at = self._skip(_BLANK, 0)
        table: Path = ()
        while at < len(self._text):
            begin = at
            if self._text[at] == "[":
                at, table = self._header(at)
            else:
                at = self._pair(at, table)
            at = self._skip(_BLANK, at)
            assert at > begin, "every statement takes at least one character"

    def _header(self, at: int) -> tuple[int, Path]:
        begin = at
        is_array = self._text.startswith("[[", at)
        at, keys = self._keys(at + (2 if is_array else 1))
        path: Path = ()
        for key in keys[:-1]:
            path = self._last_element((*path, key))
        path = (*path, keys[-1])
        if is_array:
            index = self._array_lengths.get(path, 0)
            self._array_lengths[path] = index + 1
            self._offsets.setdefault(path, begin)
            path = (*path, index)
        self._offsets.setdefault(path, begin)
        return at + (2 if is_array else 1), path

    def _last_element(self, path: Path) -> Path:
        length = self._array_lengths.get(path)
        return path if length is None else (*path, length - 1)

    def _pair(self, at: int, table: Path) -> int:
        begin = at
        at, keys = self._keys(at)
        path = table
        for key in keys:
            path = (*path, key)
            self._offsets.setdefault(path, begin)
        return self._value(self._skip(_INLINE_BLANK, at + 1), path)

    def _keys(self, at: int) -> tuple[int, list[str]]:
        keys: list[str] = []
        while True:
            at = self._skip(_INLINE_BLANK, at)
            found = _STRING.match(self._text, at) or _BARE_KEY.match(self._text, at)
            if found is None:
                return len(self._text), keys or [""]
            keys.append(found.group().strip("\"'"))
            at = self._skip(_INLINE_BLANK, found.end())
            if not self._text.startswith(".", at):
                return at, keys
            at += 1

    def _value(self, at: int, path: Path) -> int:
        opening = self._text[at : at + 1]
        if opening == "[":
            return self._array(at + 1, path)
        if opening == "{":
            return self._inline_table(at + 1, path)
        found = _STRING.match(self._text, at) or _SCALAR.match(self._text, at)
        return found.end() if found else len(self._text)

    def _array(self, at: int, path: Path) -> int:
        index = 0
        at = self._skip(_BLANK, at)
        while at < len(self._text) and self._text[at] != "]":
            self._offsets.setdefault((*path, index), at)
            at = self._after_element(self._value(at, (*path, index)))
            index += 1
        return at + 1

    def _inline_table(self, at: int, path: Path) -> int:
        at = self._skip(_BLANK, at)
        while at < len(self._text) and self._text[at] != "}":
            at = self._after_element(self._pair(at, path))
        return at + 1

    def _after_element(self, at: int) -> int:
        at = self._skip(_BLANK, at)
        return self._skip(_BLANK, at + 1) if self._text.startswith(",", at) else at

    def _skip(self, blank: re.Pattern[str], at: int) -> int:
        found = blank.match(self._text, at)
        return found.end() if found else at
