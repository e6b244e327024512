"""What mails say about themselves: header words, parameters and character sets, odd ones too."""

from __future__ import annotations

import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import unquote_to_bytes

from casework.runner.documents.decoding import Undecodable, decode, text_codec
from casework.runner.documents.document import ProblemCode

HEADER_LENGTH_MAX: Final = 64 * 1024
"""How much of one header is looked at."""

_WORD: Final = re.compile(r"=\?([^?\s]{1,80})\?([bBqQ])\?([^?]*)\?=")
_BETWEEN_WORDS: Final = re.compile(r"[ \t]*")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]*")
_FOLDS: Final = re.compile(r"\r?\n(?=[ \t])")
_CONTROLS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_PARAMETER: Final = re.compile(
    r';\s*([A-Za-z0-9_*\'.-]{1,40})\s*=\s*("(?:[^"\\]|\\.)*"|[^;"\s][^;]*|)', re.DOTALL
)
_LABEL: Final = re.compile(r"[A-Za-z0-9_.:+-]{1,40}")
_SURROGATES: Final = re.compile("[\ud800-\udfff]")
_NAMES: Final[Mapping[str, str]] = {
    "iso-8859-8-i": "iso8859-8",
    "iso-8859-8-e": "iso8859-8",
    "iso-8859-6-i": "iso8859-6",
    "iso-8859-6-e": "iso8859-6",
    "unicode-1-1-utf-7": "utf-7",
    "x-sjis": "shift_jis",
    "ks_c_5601-1987": "cp949",
    "gb2312": "gb18030",
}
"""Character sets that Python knows by another name, or only inside of a larger one."""


@dataclass(frozen=True, slots=True)
class DecodedText:
    """A text of a mail, and what was noticed."""

    text: str
    encoding: str = "us-ascii"
    findings: tuple[tuple[ProblemCode, str], ...] = ()
    surrogates_replaced: int = 0


def decoded_text(
    content: bytes, charset: str | None, header: str | None = None, *, encoding: str | None = None
) -> DecodedText:
    """Decode a text by the character set that it names; one that cannot be is found out.

    Args:
        content: The bytes.
        charset: What the mail names, if anything.
        header: The header that names it, to see whether there is more in it than should be.
        encoding: Decides where the mail names nothing.
    """
    if charset is None:
        return _found_out(content, encoding)
    label = charset.strip().lower()
    codec = text_codec(_NAMES.get(label, label)) if _LABEL.fullmatch(label) else None
    if codec in {"ascii", "iso8859-1"}:
        codec = "utf-8" if content.isascii() else "cp1252"
    text = _strict(content, codec) if codec else None
    if text is None or codec is None:
        found = _found_out(content, None)
        what = "is not in" if codec else "names no known"
        message = f"a text {what} character set{' it names' if codec else ''}"
        return _with(found, f"{message}; it was read as {found.encoding}")
    found = _clean(text, codec)
    if header is not None and not _is_whole(header):
        return _with(found, f"a damaged header names the character set; it was read as {codec}")
    if label in _UNUSUAL:
        return _with(found, f"a text names an unusual character set; it was read as {codec}")
    return found


_UNUSUAL: Final = frozenset(label for label in _NAMES if label.endswith(("-i", "-e")))


def header_text(raw: str) -> DecodedText:
    """Return a header as a person reads it, on one line."""
    raw = _FOLDS.sub("", raw[:HEADER_LENGTH_MAX])
    found = DecodedText(raw)
    if not raw.isascii():
        found = _found_out(raw.encode("utf-8", "surrogateescape"), None)
    findings = list(found.findings)
    text = _words_decoded(found.text, findings)
    return DecodedText(_CONTROLS.sub(" ", text).strip(), findings=tuple(dict.fromkeys(findings)))


def structured_header(raw: str) -> tuple[str, dict[str, str]]:
    """Return the value of a header with parameters, in lower case, and the parameters."""
    raw = raw[:HEADER_LENGTH_MAX]
    if not raw.isascii():
        raw = _found_out(raw.encode("utf-8", "surrogateescape"), None).text
    value, _, rest = _CONTROLS.sub(" ", _FOLDS.sub("", raw)).partition(";")
    parameters: dict[str, str] = {}
    for found in _PARAMETER.finditer(f";{rest}"):
        text = found[2].strip()
        if text.startswith('"'):
            text = re.sub(r"\\(.)", r"\1", text[1:-1])
        parameters.setdefault(found[1].lower(), text)
    return value.strip().lower(), parameters


def parameter(parameters: Mapping[str, str], name: str) -> str | None:
    """Return a parameter that is a text, also one in pieces or with a character set of its own."""
    if name in parameters:
        return header_text(parameters[name]).text or None
    numbered = (f"{name}*{number}{star}" for number in range(100) for star in ("", "*"))
    pieces = [parameters[piece] for piece in (f"{name}*", *numbered) if piece in parameters]
    if not pieces:
        return None
    charset, quote, rest = "".join(pieces).partition("'")
    language, second, value = rest.partition("'")
    del language
    if not quote or not second:
        return header_text("".join(pieces)).text or None
    found = decoded_text(unquote_to_bytes(value), charset)
    return _CONTROLS.sub(" ", found.text).strip() or None


def _words_decoded(text: str, findings: list[tuple[ProblemCode, str]]) -> str:
    """Decode encoded words; neighbours in one character set may part a letter between them."""
    pieces: list[str] = []
    pending: list[bytes] = []
    charset = ""
    at = 0

    def flush() -> None:
        if pending:
            found = decoded_text(b"".join(pending), charset.partition("*")[0])
            findings.extend(found.findings)
            pieces.append(found.text)
            pending.clear()

    for word in _WORD.finditer(text):
        content = _word(word[2], word[3])
        between = text[at : word.start()]
        if not (at and content is not None and _BETWEEN_WORDS.fullmatch(between)):
            flush()
            pieces.append(between)
        elif word[1].lower() != charset:
            flush()
        if content is None:
            flush()
            pieces.append(word[0])
        else:
            charset = word[1].lower()
            pending.append(content)
        at = word.end()
    flush()
    return "".join((*pieces, text[at:]))


def _word(kind: str, text: str) -> bytes | None:
    if kind in "qQ":
        return binascii.a2b_qp(text.encode("utf-8", "replace"), header=True)
    letters = text.rstrip("=")
    if _BASE64.fullmatch(letters) is None:
        return None
    try:
        return binascii.a2b_base64(letters + "=" * (-len(letters) % 4))
    except binascii.Error:
        return None


def _is_whole(header: str) -> bool:
    """Tell whether nothing is left of a header beside its value and its parameters."""
    _, separator, rest = header[:HEADER_LENGTH_MAX].partition(";")
    return not _PARAMETER.sub("", separator + rest).strip("; \t\r\n")


def _found_out(content: bytes, encoding: str | None) -> DecodedText:
    decoded = decode(content, encoding=encoding)
    if isinstance(decoded, Undecodable):
        text = content.decode("utf-8", "replace")
        message = "a text is in no encoding that could be found out; it was read as utf-8"
        return replace(_clean(text, "utf-8"), findings=((ProblemCode.CHARSET_UNKNOWN, message),))
    found = _clean(decoded.text, decoded.encoding)
    if not decoded.guessed:
        return found
    message = "the encoding of a text was guessed as Windows-1252"
    return replace(found, findings=((ProblemCode.ENCODING_GUESSED, message),))


def _strict(content: bytes, codec: str) -> str | None:
    try:
        return content.decode(codec)
    except UnicodeError:
        return None


def _clean(text: str, encoding: str) -> DecodedText:
    text, replaced = _SURROGATES.subn("\ufffd", text)
    return DecodedText(text.replace("\0", "\ufffd"), encoding, surrogates_replaced=replaced)


def _with(found: DecodedText, message: str) -> DecodedText:
    return replace(found, findings=((ProblemCode.CHARSET_UNKNOWN, message), *found.findings))
