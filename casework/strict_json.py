"""Strict and canonical JSON, the one way bytes become values and values become digests."""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import Any, Final, NoReturn, TypeAlias, TypeGuard

JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
JSONObject: TypeAlias = "dict[str, JSON]"

DEPTH_MAX: Final = 128
"""Deepest nesting that is read; deeper text is refused before it can exhaust the stack."""

INTEGER_DIGITS_MAX: Final = 308
"""Longest integer that is read; it still fits a finite binary64 number (RFC 8259, section 6)."""

REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"

_SHA256_HEX: Final = re.compile(r"[0-9a-f]{64}")


class InvalidJSON(ValueError):
    """The text is not strict JSON.

    ``reason`` is one of ``syntax``, ``duplicate_key``, ``number``, ``depth``, ``surrogate`` and
    ``encoding``; ``line`` and ``column`` count from 1 and are 0 where the place is not known.
    Never holds any of the text.
    """

    def __init__(self, reason: str, *, line: int = 0, column: int = 0) -> None:
        place = f" at line {line}, column {column}" if line else ""
        super().__init__(f"not strict JSON: {reason}{place}")
        self.reason = reason
        self.line = line
        self.column = column


def canonical(value: object) -> bytes:
    """Write a value in the one form that digests are taken of.

    UTF-8, keys sorted by code point, no spaces, no escapes beyond those JSON demands.

    Raises:
        ValueError: The value holds NaN, an infinity or a lone surrogate.
    """
    text = json.dumps(
        value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False
    )
    return text.encode("utf-8")


def sha256_hex(content: bytes) -> str:
    """Return the SHA-256 of bytes as 64 lower-case hex digits."""
    return hashlib.sha256(content).hexdigest()


def is_sha256_hex(value: object) -> TypeGuard[str]:
    """Tell whether a value is a text that :func:`sha256_hex` may have returned."""
    return isinstance(value, str) and _SHA256_HEX.fullmatch(value) is not None


def is_unicode(text: str) -> bool:
    """Tell whether a text can be written in UTF-8, that is, holds no lone surrogate."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def text_or_none(value: JSON) -> str | None:
    """Return a text as it is, and None for everything else."""
    return value if isinstance(value, str) else None


def integer_or_none(value: JSON) -> int | None:
    """Return a whole number as it is, and None for everything else, true and false too."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def digest(value: object) -> str:
    """Return the SHA-256 of a value's canonical form as 64 hex digits."""
    return sha256_hex(canonical(value))


def parse(text: str | bytes, *, depth_max: int = DEPTH_MAX) -> JSON:
    """Read strict JSON: RFC 8259 without duplicate keys, NaN, infinities or lone surrogates.

    Nothing is repaired: no byte order mark, comment, fence or trailing comma is forgiven.

    Raises:
        InvalidJSON: The text breaks one of these rules.
    """
    value = _load(text, depth_max)
    if _may_hold_surrogates(text) and _scrub(value)[1]:
        raise InvalidJSON("surrogate")
    return value


def parse_replacing_surrogates(text: str, *, depth_max: int = DEPTH_MAX) -> tuple[JSON, int]:
    """Read strict JSON in which each lone surrogate becomes U+FFFD, and count them.

    Models write half of a character pair now and then; UTF-8 cannot hold it, so the caller stores
    the replacement and the count.

    Raises:
        InvalidJSON: The text breaks any other rule of :func:`parse`.
    """
    value = _load(text, depth_max)
    return _scrub(value) if _may_hold_surrogates(text) else (value, 0)


def _load(text: str | bytes, depth_max: int) -> JSON:
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidJSON("encoding") from error
    try:
        value: JSON = json.loads(
            text,
            object_pairs_hook=object_without_duplicates,
            parse_constant=_refuse_constant,
            parse_float=_finite_float,
            parse_int=_bounded_int,
        )
    except json.JSONDecodeError as error:
        raise InvalidJSON("syntax", line=error.lineno, column=error.colno) from None
    except RecursionError:
        raise InvalidJSON("depth") from None
    if text.count("[") + text.count("{") > depth_max and _depth_exceeds(value, depth_max):
        raise InvalidJSON("depth")
    return value


def object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Make an object of its members; a hook for :func:`json.loads`.

    Raises:
        InvalidJSON: A name stands twice, so that it is open which value is meant.
    """
    members = dict(pairs)
    if len(members) != len(pairs):
        raise InvalidJSON("duplicate_key")
    return members


def _refuse_constant(_name: str) -> NoReturn:
    raise InvalidJSON("number")


def _finite_float(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise InvalidJSON("number")
    return number


def _bounded_int(digits: str) -> int:
    if len(digits) > INTEGER_DIGITS_MAX:
        raise InvalidJSON("number")
    return int(digits)


def _depth_exceeds(value: JSON, depth_max: int) -> bool:
    level: list[JSON] = [value]
    for _ in range(depth_max + 1):
        inner: list[JSON] = []
        for item in level:
            if isinstance(item, dict):
                inner.extend(item.values())
            elif isinstance(item, list):
                inner.extend(item)
        level = [item for item in inner if isinstance(item, dict | list)]
        if not level:
            return False
    return True


def _may_hold_surrogates(text: str | bytes) -> bool:
    marks = (b"\\ud", b"\\uD") if isinstance(text, bytes) else ("\\ud", "\\uD")
    if any(mark in text for mark in marks):  # type: ignore[operator]
        return True
    return isinstance(text, str) and not is_unicode(text)


def _scrub(value: JSON) -> tuple[JSON, int]:
    if isinstance(value, str):
        return _scrub_text(value)
    if isinstance(value, list):
        items = [_scrub(item) for item in value]
        return [item for item, _ in items], sum(count for _, count in items)
    if isinstance(value, dict):
        members: JSONObject = {}
        replaced = 0
        for name, item in value.items():
            clean_name, in_name = _scrub_text(name)
            clean_item, in_item = _scrub(item)
            if clean_name in members:
                raise InvalidJSON("duplicate_key")
            members[clean_name] = clean_item
            replaced += in_name + in_item
        return members, replaced
    return value, 0


def _scrub_text(text: str) -> tuple[str, int]:
    if is_unicode(text):
        return text, 0
    characters = [REPLACEMENT if "\ud800" <= c <= "\udfff" else c for c in text]
    replaced = sum(1 for before, after in zip(text, characters, strict=True) if before != after)
    return "".join(characters), replaced
