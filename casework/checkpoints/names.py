"""Turning ids and file names of users into paths that no file system can confuse."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from typing import Final

from casework.errors import FormatError
from casework.strict_json import is_unicode, sha256_hex

PLAIN_LENGTH_MAX: Final = 64
"""Longest name that is kept as it stands."""

READABLE_LENGTH_MAX: Final = 32
"""How much of a name that could not be kept stays readable before its digest."""

RELATIVE_LENGTH_MAX: Final = 140
"""Longest path below ``original/``; a longer one is folded into a single name."""

_PLAIN: Final = re.compile(r"[a-z0-9_][a-z0-9._-]*(?<!\.)", re.ASCII)
_UNSAFE: Final = re.compile(r"[^a-z0-9._-]+", re.ASCII)
_ENDING: Final = re.compile(r"(?<=[a-z0-9])\.[a-z0-9]{1,8}\Z", re.ASCII)
_DEVICE: Final = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.ASCII)


def check_id(text: str, what: str) -> str:
    """Return an id that can be stored word for word.

    Raises:
        FormatError: It is empty, or holds half of a surrogate pair, which UTF-8 cannot carry.
    """
    if not isinstance(text, str):
        raise FormatError(f"the {what} is no text", code="bad_id")
    if not text:
        raise FormatError(f"the {what} is empty", code="bad_id")
    if not is_unicode(text):
        raise FormatError(
            f"the {what} holds a lone surrogate, which cannot be stored",
            code="bad_id",
            remedy="decode the source of the id with its real encoding",
        )
    return text


def safe_name(text: str) -> str:
    """Return a file name for any text, different for different texts.

    Lower-case ASCII names that are safe everywhere stay as they are. Every other text becomes a
    readable remnant, ``~`` and 128 bits of its SHA-256 (before the ending, if it has one), so that
    texts which differ only in case or in Unicode normal form stay apart on disks that do not tell
    those apart.
    """
    if (
        len(text) <= PLAIN_LENGTH_MAX
        and _PLAIN.fullmatch(text) is not None
        and _DEVICE.fullmatch(text) is None
    ):
        return text
    return _marked(text, hashlib.sha256(text.encode("utf-8", "surrogatepass")))


def _marked(text: str, full: hashlib._Hash) -> str:
    lowered = text.lower()
    ending = _ENDING.search(lowered)
    suffix = ending.group() if ending else ""
    stem = lowered[: len(lowered) - len(suffix)]
    readable = _UNSAFE.sub("_", stem).strip("._-")[:READABLE_LENGTH_MAX].rstrip(".")
    if not readable or _DEVICE.fullmatch(readable):
        readable = f"_{readable}"
    return f"{readable}~{full.hexdigest()[:32]}{suffix}"


def safe_relative_path(text: str) -> str:
    """Return a path below one folder for a relative path of the user's, its folders kept.

    Each part is made safe by itself, so ``..``, an empty part or a drive letter become plain names.
    """
    path = "/".join(safe_name(part) for part in text.split("/"))
    if len(path) <= RELATIVE_LENGTH_MAX:
        return path
    # The slash before the text cannot be part of a single name, so no other text has this digest.
    full = hashlib.sha256(b"/" + text.encode("utf-8", "surrogatepass"))
    return _marked(text.rsplit("/", 1)[-1], full)


@lru_cache(maxsize=4096)
def case_folder(case_id: str) -> str:
    """Return the folder of a case below the storage's root."""
    spread = sha256_hex(case_id.encode("utf-8"))[:2]
    return f"cases/{spread}/{safe_name(case_id)}"


def original_path(name: str) -> str:
    """Return where an input file lies in its package."""
    return f"original/{safe_relative_path(name)}"


def commit_path(generation: int) -> str:
    """Return the package path of a commit record."""
    return f"commits/{generation:010d}.json"


def snapshot_path(generation: int) -> str:
    """Return the package path of a snapshot."""
    return f"snapshots/{generation:010d}.json"


def request_path(ophash: str) -> str:
    """Return the package path of an operation's request."""
    return f"llm/operations/{ophash}/request.json"


def outcome_path(ophash: str, round_number: int) -> str:
    """Return the package path of the outcome of an operation's round."""
    return f"llm/operations/{ophash}/outcome-{round_number:04d}.json"


def review_path(ophash: str, number: int) -> str:
    """Return the package path of a review of an operation."""
    return f"reviews/{ophash}/review-{number:04d}.json"


PACKAGE_FILE: Final = "package.json"
