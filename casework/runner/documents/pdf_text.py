"""A program that takes the text out of a PDF; the one place that knows pypdf.

It is run in a process of its own, within limits of time and memory, because a hostile PDF can keep
every reader busy for ever. It knows nothing else of ours, so that it starts quickly: the PDF comes
on standard input, what was found leaves as one JSON object on standard output.
"""

from __future__ import annotations

import io
import json
import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pypdf import PdfReader

_UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Limits:
    """What one PDF may cost."""

    pages: int
    text_bytes: int
    cpu_seconds: int
    memory_bytes: int


class _Refused(Exception):
    """The PDF is not read; the reason is one of the words that the caller knows."""


def main(arguments: list[str]) -> None:
    """Read a PDF within limits, given as four numbers, and write what was found."""
    limits = Limits(*map(int, arguments))
    _bound(limits)
    content = sys.stdin.buffer.read()
    try:
        found = _found(content, limits)
    except _Refused as refused:
        found = {"refused": str(refused)}
    except MemoryError:
        found = {"refused": "memory"}
    except ImportError:
        found = {"refused": "extra"}
    except Exception:  # noqa: BLE001 - a broken PDF raises anything; here the task ends
        found = {"refused": "damaged"}
    json.dump(found, sys.stdout)


def _found(content: bytes, limits: Limits) -> dict[str, object]:
    from pypdf import PdfReader, __version__  # noqa: PLC0415 - an extra, imported on first use
    from pypdf.errors import DependencyError, FileNotDecryptedError  # noqa: PLC0415

    failed: list[int] = []
    try:
        reader = PdfReader(io.BytesIO(content), strict=False)
        if reader.is_encrypted and not reader.decrypt(""):
            raise _Refused("encrypted")
        pages = list(_pages(reader, limits, failed))
    except (DependencyError, FileNotDecryptedError):
        raise _Refused("encrypted") from None
    return {"pages": pages, "failed": failed, "reader": f"pypdf {__version__}"}


def _pages(reader: PdfReader, limits: Limits, failed: list[int]) -> Iterator[str]:
    from pypdf.errors import DependencyError, FileNotDecryptedError  # noqa: PLC0415

    count = len(reader.pages)
    if count > limits.pages:
        raise _Refused("pages")
    left = limits.text_bytes
    for number in range(count):
        try:
            text = reader.pages[number].extract_text()
        except (MemoryError, DependencyError, FileNotDecryptedError):
            raise
        except Exception:  # noqa: BLE001 - one broken page leaves the others alone
            failed.append(number + 1)
            text = ""
        text = _UNSTORABLE.sub("\ufffd", text).replace("\f", "\n")
        left -= len(text.encode("utf-8"))
        if left < 0:
            raise _Refused("text")
        yield text


def _bound(limits: Limits) -> None:
    """Let the system end this process when it costs too much, where the system can."""
    try:
        import resource  # noqa: PLC0415 - not on every system
    except ImportError:
        return
    resource.setrlimit(resource.RLIMIT_CPU, (limits.cpu_seconds, limits.cpu_seconds))
    resource.setrlimit(resource.RLIMIT_AS, (limits.memory_bytes, limits.memory_bytes))


if __name__ == "__main__":
    main(sys.argv[1:])
