"""How many files may be open, and how many operations in flight with them."""

from __future__ import annotations

import importlib
from typing import Final

FILES_PER_OPERATION: Final = 8
"""A lock, a few files on their way to the disk, their folder, a connection."""

FILES_ASIDE: Final = 64
"""Index, logs, libraries and streams."""


def affordable_concurrency(wanted: int) -> int:
    """Return how many operations can be in flight, at most as many as wanted.

    The process first allows itself as many files as it needs and its owner permits. A commit that
    finds no descriptor after a paid call would lose that call, so fewer operations are begun.
    """
    allowed = allow_files(FILES_ASIDE + wanted * FILES_PER_OPERATION)
    if allowed is None:
        return wanted
    return max(1, min(wanted, (allowed - FILES_ASIDE) // FILES_PER_OPERATION))


def allow_files(needed: int) -> int | None:
    """Let this process open so many files, or as many as its owner permits, and return how many.

    None where there is no limit. A limit that is higher already stays.
    """
    try:
        resource = importlib.import_module("resource")  # not on every system
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == resource.RLIM_INFINITY:
            return None
        if soft < needed:
            soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    except (ImportError, ValueError, OSError):
        return None
    return int(soft)
