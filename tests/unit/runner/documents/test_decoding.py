from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.runner.documents.decoding import (
    Decoded,
    Undecodable,
    declared_encoding,
    decode,
    text_codec,
)
from casework.runner.documents.document import ProblemCode

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\ufeff"))


@given(TEXTS)
def test_utf8_is_read_as_it_stands(text: str) -> None:
    """Valid UTF-8 is never taken for anything else."""
    assert Decoded(f"x{text}", "utf-8") == decode(f"x{text}".encode())


@pytest.mark.parametrize(
    ("mark", "codec", "name"),
    [
        (codecs.BOM_UTF8, "utf-8", "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le", "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be", "utf-16-be"),
    ],
)
def test_a_byte_order_mark_decides_and_is_no_part_of_the_text(
    mark: bytes, codec: str, name: str
) -> None:
    """The three marks that editors write are understood and reported."""
    text = "Gr\u00fc\u00dfe \U0001f600 \u2028"
    assert Decoded(text, name, byte_order_mark=True) == decode(mark + text.encode(codec))


def test_old_windows_text_is_a_guess() -> None:
    """Byte 96 is a dash in Windows-1252 and nothing in UTF-8."""
    assert Decoded("a \u2013 b", "cp1252", guessed=True) == decode(b"a \x96 b")


@pytest.mark.parametrize("byte", [b"\x81", b"\x8d", b"\x8f", b"\x90", b"\x9d"])
def test_bytes_that_windows_never_wrote_are_refused(byte: bytes) -> None:
    """A guess that cannot be true is not made."""
    decoded = decode(b"a \x96 " + byte)
    assert isinstance(decoded, Undecodable)
    assert ProblemCode.ENCODING_UNKNOWN is decoded.code


@pytest.mark.parametrize(
    "content",
    [
        b"text\0text",
        "UTF-16 without a mark".encode("utf-16-le"),
        b"\xff\xfe" + "a\0b".encode("utf-16-le"),
        b"%PDF-1.7\n1 0 obj",
        b"PK\x03\x04rest",
        b"\x89PNG\r\n\x1a\n",
        b"\xe9\x01\x02\x03 bytes",
        b"\xff\xd8\xff\xe0",
    ],
)
def test_what_is_no_text_is_called_binary(content: bytes) -> None:
    """NUL bytes, stray controls and the beginnings of known formats are no text."""
    decoded = decode(content)
    assert isinstance(decoded, Undecodable)
    assert ProblemCode.BINARY is decoded.code


def test_half_a_character_at_the_end_of_utf16_is_refused() -> None:
    """A file that was cut off is not read as if it were whole."""
    decoded = decode(codecs.BOM_UTF16_LE + b"a\0b")
    assert isinstance(decoded, Undecodable)
    assert ProblemCode.ENCODING_UNKNOWN is decoded.code


def test_an_encoding_that_is_given_decides_alone() -> None:
    """Valid UTF-8 is read as something else only on demand, and without a word of guessing."""
    assert Decoded("\u00c3\u00a9", "cp1252") == decode(b"\xc3\xa9", encoding="cp1252")
    assert isinstance(decode(b"\x96", encoding="utf-8"), Undecodable)
    assert Decoded("\u300c", "shift_jis") == decode(b"\x81u", encoding="shift_jis")


@pytest.mark.parametrize(
    ("head", "codec"),
    [
        (b'<meta charset="windows-1251">', "cp1251"),
        (b"<meta http-equiv=x content='text/html; charset=KOI8-R'>", "koi8-r"),
        (b"<meta charset=iso-8859-1>", "cp1252"),
        (b"<meta charset=utf-7>", None),
        (b"<meta charset=utf-16>", None),
        (b"<meta charset=hex>", None),
        (b"<meta charset=iso-8859-8-i>", None),
        (b"<meta charset=>", None),
        (b"<p>no head</p>", None),
        (b" " * 2000 + b"<meta charset=koi8-r>", None),
    ],
)
def test_the_head_of_a_page_may_declare_its_encoding(head: bytes, codec: str | None) -> None:
    """Labels are read as browsers do; those that cannot be true are ignored."""
    assert codec == declared_encoding(head)


def test_a_declaration_counts_only_where_utf8_does_not_fit() -> None:
    """Pages that were converted often keep their old declaration."""
    assert "\u00e9" == decode(b"\xc3\xa9", declared="cp1251").text  # type: ignore[union-attr]
    assert Decoded("\u041f", "cp1251") == decode(b"\xcf", declared="cp1251")
    assert Decoded("\u2013", "cp1252", guessed=True) == decode(b"\x96", declared="ascii")


@pytest.mark.parametrize("name", ["hex", "rot13", "base64", "nonsense", "", "a\0b"])
def test_names_of_no_text_encoding_are_known_as_such(name: str) -> None:
    """Transforms of bytes are no encodings of text."""
    assert text_codec(name) is None


@pytest.mark.parametrize(
    ("name", "codec"), [("UTF8", "utf-8"), ("Windows-1252", "cp1252"), ("949", "cp949")]
)
def test_other_spellings_of_an_encoding_are_known(name: str, codec: str) -> None:
    """The name that is recorded is the normal one."""
    assert codec == text_codec(name)


@given(st.binary(max_size=200))
def test_any_bytes_are_a_text_or_a_reason(content: bytes) -> None:
    """Decoding never raises, and what it gives can be stored as UTF-8."""
    match decode(content):
        case Decoded(text=text):
            assert "\0" not in text
            assert text == text.encode("utf-8").decode("utf-8")
        case Undecodable(message=message):
            assert message != ""
