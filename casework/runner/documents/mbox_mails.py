"""The mails of a mailbox file, one after the other, each as its bytes stand there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Final

from casework.runner.documents.document import Problem, ProblemCode

_LINE_BYTES: Final = 64 * 1024
_FROM: Final = b"From "
_TIME: Final = re.compile(rb"\d:\d\d")


@dataclass(frozen=True, slots=True)
class MboxMail:
    """One mail with the mailbox's own line before it; all of them in order are the mailbox."""

    number: int
    line: int
    content: bytes


def read_mailbox(stream: BinaryIO, where: str, *, bytes_max: int) -> Iterator[MboxMail | Problem]:
    """Yield the mails of a mailbox.

    A mail begins with a line ``From ...`` at the beginning or after a blank line; if the first one
    of the file holds a time of day, as it should, only such lines count. A mail that is too large
    is named and left out without ever being in memory whole.
    """
    mail: _Mail | None = None
    dated = False
    for number, line, begins in _lines(stream):
        if begins and line.startswith(_FROM) and not (dated and not _TIME.search(line)):
            if mail is None:
                dated = _TIME.search(line) is not None
            else:
                yield mail.ended(where, bytes_max)
            mail = _Mail(1 if mail is None else mail.number + 1, number)
        if mail is not None:
            mail.add(line, bytes_max)
        elif line.strip():
            message = 'is no mailbox: it does not begin with a line "From ..."'
            yield Problem(ProblemCode.RECORD_INVALID, f"{where}:{number}", message)
            return
    if mail is not None:
        yield mail.ended(where, bytes_max)


class _Mail:
    def __init__(self, number: int, line: int) -> None:
        self.number = number
        self._line = line
        self._parts: list[bytes] = []
        self._size = 0

    def add(self, line: bytes, bytes_max: int) -> None:
        self._size += len(line)
        if self._size <= bytes_max:
            self._parts.append(line)
        else:
            self._parts.clear()

    def ended(self, where: str, bytes_max: int) -> MboxMail | Problem:
        if self._size > bytes_max:
            message = f"the mail has more than {bytes_max} bytes"
            return Problem(ProblemCode.TOO_LARGE, f"{where}:{self._line}", message)
        return MboxMail(self.number, self._line, b"".join(self._parts))


def _lines(stream: BinaryIO) -> Iterator[tuple[int, bytes, bool]]:
    """Yield pieces of lines with their number, and whether a mail may begin with them."""
    number = 1
    at_start = blank_before = True
    while piece := stream.readline(_LINE_BYTES):
        yield number, piece, at_start and blank_before
        ended = piece.endswith(b"\n")
        blank_before = at_start and ended and not piece.strip(b"\r\n")
        at_start = ended
        number += ended
