"""A vector in the two ways it is written: a list of numbers, and base64 of its bytes.

One of the doors to the parser.
"""

from __future__ import annotations

import math
import struct
from base64 import b64decode, b64encode
from dataclasses import dataclass, field
from typing import Annotated, Final

import msgspec

from casework.gateway.chat.json_members import NULL, text_of, written

_NUMBERS: Final = msgspec.json.Decoder(list[float])
_TOKENS: Final = msgspec.json.Decoder(list[Annotated[int, msgspec.Meta(ge=0)]])
_NUMBER_BYTES: Final = 4


class ItemShape(msgspec.Struct, gc=False):
    """One vector as a server writes it, and for which input it is."""

    embedding: msgspec.Raw
    index: int | None = None


class ListShape(msgspec.Struct, gc=False):
    """What a server writes; all of it is passed over once."""

    data: list[ItemShape] | None = None
    usage: msgspec.Raw = NULL
    error: msgspec.Raw = NULL


read_list: Final = msgspec.json.Decoder(ListShape).decode


@dataclass(frozen=True, slots=True)
class Vector:
    """Finite numbers, at least one."""

    packed: bytes = field(repr=False)
    """Each number as binary32, little-endian."""
    listed: bytes | None = field(default=None, repr=False)
    """The list as the server wrote it, byte for byte; None where it wrote base64."""

    def as_list(self) -> bytes:
        """Return the JSON of a list of numbers.

        Out of base64 each number comes in as many digits as name its very value, which is what
        an official client makes of base64 too.
        """
        return written(_unpacked(self.packed)) if self.listed is None else self.listed

    def as_base64(self) -> bytes:
        """Return the JSON of a text in base64."""
        return b'"' + b64encode(self.packed) + b'"'


def read_vector(value: bytes) -> Vector:
    """Read a vector out of its JSON, in whichever of the two ways it is written.

    Raises:
        ValueError: It is neither, or empty, or holds a number that is not finite as binary32.
    """
    if value.startswith(b'"'):
        packed = b64decode(text_of(value), validate=True)
        if not packed or len(packed) % _NUMBER_BYTES or not math.isfinite(sum(_unpacked(packed))):
            raise ValueError("not the bytes of finite numbers")
        return Vector(packed)
    numbers = _NUMBERS.decode(value)
    if not numbers:
        raise ValueError("a vector without numbers")
    try:
        return Vector(struct.pack(f"<{len(numbers)}f", *numbers), value)
    except OverflowError as error:
        raise ValueError("a number is too large") from error


def tokens_in(value: bytes) -> int | None:
    """Return how many tokens a list in JSON holds; None where it is no list of token numbers."""
    try:
        return len(_TOKENS.decode(value))
    except msgspec.ValidationError:
        return None


def _unpacked(packed: bytes) -> tuple[float, ...]:
    return struct.unpack(f"<{len(packed) // _NUMBER_BYTES}f", packed)
