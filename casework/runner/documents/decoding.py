"""From bytes to text, saying each time on what ground."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from typing import Final

from casework.runner.documents.document import ProblemCode

_BINARY_STARTS: Final = (
    b"%PDF-",
    b"PK\x03\x04",
    b"\x89PNG",
    b"GIF8",
    b"\xff\xd8\xff",
    b"\x1f\x8b",
    b"BZh",
    b"\xfd7zXZ",
    b"7z\xbc\xaf",
    b"Rar!",
    b"\xd0\xcf\x11\xe0",
    b"\x7fELF",
    b"{\\rtf",
    b"SQLite format 3",
)
"""How files begin that are no texts although their bytes may read as one."""

_CONTROLS: Final = re.compile(rb"[\x00-\x06\x0e-\x1a\x1c-\x1f\x7f]")
"""What no text of an old Windows program holds; bell to carriage return and escape may occur."""

_DECLARED: Final = re.compile(rb"""charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]{1,40})""", re.IGNORECASE)
_NO_CHARSET: Final = re.compile(
    r"idna|punycode|undefined|mbcs|oem|(raw[-_ ]?)?unicode[-_ ]?escape", re.IGNORECASE
)
"""Codecs of Python that no document is written in; some take minutes for a few kilobytes."""
_DECLARATION_BYTES: Final = 1024
_LATIN_LABELS: Final = frozenset({"ascii", "iso8859-1"})


@dataclass(frozen=True, slots=True)
class Decoded:
    """A text, and how it was read."""

    text: str
    encoding: str
    """Name of the codec."""
    byte_order_mark: bool = False
    guessed: bool = False
    """Nothing in the file says that this is its encoding."""


@dataclass(frozen=True, slots=True)
class Undecodable:
    """Why bytes were not read as a text."""

    code: ProblemCode
    message: str


def decode(
    content: bytes, *, encoding: str | None = None, declared: str | None = None
) -> Decoded | Undecodable:
    """Read bytes as text: a byte order mark decides, then UTF-8, then what the file declares.

    What is none of these is read as Windows-1252, which is marked as a guess. Bytes with NUL
    outside of UTF-16 are no text.

    Args:
        content: The bytes of one document.
        encoding: Decides alone when given, as far as it fits.
        declared: Codec that the document names itself, as HTML may.
    """
    if content.startswith(_BINARY_STARTS):
        return Undecodable(ProblemCode.BINARY, "not a text: the content of another kind of file")
    if encoding is not None:
        return _decode_as(content, encoding)
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        little = content.startswith(codecs.BOM_UTF16_LE)
        return _decode_as(content, "utf-16-le" if little else "utf-16-be")
    if b"\0" in content:
        return Undecodable(
            ProblemCode.BINARY, "not a text: NUL bytes (for UTF-16 without a mark, say so)"
        )
    try:
        return _without_mark(content.decode("utf-8"), "utf-8")
    except UnicodeDecodeError:
        return _decode_declared(content, declared) or _guess(content)


def text_codec(name: str) -> str | None:
    """Return the normal name of a codec that makes text of bytes, or None if there is none."""
    if _NO_CHARSET.fullmatch(name.strip()):
        return None
    try:
        b"text".decode(name)
    except UnicodeError:
        pass
    except (LookupError, ValueError):
        return None
    return codecs.lookup(name).name


def declared_encoding(content: bytes) -> str | None:
    """Return the codec that the head of an HTML document declares, if it can be true.

    Browsers read the Latin-1 label as Windows-1252, and so does this; codecs in which the
    declaration itself could not be read are out of the question.
    """
    found = _DECLARED.search(content[:_DECLARATION_BYTES])
    codec = text_codec(found[1].decode("ascii")) if found else None
    if codec is None or "<+".encode(codec, "replace") != b"<+":
        return None
    return "cp1252" if codec in _LATIN_LABELS else codec


def _decode_as(content: bytes, encoding: str) -> Decoded | Undecodable:
    try:
        decoded = _without_mark(content.decode(encoding), encoding)
        decoded.text.encode("utf-8")
    except UnicodeError:
        return Undecodable(ProblemCode.ENCODING_UNKNOWN, f"the bytes are not {encoding}")
    if "\0" in decoded.text:
        return Undecodable(ProblemCode.BINARY, "not a text: NUL characters")
    return decoded


def _decode_declared(content: bytes, declared: str | None) -> Decoded | None:
    if declared is None:
        return None
    decoded = _decode_as(content, declared)
    return decoded if isinstance(decoded, Decoded) else None


def _guess(content: bytes) -> Decoded | Undecodable:
    if _CONTROLS.search(content):
        return Undecodable(ProblemCode.BINARY, "not a text: control bytes, and not UTF-8")
    decoded = _decode_as(content, "cp1252")
    if isinstance(decoded, Undecodable):
        return Undecodable(ProblemCode.ENCODING_UNKNOWN, "neither UTF-8 nor Windows-1252")
    return Decoded(decoded.text, decoded.encoding, guessed=True)


def _without_mark(text: str, encoding: str) -> Decoded:
    marked = text.startswith("\ufeff")
    return Decoded(text[1:] if marked else text, encoding, marked)
