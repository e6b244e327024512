"""A vector keeps its numbers in whichever of the two ways it is written."""

from __future__ import annotations

import base64
import json
import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.gateway.embeddings.vectors import read_vector

_NUMBERS = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1)


def packed(*numbers: float) -> bytes:
    """Return the base64 JSON of numbers as binary32, little-endian."""
    return b'"' + base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)) + b'"'


def test_a_list_is_kept_byte_for_byte() -> None:
    """Spelling of numbers and spaces of a list come out as they went in."""
    written = b"[ 0.10, -2e-3,\n1, 0.123456789012345678 ]"
    assert written == read_vector(written).as_list()


def test_a_list_becomes_base64_of_little_endian_binary32() -> None:
    """The bytes are those that official clients unpack."""
    assert b'"AACAPwAAAMAAAAA/"' == read_vector(b"[1, -2.0, 0.5]").as_base64()


def test_base64_becomes_a_list() -> None:
    """Numbers that binary32 holds exactly are written as they are."""
    assert b"[1.0,-2.0,0.5]" == read_vector(packed(1, -2, 0.5)).as_list()


@given(_NUMBERS)
def test_base64_survives_the_way_through_a_list(numbers: list[float]) -> None:
    """No bit is lost between the two ways, signs of zeros and the smallest numbers included."""
    written = packed(*numbers)
    listed = read_vector(written).as_list()
    assert numbers == json.loads(listed)
    assert written == read_vector(listed).as_base64() == read_vector(written).as_base64()


@given(st.lists(st.floats(-1, 1), min_size=1))
def test_a_list_is_rounded_to_the_nearest_binary32(numbers: list[float]) -> None:
    """Numbers with more digits than binary32 holds are rounded once."""
    unpacked = struct.iter_unpack("<f", base64.b64decode(_base64_of(numbers)))
    for number, (rounded,) in zip(numbers, unpacked, strict=True):
        assert math.isclose(number, rounded, rel_tol=2**-24, abs_tol=2**-150)


def _base64_of(numbers: list[float]) -> bytes:
    return read_vector(json.dumps(numbers).encode()).as_base64().strip(b'"')


@pytest.mark.parametrize(
    "written",
    [
        b"[]",
        b'""',
        b"null",
        b"1",
        b"{}",
        b"[true]",
        b'["1"]',
        b"[null]",
        b"[[1]]",
        b"[1e39]",
        b"[-1e39]",
        b"[1e999]",
        b'"AACAPw"',
        b'"AACAPwAA"',
        b'"AACA Pw=="',
        b'"AACAPw-="',
        '"é"'.encode(),
        packed(math.inf),
        packed(-math.inf),
        packed(1, math.nan),
        packed(math.inf, -math.inf),
    ],
)
def test_what_is_no_vector_of_finite_numbers_is_refused(written: bytes) -> None:
    """Empty, other kinds, broken base64, and numbers that are or become infinite."""
    with pytest.raises(ValueError, match=r".+"):
        read_vector(written)


def test_its_numbers_are_not_shown() -> None:
    """A vector tells of a text, so its description holds none of it."""
    assert "Vector()" == repr(read_vector(b"[0.25]"))
