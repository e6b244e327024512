"""What a file is read as, and what was decided about reading it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final, Literal, TypeAlias, get_args

Media: TypeAlias = Literal["text", "markdown", "html", "record", "row", "mail", "pdf"]
"""A record is one JSON object of many, a row one line of a table under the table's header."""

MEDIA: Final[tuple[Media, ...]] = get_args(Media)

_BY_SUFFIX: Final[Mapping[str, Media]] = {
    **dict.fromkeys((".html", ".htm", ".xhtml"), "html"),
    ".eml": "mail",
    ".pdf": "pdf",
    **dict.fromkeys((".md", ".markdown", ".mdown", ".mkd"), "markdown"),
}


def media_of(name: str) -> Media:
    """Tell from its name what a whole file is read as."""
    return _BY_SUFFIX.get(PurePosixPath(name).suffix.lower(), "text")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How one original is read; together with its bytes, all that its products depend on."""

    media: Media
    encoding: str | None = None
    """Decides alone when given; None lets the bytes decide."""
    text_field: str | None = None
    """Name of the member or column that is the text; None takes the whole."""
