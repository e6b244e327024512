"""The readable text of an HTML document, in time that grows with its length alone.

The standard library's parser needs minutes for a few hundred kilobytes of unclosed tags, so the
tags are found here; they matter only as line breaks and as the borders of what nobody reads.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_UNREAD: Final = frozenset({"script", "style", "template", "noscript", "svg", "math"})
_RAW: Final = _UNREAD | {"textarea", "title", "xmp", "iframe", "noembed"}
"""Elements whose content is taken whole, up to their own end."""
_PARAGRAPHS: Final = frozenset(
    {"address", "article", "aside", "blockquote", "body", "dl", "fieldset", "figure", "footer"}
    | {"form", "h1", "h2", "h3", "h4", "h5", "h6", "head", "header", "hgroup", "main", "nav", "ol"}
    | {"p", "pre", "section", "table", "textarea", "title", "ul", "xmp"}
)
_LINES: Final = frozenset(
    {"br", "caption", "center", "dd", "details", "dialog", "div", "dt", "figcaption", "hr", "html"}
    | {"legend", "li", "option", "select", "summary", "tbody", "tfoot", "thead", "tr"}
)
_CELLS: Final = frozenset({"td", "th"})
_PREFORMATTED: Final = frozenset({"pre", "textarea", "xmp"})

_TAG_START: Final = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9:_-]*)")
_TAG_STOP: Final = re.compile(r""">|=[ \t\n\r\f]*(["'])""")
"""The end of a tag, or the beginning of a quoted value; other quotes are letters."""
_SPACES: Final = re.compile(r"[ \t\n\r\f]+")
_LONG_REFERENCE: Final = re.compile(r"&#[0-9]{8,};?")
_LINE_TAILS: Final = re.compile(r"[ \t]+\n")
_BLANK_LINES: Final = re.compile(r"\n{3,}")


@dataclass(frozen=True, slots=True)
class _Tag:
    name: str
    closes: bool


def html_to_text(document: str) -> str:
    """Return the text that a reader of the page would see, one block a line.

    Scripts, styles and comments are dropped, character references are resolved, white space is
    collapsed except where it is preformatted. Text that is hidden by a style sheet is kept.
    """
    writer = _Writer()
    for token in _tokens(document):
        if isinstance(token, _Tag):
            writer.tag(token)
        else:
            writer.text(token)
    return writer.result()


class _Writer:
    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._preformatted = 0
        self._line_ends = 2
        """How many line ends stand at the end of what was written; two before the first word."""

    def tag(self, tag: _Tag) -> None:
        if tag.name in _PREFORMATTED:
            self._preformatted = max(0, self._preformatted + (-1 if tag.closes else 1))
        if tag.name in _PARAGRAPHS:
            self._break(2)
        elif tag.name in _LINES:
            self._break(1)
            if tag.name == "li" and not tag.closes:
                self._write("- ")
        elif tag.name in _CELLS and not tag.closes:
            self._next_cell()

    def text(self, text: str) -> None:
        if "&" in text:
            text = html.unescape(_LONG_REFERENCE.sub("\ufffd", text))
        if not self._preformatted:
            text = _SPACES.sub(" ", text)
            if self._line_ends or self._pieces[-1].endswith((" ", "\t")):
                text = text.removeprefix(" ")
        if text:
            self._write(text)

    def result(self) -> str:
        text = "".join(self._pieces).replace("\r\n", "\n").replace("\r", "\n")
        text = _BLANK_LINES.sub("\n\n", _LINE_TAILS.sub("\n", text)).strip("\n \t")
        return f"{text}\n" if text else ""

    def _write(self, text: str) -> None:
        self._pieces.append(text)
        self._line_ends = 0

    def _break(self, line_ends: int) -> None:
        if line_ends > self._line_ends:
            self._pieces.append("\n" * (line_ends - self._line_ends))
            self._line_ends = line_ends

    def _next_cell(self) -> None:
        if self._line_ends or self._pieces[-1].endswith("\t"):
            return
        if not self._preformatted:
            self._pieces[-1] = self._pieces[-1].removesuffix(" ")
        self._write("\t")


def _tokens(document: str) -> Iterator[str | _Tag]:
    """Yield texts and tags; what is not closed as a tag has to be is text."""
    scanner = _Scanner(document)
    at = text_from = 0
    while (at := document.find("<", at)) >= 0:
        end, tag = scanner.markup(at)
        if end is None:
            at += 1
            continue
        if text_from < at:
            yield document[text_from:at]
        if tag is not None:
            yield tag
            raw_end = scanner.raw_end(tag, end)
            if raw_end is not None:
                if tag.name not in _UNREAD:
                    yield document[end:raw_end]
                end = raw_end
        at = text_from = end
    if text_from < len(document):
        yield document[text_from:]


class _Scanner:
    """Find the ends of markup; each kind of search that fails once is never tried again."""

    def __init__(self, document: str) -> None:
        self._document = document
        self._last_stop = document.rfind(">")
        self._last_comment_end = document.rfind("-->")
        self._last_quotes = {'"': document.rfind('"'), "'": document.rfind("'")}
        self._quotes_count = True
        self._unclosed: set[str] = set()

    def markup(self, at: int) -> tuple[int | None, _Tag | None]:
        """Return where the markup that begins here ends, or None if none begins here."""
        document = self._document
        if at > self._last_stop:
            return None, None
        if document.startswith("<!--", at):
            if at + 2 <= self._last_comment_end:
                return document.find("-->", at + 2) + 3, None
            return None, None
        if document.startswith(("<!", "<?"), at):
            return document.find(">", at) + 1, None
        start = _TAG_START.match(document, at)
        if start is None:
            return None, None
        return self._tag_end(start.end()), _Tag(start[2].lower(), bool(start[1]))

    def raw_end(self, tag: _Tag, at: int) -> int | None:
        """Return where the content ends that is taken whole; None if the element is not closed."""
        if tag.closes or tag.name not in _RAW or tag.name in self._unclosed:
            return None
        end = re.compile(f"</{tag.name}(?![A-Za-z0-9])", re.IGNORECASE).search(self._document, at)
        if end is None:
            self._unclosed.add(tag.name)
            return None
        return end.start()

    def _tag_end(self, at: int) -> int:
        """Return the end of a tag; a ``>`` between quotes ends none, unless no other does."""
        position = at
        while self._quotes_count:
            stop = _TAG_STOP.search(self._document, position)
            if stop is None:
                self._quotes_count = False
            elif stop[0] == ">":
                return stop.end()
            elif stop.end() > self._last_quotes[stop[1]]:
                position = stop.end()
            else:
                position = self._document.find(stop[1], stop.end()) + 1
        return self._document.find(">", at) + 1
