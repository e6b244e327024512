"""Which faults a request asks for: ``[[fault:NAME key=value]]`` anywhere in its body."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

KNOWN: Final = frozenset(
    {
        # before a reply, or instead of it
        "hang",  # say nothing more: before the head, in the "body" or after so many events
        "reset",  # end the connection with a reset, at the same places
        "close",  # close the connection, at the same places
        "wait",  # say nothing for so many seconds first
        "pause",  # so many seconds between two events
        "close-idle",  # close the connection after the reply, though it was to stay open
        # the whole body
        "body",  # html, empty, null, list, text, no-choices, empty-choices, empty-content, long
        "truncated",  # promise more bytes than are sent
        "parts",  # content as a list of parts
        "sparse",  # leave out what servers leave out: id, created, refusal, logprobs, usage
        "encoding",  # gzip, br, zstd, deflate, chained, mislabelled, unlabelled, cut
        "usage",  # none, null, zero, always, last: what is told of tokens
        "finish",  # another finish reason
        "json",  # answer a stream's request with a whole body
        "reasoning",  # the member's name for a reasoning text
        # the events of a stream
        "error",  # the event of this number is an error
        "error-choices",  # the same beside an empty list of choices
        "malformed",  # the event of this number is no JSON
        "no-choices",  # the event of this number has no choices
        "ends",  # end the body properly after so many events: no finish, no [DONE]
        "no-done",  # leave out [DONE]
        "bytes",  # one byte a write
        "crlf",
        "cr",
        "comments",
        "multiline",
        "fields",  # with id, event and retry fields
        "tight",  # no space after data:
        "bom",
        "flood",  # so many bytes of text
        "tool-index",  # same, one, missing, interleaved, renumbered
        # embeddings
        "order",  # like 2-0-1
        "index",  # zero: every index is 0; none: no index
        "vectors",  # float, base64: whatever was asked for; short: one is missing
    }
)

_DIRECTIVE: Final = re.compile(r"\[\[fault:([a-z0-9.=_,:+/ -]+)\]\]", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Faults:
    """What one reply is to do wrong."""

    status: int | None = None
    """Another status than 200."""
    named: Mapping[str, str] = field(default_factory=dict)
    """The other faults, each with its value; empty where it needs none."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Details of a status: ``retry-after``, ``code``, ``type``, ``message``."""

    def __contains__(self, name: str) -> bool:
        return name in self.named

    def text(self, name: str) -> str:
        """Return a fault's value; empty without the fault."""
        return self.named.get(name, "")

    def number(self, name: str) -> int | None:
        """Return a fault's whole number; None without the fault, 0 without a number."""
        value = self.named.get(name)
        return None if value is None else int(value or 0)

    def seconds(self, name: str) -> float:
        """Return a fault's seconds; 0 without the fault."""
        return float(self.named.get(name) or 0)


def read_directive(words: str) -> tuple[Faults, int | None]:
    """Read ``503 retry-after=30 times=2``: what to do, and how often (None: always).

    A ``+`` in a value stands for a space.

    Raises:
        ValueError: A word names no fault.
    """
    status: int | None = None
    named: dict[str, str] = {}
    options: dict[str, str] = {}
    times: int | None = None
    for word in words.split():
        name, _, value = word.partition("=")
        value = value.replace("+", " ")
        if re.fullmatch(r"[1-5]\d\d", name):
            status = int(name)
        elif name == "times":
            times = int(value)
        elif name in KNOWN:
            named[name] = value
        elif name in {"retry-after", "retry-after-ms", "code", "type", "message", "location"}:
            options[name] = value
        else:
            raise ValueError(f"unknown fault {name!r}")
    return Faults(status, named, options), times


@dataclass(slots=True)
class FaultBook:
    """Decides what each request gets: first what is queued, then what its text asks for."""

    queued: list[str] = field(default_factory=list)
    """Directives for the next requests, in order; ``ok`` is none."""
    _used: Counter[str] = field(default_factory=Counter)

    def take(self, body: str) -> Faults:
        """Return the faults for a request with this body.

        Raises:
            ValueError: A directive names no fault.
        """
        if self.queued:
            first = self.queued.pop(0)
            return Faults() if first == "ok" else read_directive(first)[0]
        return self._joined([self._counted(words) for words in _DIRECTIVE.findall(body)])

    def _counted(self, words: str) -> Faults:
        faults, times = read_directive(words)
        if times is not None and self._used[words] >= times:
            return Faults()
        self._used[words] += 1
        return faults

    @staticmethod
    def _joined(found: Sequence[Faults]) -> Faults:
        status = next((each.status for each in found if each.status is not None), None)
        named = {name: value for each in found for name, value in each.named.items()}
        options = {name: value for each in found for name, value in each.options.items()}
        return Faults(status, named, options)
