"""Who asks: from the Authorization header to a client and what that client may do."""

from __future__ import annotations

import hmac
import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final, TypeAlias

from casework.errors import FormatError, StorageError
from casework.facade.key_file import (
    ANONYMOUS_LABEL,
    PROXY_KEY_LABEL,
    KeyEntry,
    KeyFile,
    damaged_keys,
    read_key_file,
)
from casework.gateway.clock import Clock
from casework.gateway.scope import UNBOUNDED, Scope

LOOK_SECONDS: Final = 1.0
"""How often the file is looked at for changes by another process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """How often a client may ask; None is no limit."""

    requests_per_minute: int | None = None
    """Most within any sixty seconds."""
    requests_per_day: int | None = None
    """Most on one day in UTC."""
    concurrency_max: int | None = None
    """Most at once."""


NO_LIMITS: Final = RequestLimits()


@dataclass(frozen=True, slots=True, kw_only=True)
class Client:
    """Somebody who asks."""

    label: str
    scope: Scope = UNBOUNDED
    limits: RequestLimits = NO_LIMITS


ANONYMOUS: Final = Client(label=ANONYMOUS_LABEL)
"""Everybody, while no key was ever made."""

_Admitted: TypeAlias = tuple[bytes, Client | None]
"""The digest of a key, and whose it is."""

_NOBODY: Final[_Admitted] = bytes(32), None
"""Compared with where a key is not known; no key has this digest."""


class ClientKeys:
    """The keys that open the service, as one process sees them.

    The file is looked at once a second at most, and read again when it is another one. While the
    disk does not give it, the keys last read stay in force: nobody is let in who was not, and a
    revoked key stays revoked. A file that is there and damaged closes the door to all its keys.

    Args:
        path: The file, see :mod:`casework.facade.key_file`.
        environ: Where ``PROXY_API_KEY`` may hold one more key, without limits.
        clock: The time.

    Raises:
        StorageError: The file is there and cannot be read.
        FormatError: The file is damaged.
    """

    def __init__(self, path: Path, environ: Mapping[str, str], *, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._fixed: dict[bytes, _Admitted] = {}
        if proxy_key := environ.get(PROXY_KEY_LABEL, "").strip():
            digest = sha256(proxy_key.encode()).digest()
            self._fixed[digest] = digest, Client(label=PROXY_KEY_LABEL)
        self._clients = self._fixed
        self._open = not proxy_key
        self._damaged = False
        self._look_at = clock.monotonic() + LOOK_SECONDS
        self._signature = _signature(path)
        if (found := read_key_file(path)) is not None:
            self._admit(found)

    @property
    def is_open(self) -> bool:
        """Tell whether no key was ever made, so that everybody is let in.

        Revoking the last key does not open the service, and neither does removing the file while
        the process runs.
        """
        return self._open

    def identify(self, authorization: bytes | None) -> Client | None:
        """Return who presents this header; None for nobody who is known.

        One comparison is made, known or not, and it takes as long whatever differs. The digest
        finds the key it is compared with: a caller cannot choose digests, and how a table is
        searched tells nothing about the keys in it.

        Args:
            authorization: The value of the header, like ``Bearer cw-...``.

        Raises:
            FormatError: The file is damaged, and this key does not stand beside it.
        """
        now = self._clock.monotonic()
        if now >= self._look_at:
            self._look_at = now + LOOK_SECONDS
            self._look()
        if self._open:
            return ANONYMOUS
        scheme, _, key = (authorization or b"").partition(b" ")
        if scheme.lower() != b"bearer":
            return None
        presented = sha256(key.strip()).digest()
        known, client = self._clients.get(presented, _NOBODY)
        if hmac.compare_digest(known, presented):
            return client
        if self._damaged:
            raise damaged_keys(self._path)
        return None

    def _look(self) -> None:
        signature = _signature(self._path)
        if signature in (None, self._signature):
            return
        try:
            found = read_key_file(self._path)
        except FormatError:
            self._damaged, self._open, self._clients = True, False, self._fixed
        except StorageError:
            return
        else:
            if found is None:
                return
            self._admit(found)
        self._signature = signature

    def _admit(self, found: KeyFile) -> None:
        self._damaged, self._open = False, False
        entries = (_admitted(entry) for entry in found.keys if entry.revoked_at is None)
        self._clients = {**{entry[0]: entry for entry in entries}, **self._fixed}


def _admitted(entry: KeyEntry) -> _Admitted:
    limits = RequestLimits(
        requests_per_minute=entry.requests_per_minute,
        requests_per_day=entry.requests_per_day,
        concurrency_max=entry.concurrency_max,
    )
    scope = Scope(profile=entry.privacy_profile, models=entry.models)
    client = Client(label=entry.label, scope=scope, limits=limits)
    return bytes.fromhex(entry.sha256), client


def _signature(path: Path) -> tuple[int, int, int] | None:
    """Return what tells a file from one that took its place; None where the disk does not tell."""
    try:
        found = os.stat(path)  # noqa: PTH116 - asked while clients wait
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
