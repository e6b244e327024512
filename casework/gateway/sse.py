"""Server-sent events: bytes as they arrive become the data of whole events.

Follows the event-stream format of the HTML standard, with one exception: an event that the end of
the stream leaves without its blank line is told all the same, since many servers end so; whether
it is whole is for the reader of its JSON to see. The fields ``event``, ``id`` and ``retry`` mean
nothing in the protocols spoken here and are dropped like comments.
"""

from __future__ import annotations

import codecs
from typing import Final

_DATA: Final = b"data: "
_BETWEEN: Final = b"\n\n" + _DATA


class EventTooLongError(ValueError):
    """One event is longer than allowed."""


class EventReader:
    """Splits a stream into events, whatever pieces it comes in.

    Args:
        event_bytes_max: Longest line, and longest data of one event.
    """

    def __init__(self, event_bytes_max: int) -> None:
        self._bytes_max = event_bytes_max
        self._line = bytearray()
        """A line whose end has not come yet."""
        self._data: bytearray | None = None
        """Lines of data of an event whose end has not come yet, each with a line feed."""
        self._first = True
        self._after_cr = False
        self.too_long = False
        """An event is; whoever feeds the stream gets those before it, and then the error."""

    def feed(self, data: bytes) -> list[bytes]:
        r"""Return the data of the events that end in these bytes.

        Raises:
            EventTooLongError: An event is too long; those before it have been told.
        """
        self._check()
        events: list[bytes] = []
        if self._after_cr or b"\r" in data:
            self._read_lines(self._with_line_feeds(data), events)
        else:
            begin, end = 0, data.rfind(b"\n\n") + 2
            if self._line or self._data is not None:
                begin = data.find(b"\n\n") + 2 if end > 1 else 0
                self._read_lines(data[:begin], events)
            if end > begin + 1:
                self._read_events(data[begin:end], events)
                begin = end
            if begin < len(data):
                self._read_lines(data[begin:], events)
        if not events:
            self._check()
        return events

    def end(self) -> list[bytes]:
        """Return the event, if there is one, that the end of the stream leaves unfinished.

        Raises:
            EventTooLongError: See :meth:`feed`.
        """
        self._check()
        events: list[bytes] = []
        self._read_lines(b"\n\n", events)
        self._check()
        return events

    def _check(self) -> None:
        if self.too_long:
            raise EventTooLongError

    def _with_line_feeds(self, data: bytes) -> bytes:
        """Make every line end in a line feed alone, also one that is cut between its two bytes."""
        if not data:
            return data
        if self._after_cr and data.startswith(b"\n"):
            data = data[1:]
        self._after_cr = data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _read_events(self, data: bytes, events: list[bytes]) -> None:
        """Read whole events; the usual form of each, one line of data, is split off in one go."""
        if data.startswith(_DATA) and not self.too_long:
            found = data[len(_DATA) : -2].split(_BETWEEN)
            usual = data.count(b"\n") == 2 * len(found)
            if usual and len(data) <= self._bytes_max:
                self._first = False
                events += found
                return
        self._read_lines(data, events)

    def _read_lines(self, data: bytes, events: list[bytes]) -> None:
        *lines, rest = data.split(b"\n")
        if lines and self._line:
            lines[0] = bytes(self._line) + lines[0]
            self._line.clear()
        for line in lines:
            if line or self._data is not None or self._first:
                self._read_line(line, events)
        self._line += rest
        if len(self._line) > self._bytes_max:
            self.too_long = True

    def _read_line(self, line: bytes, events: list[bytes]) -> None:
        if self._first:
            self._first = False
            line = line.removeprefix(codecs.BOM_UTF8)
        if self.too_long or len(line) > self._bytes_max:
            self.too_long = True
        elif line.startswith(b"data:") or line == b"data":
            value = line[5:].removeprefix(b" ")
            if self._data is None:
                self._data = bytearray()
            self._data += value
            self._data += b"\n"
            self.too_long = len(self._data) > self._bytes_max
        elif not line and self._data is not None:
            events.append(bytes(self._data[:-1]))
            self._data = None
