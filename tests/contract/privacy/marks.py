"""Marks that stand for secrets and texts, and the search for them in whatever bytes there are."""

from __future__ import annotations

import base64
import io
import sqlite3
import traceback
import zipfile
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from enum import StrEnum
from pathlib import Path, PurePosixPath
from typing import Final


class Mark(StrEnum):
    """What is planted where; each is found again whatever it is wrapped in."""

    KEY = "canary-key-5e1f90"
    """The provider's key, in the environment."""
    NEIGHBOUR = "canary-neighbour-77c2"
    """Secrets of others in the same environment: another house's key, a proxy's password."""
    ADDRESS = "canary-address-b04d"
    """A part of the path of every base URL."""
    HOST = "canary-host-e3a8"
    """A part of a host's name."""
    HEADER = "canary-header-19fb"
    """What upstream writes into its headers."""
    STATUS = "canary-status-c6d7"
    """What upstream writes beside its status number."""
    BODY = "canary-body-2f64"
    """What upstream writes into bodies that are no answer."""
    EXTRA = "canary-extra-8a3b"
    """What upstream puts into a good reply beside the answer."""
    REJECTED = "canary-rejected-d1e5"
    """An answer that nobody believes."""
    TASK = "canary-task-4c90"
    """What the pipeline asks for."""
    DOCUMENT = "canary-document-f72e"
    """The text of every case."""
    ANSWER = "canary-answer-a58d"
    """The answer that is believed."""
    CLIENT = "canary-client-93b6"
    """The key of a client that is let in."""
    WRONG = "canary-wrong-0d7c"
    """One that is not."""
    STRAY = "canary-stray-6ee2"
    """What clients say where nobody listens: cookies, keys in other headers or in the target."""
    WITHHELD = "canary-withheld-48af"
    """What a client's body says of addresses and credentials."""
    MODEL = "canary-model-b15e"
    """A part of the models that clients ask for."""
    MEMBER = "canary-member-27d0"
    """A part of the names of members that nobody knows."""
    CALL = "canary-call-e94b"
    """Under which a client has its calls kept: key, case and operation."""
    REQUEST = "canary-request-5c38"
    """What a client names its requests."""


NOWHERE: Final = frozenset(Mark) - {Mark.TASK, Mark.DOCUMENT, Mark.ANSWER}
"""Marks that are never written or shown at all."""


def found_in(content: bytes) -> frozenset[Mark]:
    """Return the marks that bytes hold: plain, in any case, in hexadecimal or in base64."""
    text = content.lower()
    return frozenset(
        mark
        for mark in Mark
        if any(form in text for form in _LOWER[mark]) or any(f in content for f in _EXACT[mark])
    )


def holds(content: bytes, text: str) -> bool:
    """Tell whether bytes hold a text that is no mark, in any of the same wrappings."""
    forms = (text.lower().encode(), text.encode().hex().encode())
    return any(form in content.lower() for form in forms) or any(
        form in content for form in _base64_forms(text)
    )


def _base64_forms(mark: str) -> list[bytes]:
    """Return what a mark looks like in base64, wherever in a longer text it stands."""
    forms = []
    for before in range(3):
        encoded = base64.b64encode(b"\0" * before + mark.encode())
        forms.append(encoded[4 if before else 0 : -4])
    return forms


_LOWER: Final = {mark: (mark.encode(), mark.encode().hex().encode()) for mark in Mark}
_EXACT: Final = {mark: tuple(_base64_forms(mark)) for mark in Mark}


def files_in(folder: Path, *, without: Iterable[str] = ()) -> dict[str, bytes]:
    """Return every file below a folder by its relative name, archives and databases opened too.

    Args:
        folder: Where to look.
        without: First parts of names that are the test's own.
    """
    left_out = set(without)
    found: dict[str, bytes] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_file() or PurePosixPath(name).parts[0] in left_out:
            continue
        found |= _opened(name, path.read_bytes())
    return found


def _opened(name: str, content: bytes) -> dict[str, bytes]:
    opened = {name: content}
    if content.startswith(b"PK\x03\x04"):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for member in archive.namelist():
                opened |= _opened(f"{name}!/{member}", archive.read(member))
    if content.startswith(b"SQLite format 3\0"):
        # A process that was killed may leave half a transaction; then the bytes must do.
        with (
            suppress(sqlite3.DatabaseError),
            closing(sqlite3.connect(":memory:")) as database,
        ):
            database.deserialize(content)
            opened[f"{name}!/dump"] = "\n".join(database.iterdump()).encode()
    return opened


def leaks(contents: Mapping[str, bytes], allowed: frozenset[Mark] = frozenset()) -> list[str]:
    """Return which contents hold which marks that are not allowed there."""
    return [
        f"{name}: {mark.name}"
        for name, content in contents.items()
        for mark in sorted(found_in(content) - allowed)
    ]


def misplaced(files: Mapping[str, bytes]) -> list[str]:
    """Return which files hold marks that are not allowed in a file of their kind."""
    return [
        leak for name, content in files.items() for leak in leaks({name: content}, _place(name))
    ]


def _place(name: str) -> frozenset[Mark]:
    """Return the marks that may stand in a file that Casework writes."""
    path = PurePosixPath(name)
    if path.suffix == ".zip":  # its members are looked at one by one
        return frozenset(Mark) - NOWHERE
    if {"original", "case"} & set(path.parts):
        return frozenset({Mark.DOCUMENT})
    if path.name == "request.json":
        return frozenset({Mark.DOCUMENT, Mark.TASK})
    if path.name.startswith("outcome-") or path.suffix in {".jsonl", ".csv"}:
        return frozenset({Mark.ANSWER})
    return frozenset()


def everything_told(error: BaseException) -> bytes:
    """Return all that an exception and those behind it can be made to say."""
    told = ["".join(traceback.format_exception(error))]
    behind: list[BaseException | None] = [error]
    while behind:
        one = behind.pop()
        if one is None:
            continue
        told += [str(one), repr(one), repr(one.args), repr(vars(one))]
        behind += [one.__cause__, one.__context__]
    return "\n".join(told).encode("utf-8", "backslashreplace")
