"""Which texts of a case an operation reads, and how they become one text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from casework.runner.glob_patterns import compile_glob, glob_matches
from casework.strict_json import JSON

ALL_TEXT: Final = "text"
"""The word that selects the text of every original."""

_ORIGINALS: Final = "original/"
_PRODUCTS: Final = "case/"


class PackageFile(Protocol):
    """What is asked of a file entry of a package."""

    @property
    def path(self) -> str:
        """Return the path in the package."""

    @property
    def name(self) -> str | None:
        """Return the user's own relative name where the path could not keep it."""


@dataclass(frozen=True, slots=True)
class OutputSelector:
    """A part of the answer of an earlier operation."""

    operation: str
    pointer: str
    """JSON Pointer into the answer; the empty one is the whole."""

    @property
    def name(self) -> str:
        """Return what stands over the part in the prompt."""
        return f"{self.operation} {self.pointer}".rstrip()


@dataclass(frozen=True, slots=True)
class DataSelector:
    """What an operation reads, in order; nothing at all selects the text of every original.

    A text is a pattern over the names of originals or, beginning with ``case/``, over products.
    """

    entries: tuple[str | OutputSelector, ...] = ()

    @property
    def outputs(self) -> tuple[OutputSelector, ...]:
        """Return the parts of earlier answers."""
        return tuple(entry for entry in self.entries if isinstance(entry, OutputSelector))


@dataclass(frozen=True, slots=True)
class TextPart:
    """One text to read: the user's name for it, and where it lies."""

    name: str
    path: str


def check_pattern(pattern: str) -> str | None:
    """Return what is wrong with a pattern, or None."""
    if not pattern or not pattern.isprintable():
        return "is empty or holds a control character"
    if pattern.startswith(("/", "./", "../", _ORIGINALS)):
        return "must be a pattern over the originals' own names, or begin with case/"
    try:
        compile_glob(pattern)
    except ValueError as error:
        return f"cannot be used: {error}"
    return None


def select(
    selector: DataSelector, files: Sequence[PackageFile]
) -> tuple[TextPart | OutputSelector, ...]:
    """Return what is to be read, entry by entry: the texts by name, and parts of earlier answers.

    Args:
        selector: What the operation asks for.
        files: The files that the package's first commit named.
    """
    if not selector.entries:
        return select_texts(selector, files)
    chosen: list[TextPart | OutputSelector] = []
    for entry in selector.entries:
        if isinstance(entry, OutputSelector):
            chosen.append(entry)
        else:
            texts = select_texts(DataSelector((entry,)), files)
            chosen.extend(text for text in texts if text not in chosen)
    return tuple(chosen)


def output_text(value: JSON) -> str:
    """Write a value as it stands in a prompt: the same value always gives the same letters."""
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)


def select_texts(selector: DataSelector, files: Sequence[PackageFile]) -> tuple[TextPart, ...]:
    """Return the texts to read, pattern by pattern, by name within one, none of them twice.

    Where an original was decoded or extracted, the text made of it stands for it.

    Args:
        selector: What the operation asks for.
        files: The files that the package's first commit named.
    """
    originals = sorted(_named(files, _ORIGINALS))
    products = sorted(_named(files, _PRODUCTS))
    made = {name.removeprefix("text/"): path for name, path in products if _is_text(name)}
    texts = [TextPart(name, made.get(f"{name}.txt", path)) for name, path in originals]
    others = [TextPart(f"{_PRODUCTS}{name}", path) for name, path in products]
    if not selector.entries:
        return tuple(texts)
    chosen: dict[str, TextPart] = {}
    for pattern in selector.entries:
        if isinstance(pattern, OutputSelector):
            continue
        among = others if pattern.startswith(_PRODUCTS) else texts
        for part in among:
            if glob_matches(pattern, part.name):
                chosen.setdefault(part.path, part)
    return tuple(chosen.values())


def join_texts(parts: Sequence[tuple[str, str]]) -> str:
    """Make one text of several: a single one as it stands, more under numbered headings.

    A heading gives name and length, so that a document that contains a line like it can still be
    told from the next document.

    Args:
        parts: Name and text of each.
    """
    if len(parts) == 1:
        return parts[0][1]
    return "\n\n".join(
        f"--- document {number} of {len(parts)}, {len(text)} characters: "
        f"{json.dumps(name, ensure_ascii=False)} ---\n\n{text}"
        for number, (name, text) in enumerate(parts, start=1)
    )


def _named(files: Sequence[PackageFile], folder: str) -> Iterator[tuple[str, str]]:
    for file in files:
        if file.path.startswith(folder):
            yield file.name or file.path.removeprefix(folder), file.path


def _is_text(name: str) -> bool:
    return name.startswith("text/") and name.endswith(".txt")
