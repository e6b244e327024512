"""JSON taken apart one level at a time, so that every value stays as it was written.

One of the doors to the parser; :mod:`.wire_shapes` is the other.
"""

from __future__ import annotations

import hashlib
import re
from typing import Final, TypeAlias

import msgspec

Raw: TypeAlias = msgspec.Raw
"""One value, as it came."""
Members: TypeAlias = dict[str, Raw]
"""An object's members; each value is JSON as it came."""

NOT_JSON: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What reading raises where bytes are no JSON, nest too deep, or have another shape."""
MISFIT: Final = msgspec.ValidationError
"""The one of them that says: JSON, in another shape."""

INTEGER_MAX: Final = 2**53
"""Greatest whole number that every reader of JSON holds exactly."""

NULL: Final = Raw(b"null")
EMPTY_TEXT: Final = Raw(b'""')

members_of: Final = msgspec.json.Decoder(Members).decode
"""Read an object; of a name that stands twice, the last value counts."""
items_of: Final = msgspec.json.Decoder(list[Raw]).decode
text_of: Final = msgspec.json.Decoder(str).decode
integer_of: Final = msgspec.json.Decoder(int).decode
number_of: Final = msgspec.json.Decoder(float).decode
value_of: Final = msgspec.json.Decoder().decode
"""Read a value to its last level."""
written: Final = msgspec.json.Encoder().encode
"""Write a value, in which whatever was kept as it came stands as it came."""

_QUOTE, _BRACE, _BRACKET, _N = b'"{[n'
_ESCAPES: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|\\."
)


def is_text(value: Raw | None) -> bool:
    """Tell whether a value is there and a string."""
    return value is not None and memoryview(value)[0] == _QUOTE


def is_object(value: Raw | None) -> bool:
    """Tell whether a value is there and an object."""
    return value is not None and memoryview(value)[0] == _BRACE


def is_list(value: Raw | None) -> bool:
    """Tell whether a value is there and a list."""
    return value is not None and memoryview(value)[0] == _BRACKET


def is_null(value: Raw | None) -> bool:
    """Tell whether a value is there and null."""
    return value is not None and memoryview(value)[0] == _N


def says_something(value: Raw | None) -> bool:
    """Tell whether a value is there and none of null, false, an empty text, list or object."""
    if value is None:
        return False
    content = bytes(value)
    if content[0] in _OPEN:
        return not content[1:-1].isspace() and len(content) > len("[]")
    return content not in _SAYS_NOTHING


_OPEN: Final = frozenset({_BRACE, _BRACKET})
_SAYS_NOTHING: Final = frozenset({b"null", b"false", b'""'})


def raw(value: object) -> Raw:
    """Write a value as a member to be."""
    return Raw(written(value))


def digest_of(content: bytes) -> str:
    """Return 24 hex digits that stand for some bytes, for names that a server forgot to give."""
    return hashlib.sha256(content).hexdigest()[:24]


def text_or_none(value: Raw | None) -> str | None:
    """Return the text of a value that is one."""
    return text_of(value) if value is not None and is_text(value) else None


def integer_or_none(value: Raw | None) -> int | None:
    """Return the whole number that a value is, also where it is written like 1.0.

    None for everything else, and for numbers too great for every reader.
    """
    if value is None:
        return None
    try:
        number = number_of(value)
    except msgspec.ValidationError:
        return None
    whole = number.is_integer() and abs(number) <= INTEGER_MAX
    return int(number) if whole else None


def check_utf8(data: bytes) -> None:
    """Look at every byte, since what the parser passes over it does not decode.

    Raises:
        UnicodeDecodeError: The bytes are no UTF-8; one of ``NOT_JSON``.
    """
    if not data.isascii():
        data.decode("utf-8")


def without_lone_surrogates(data: bytes) -> bytes:
    """Write U+FFFD for each escaped half of a character pair, which UTF-8 cannot hold."""
    return _ESCAPES.sub(lambda found: b"\\ufffd" if found.group(1) else found.group(), data)
