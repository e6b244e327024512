"""Reading a stored object strictly: every member asked for by name and type, none left over."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from casework.checkpoints.timestamps import read_time
from casework.errors import FormatError
from casework.strict_json import DEPTH_MAX, JSON, InvalidJSON, JSONObject, is_sha256_hex, parse

STORED_DEPTH_MAX: Final = DEPTH_MAX + 16
"""Deepest nesting of a stored file: what holds an answer is deeper than the answer."""


def parse_object(content: bytes, where: str) -> JSONObject:
    """Read one JSON object from stored bytes.

    Raises:
        FormatError: The bytes are not strict JSON, or not an object.
    """
    try:
        value = parse(content, depth_max=STORED_DEPTH_MAX)
    except InvalidJSON as error:
        raise FormatError(str(error), code="not_strict_json", where=where) from None
    if not isinstance(value, dict):
        raise FormatError("an object is expected", where=where)
    return value


class Fields:
    """One stored object, taken apart member by member.

    Each method takes a member away and checks its type; :meth:`done` refuses whatever is left.
    """

    __slots__ = ("_left", "where")

    def __init__(self, value: JSON, where: str) -> None:
        if not isinstance(value, dict):
            raise FormatError("an object is expected", where=where)
        self._left = dict(value)
        self.where = where

    def refuse(self, name: str, expected: str) -> FormatError:
        """Return the error that says what a member should have been."""
        return FormatError(f"member {name}: {expected} is expected", where=self.where)

    def value(self, name: str) -> JSON:
        """Take a member of any type."""
        try:
            return self._left.pop(name)
        except KeyError:
            raise FormatError(f"member {name} is missing", where=self.where) from None

    def has(self, name: str) -> bool:
        """Tell whether an optional member is still there."""
        return name in self._left

    def text(self, name: str) -> str:
        """Take a string."""
        value = self.value(name)
        if not isinstance(value, str):
            raise self.refuse(name, "a string")
        return value

    def optional_text(self, name: str) -> str | None:
        """Take a string or null."""
        value = self.value(name)
        if value is not None and not isinstance(value, str):
            raise self.refuse(name, "a string or null")
        return value

    def constant(self, name: str, expected: str) -> None:
        """Take a member that must hold exactly this text."""
        if self.value(name) != expected:
            raise self.refuse(name, expected)

    def sha256(self, name: str) -> str:
        """Take a digest of 64 lower-case hex digits."""
        value = self.value(name)
        if not is_sha256_hex(value):
            raise self.refuse(name, "64 hex digits")
        return value

    def optional_sha256(self, name: str) -> str | None:
        """Take a digest or null."""
        if self._left.get(name, "") is None:
            return self.optional_text(name)
        return self.sha256(name)

    def integer(self, name: str, minimum: int) -> int:
        """Take a whole number of at least ``minimum``."""
        value = self.value(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < minimum:
            raise self.refuse(name, f"a whole number of at least {minimum}")
        return value

    def optional_integer(self, name: str, minimum: int) -> int | None:
        """Take a whole number or null."""
        if self._left.get(name, 0) is None:
            del self._left[name]
            return None
        return self.integer(name, minimum)

    def seconds(self, name: str) -> float:
        """Take a duration: a number that is not negative."""
        value = self.value(name)
        if not isinstance(value, int | float) or isinstance(value, bool) or value < 0:
            raise self.refuse(name, "a number of seconds")
        return float(value)

    def optional_flag(self, name: str) -> bool | None:
        """Take true, false or null."""
        value = self.value(name)
        if value is not None and not isinstance(value, bool):
            raise self.refuse(name, "true, false or null")
        return value

    def time(self, name: str) -> datetime:
        """Take a moment in UTC."""
        value = self.value(name)
        if not isinstance(value, str):
            raise self.refuse(name, "a moment in UTC")
        try:
            return read_time(value)
        except ValueError:
            raise self.refuse(name, "a moment in UTC") from None

    def optional_time(self, name: str) -> datetime | None:
        """Take a moment in UTC or null."""
        if self._left.get(name, "") is None:
            del self._left[name]
            return None
        return self.time(name)

    def items(self, name: str) -> list[JSON]:
        """Take an array."""
        value = self.value(name)
        if not isinstance(value, list):
            raise self.refuse(name, "an array")
        return value

    def members(self, name: str) -> JSONObject:
        """Take an object."""
        value = self.value(name)
        if not isinstance(value, dict):
            raise self.refuse(name, "an object")
        return value

    def done(self) -> None:
        """Refuse members that nobody asked for.

        Raises:
            FormatError: There are some; only their number is told, since names may be text.
        """
        if self._left:
            raise FormatError(
                f"{len(self._left)} unknown member(s)", code="unknown_member", where=self.where
            )
