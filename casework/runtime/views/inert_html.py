"""HTML in which foreign text is text and nothing else: no script, no reference, no markup.

Every foreign text goes through :func:`inert`, and no attribute ever holds one. Control characters
and those that turn the direction of writing are shown as escapes, so that a text cannot look like
another one.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from typing import Final

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'"
"""What a browser may load for a page: nothing. Its own style stands in the page."""

_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff\U000e0000-\U000e007f]"
)
_STYLE: Final = """
:root { color-scheme: light dark; --line: #bbb; --soft: #f3f3f3; --mark: #fff2a8; }
@media (prefers-color-scheme: dark) {
  :root { --line: #555; --soft: #262626; --mark: #5a4b00; }
}
body { font: 1rem/1.45 system-ui, sans-serif; margin: 1rem auto; max-width: 90rem;
  padding: 0 1rem; }
table { border-collapse: collapse; margin: .5rem 0; }
caption { text-align: start; font-weight: bold; }
th, td { border: 1px solid var(--line); padding: .2rem .5rem; text-align: start;
  vertical-align: top; overflow-wrap: anywhere; white-space: pre-wrap; }
thead th { background: var(--soft); }
details { border: 1px solid var(--line); margin: .4rem 0; padding: .3rem .6rem; }
summary { cursor: pointer; overflow-wrap: anywhere; }
summary:focus-visible { outline: 3px solid; outline-offset: 2px; }
pre { background: var(--soft); padding: .5rem; white-space: pre-wrap; overflow-wrap: anywhere; }
mark { background: var(--mark); color: inherit; }
@media (min-width: 60rem) {
  .beside { display: grid; grid-template-columns: 1fr 1fr; gap: 1rem; align-items: start; }
  .beside > * { min-width: 0; }
}
"""


def inert(text: str) -> str:
    """Return a foreign text as HTML text."""
    text = text.replace("\r\n", "\n")
    return html.escape(_UNSEEN.sub(_escape, text))


def page_begin(title: str) -> str:
    """Return everything of a page up to its first heading.

    Args:
        title: What the page is about, a foreign text.
    """
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{html.escape(POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{inert(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<header>\n<h1>{inert(title)}</h1>\n</header>\n<main>\n"
    )


def page_end() -> str:
    """Return the end of a page."""
    return "</main>\n</body>\n</html>\n"


def table(
    caption: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, headed: bool = True
) -> str:
    """Return a table of foreign texts.

    Args:
        caption: What it shows.
        columns: The headers.
        rows: The cells.
        headed: The first cell of each row is its header.
    """
    heads = "".join(f'<th scope="col">{inert(name)}</th>' for name in columns)
    lines = [f"<table>\n<caption>{inert(caption)}</caption>\n<thead><tr>{heads}</tr></thead>\n"]
    lines.append("<tbody>\n")
    for row in rows:
        cells = [f'<td dir="auto">{inert(cell)}</td>' for cell in row]
        if headed:
            cells[0] = f'<th scope="row" dir="auto">{inert(row[0])}</th>'
        lines.append(f"<tr>{''.join(cells)}</tr>\n")
    return "".join([*lines, "</tbody>\n</table>\n"])


def numbered(text: str, marked: Iterable[int] = ()) -> str:
    """Return a document with its lines numbered from 1, some of them marked."""
    chosen = frozenset(marked)
    lines = inert(text).split("\n")
    width = len(str(len(lines)))
    shown = (
        f"{number:>{width}}  {f'<mark>{line}</mark>' if number in chosen else line}"
        for number, line in enumerate(lines, start=1)
    )
    return f'<pre lang="" dir="auto">{chr(10).join(shown)}</pre>\n'


def _escape(found: re.Match[str]) -> str:
    return found.group().encode("unicode_escape").decode("ascii")
