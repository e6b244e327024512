"""Where a command speaks: data to standard output, everything else to standard error."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TextIO

from casework.errors import StorageError
from casework.strict_json import JSON


def prepare_streams() -> None:
    """Make both streams able to take any text, whatever the locale says.

    A pipe or file gets UTF-8; a terminal keeps its encoding. What an encoding cannot hold is
    escaped, so that no letter of a document can end a command.
    """
    _lead_closed_streams_nowhere()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            encoding = stream.encoding if stream.isatty() else "utf-8"
            stream.reconfigure(encoding=encoding, errors="backslashreplace")


def _lead_closed_streams_nowhere() -> None:
    """Replace streams that the process was begun without, as ``>&-`` and services without any do.

    The lowest free descriptor is theirs, which no file that is opened later should get.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, open(nowhere, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


def showable(text: str, *, lines: bool = False) -> str:
    """Return a text in which no control character can move a terminal's cursor.

    Args:
        text: Whatever a document, a file name or a model wrote.
        lines: Keep line ends and tabs.
    """
    kept = "\n\t" if lines else ""
    return "".join(
        c if c.isprintable() or c in kept else c.encode("unicode_escape").decode("ascii")
        for c in text
    )


@dataclass(slots=True, kw_only=True)
class Terminal:
    """The two streams of a command and how the person wants them used."""

    as_json: bool = False
    quiet: bool = False
    verbose: bool = False
    progress: bool = True
    _reader_gone: bool = False

    @property
    def reader_gone(self) -> bool:
        """Tell whether whoever read standard output has left; more of it helps nobody."""
        return self._reader_gone

    @property
    def interactive(self) -> bool:
        """Tell whether a live display on standard error makes sense."""
        return sys.stderr.isatty() and os.environ.get("TERM", "") != "dumb"

    def document(self, value: JSON) -> None:
        """Write one JSON document to standard output."""
        self._data(json.dumps(value, ensure_ascii=False, indent=2) + "\n")

    def json_line(self, value: JSON) -> None:
        """Write one JSON document on a line of its own."""
        self._data(json.dumps(value, ensure_ascii=False) + "\n")

    def text(self, text: str) -> None:
        """Write a text for people to standard output; foreign control characters are escaped."""
        self._data(showable(text, lines=True) + "\n")

    def raw(self, content: bytes) -> None:
        """Write bytes to standard output: as they are to a pipe, escaped to a terminal."""
        if sys.stdout.isatty() or not hasattr(sys.stdout, "buffer"):
            text = content.decode("utf-8", "backslashreplace").replace("\r\n", "\n")
            self._data(showable(text, lines=True))
            return
        self._guarded(lambda: (sys.stdout.flush(), sys.stdout.buffer.write(content)))

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Write a table for people to standard output: aligned, never folded or cut."""
        from rich.cells import cell_len

        cells = [[showable(cell) for cell in row] for row in rows]
        widths = [max(map(cell_len, column)) for column in zip(list(columns), *cells, strict=True)]
        for row in ([name.upper() for name in columns], *cells):
            padded = (
                cell + " " * (width - cell_len(cell))
                for cell, width in zip(row, widths, strict=True)
            )
            self._data("  ".join(padded).rstrip() + "\n")

    def note(self, text: str) -> None:
        """Write a line for people to standard error, unless they asked for quiet."""
        if not self.quiet:
            self.warn(text)

    def warn(self, text: str) -> None:
        """Write a line to standard error, after what was said so far; the quiet must see it too."""
        self.flush()
        try:
            sys.stderr.write(showable(text, lines=True) + "\n")
            sys.stderr.flush()
        except BrokenPipeError:
            _discard(sys.stderr)

    def flush(self) -> None:
        """Write out what is buffered."""
        self._guarded(sys.stdout.flush)

    def _data(self, text: str) -> None:
        self._guarded(lambda: sys.stdout.write(text))

    def _guarded(self, write: Callable[[], object]) -> None:
        if self._reader_gone:
            return
        try:
            write()
        except BrokenPipeError:
            self._reader_gone = True
            _discard(sys.stdout)
        except OSError as error:
            raise output_refused(error) from None


def output_refused(error: OSError) -> StorageError:
    """Give up standard output, and return what is to be told about that."""
    _discard(sys.stdout)
    return StorageError(
        f"cannot be written ({error.strerror or type(error).__name__})",
        code="output_refused",
        where="standard output",
        remedy="free space, or write elsewhere",
    )


def _discard(stream: TextIO) -> None:
    """Point a dead stream at nothing, so that closing it cannot fail either."""
    try:
        target = os.open(os.devnull, os.O_WRONLY)
        os.dup2(target, stream.fileno())
        os.close(target)
    except (OSError, ValueError):
        return
