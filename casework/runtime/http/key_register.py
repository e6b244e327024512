"""Creating and revoking client keys: the one writer of their file."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from casework.checkpoints.disk import Disk, put_file
from casework.checkpoints.locks import FileLocks
from casework.config.privacy_profile import PrivacyProfile
from casework.errors import ConfigurationError, LockBusy, StorageError
from casework.facade.client_keys import NO_LIMITS, RequestLimits
from casework.facade.key_file import (
    FILE_NAME,
    KEYS_MAX,
    KeyEntry,
    KeyFile,
    is_label,
    read_key_file,
)
from casework.strict_json import sha256_hex

KEY_PREFIX: Final = "cw-"
KEY_BYTES: Final = 32
FILE_MODE: Final = 0o600

LOCK_TRIES: Final = 100
LOCK_PAUSE_SECONDS: Final = 0.05


class KeyRegister:
    """The keys of one project, to be looked at and changed.

    Args:
        runtime: The project's runtime folder.
        now: The time.
        disk: The file system calls.
        pause: Waits between two looks at a lock that another process holds.
    """

    def __init__(
        self,
        runtime: Path,
        *,
        now: Callable[[], datetime],
        disk: Disk | None = None,
        pause: Callable[[float], object] = time.sleep,
    ) -> None:
        self._folder = runtime.absolute()
        self._path = runtime / FILE_NAME
        self._now = now
        self._disk = disk or Disk()
        self._pause = pause

    def keys(self) -> tuple[KeyEntry, ...]:
        """Return all keys in the order of their creation, revoked ones too.

        Raises:
            CaseworkError: The file cannot be read, or is damaged.
        """
        return self._read().keys

    def create(
        self,
        label: str,
        *,
        profile: PrivacyProfile | None = None,
        models: tuple[str, ...] | None = None,
        limits: RequestLimits = NO_LIMITS,
    ) -> tuple[KeyEntry, str]:
        """Make a key; return what is kept of it, and the key, which nobody can tell again.

        Raises:
            ConfigurationError: The label is taken or no label, or something else is out of range.
            CaseworkError: The file cannot be read or written; there is no such key.
        """
        if not is_label(label):
            raise ConfigurationError(
                "this is no label for a key",
                code="label_invalid",
                where="keys create",
                remedy="use at most 40 letters, digits, spaces and . _ @ - and no long run of them",
            )
        key = KEY_PREFIX + secrets.token_urlsafe(KEY_BYTES)
        try:
            entry = KeyEntry(
                label=label,
                sha256=sha256_hex(key.encode()),
                created_at=self._now(),
                privacy_profile=profile,
                models=models,
                requests_per_minute=limits.requests_per_minute,
                requests_per_day=limits.requests_per_day,
                concurrency_max=limits.concurrency_max,
            )
        except ValidationError as error:
            raise _out_of_range(error) from None
        with self._changing():
            found = self._read()
            if found.named(label) is not None:
                raise ConfigurationError(
                    "there is or was a key of this label",
                    code="label_taken",
                    where=label,
                    remedy="choose another label; those of revoked keys stay taken",
                )
            if len(found.keys) >= KEYS_MAX:
                raise ConfigurationError(
                    f"there are {KEYS_MAX} keys, which is the most",
                    code="too_many_keys",
                    where=str(self._path),
                    remedy="take revoked ones out of the file",
                )
            self._write(KeyFile(keys=(*found.keys, entry)))
        return entry, key

    def revoke(self, label: str) -> tuple[KeyEntry, bool]:
        """Void a key for good; return it, and whether it was valid until now.

        Raises:
            ConfigurationError: There was never a key of this label.
            CaseworkError: The file cannot be read or written; nothing is revoked.
        """
        with self._changing():
            found = self._read()
            entry = found.named(label)
            if entry is None:
                raise ConfigurationError(
                    "there is no key of this label",
                    code="no_key",
                    where="keys revoke",
                    remedy="`casework keys list` names them",
                )
            if entry.revoked_at is not None:
                return entry, False
            revoked = entry.model_copy(update={"revoked_at": self._now()})
            keys = tuple(revoked if one is entry else one for one in found.keys)
            self._write(KeyFile(keys=keys))
        return revoked, True

    def _read(self) -> KeyFile:
        return read_key_file(self._path) or KeyFile(keys=())

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Keep every other process from changing the file meanwhile."""
        locks = FileLocks(self._folder / "locks")
        with ExitStack() as stack:
            for tried in range(LOCK_TRIES):
                if tried:
                    self._pause(LOCK_PAUSE_SECONDS)
                try:
                    stack.enter_context(locks.hold("\0client keys"))
                    break
                except LockBusy:
                    continue
            else:
                raise LockBusy(
                    "another process is changing the client keys", remedy="wait for it to end"
                )
            yield

    def _write(self, file: KeyFile) -> None:
        """Put the file in place durably and at once, for its owner's eyes only."""
        path = str(self._folder / FILE_NAME)
        try:
            put_file(self._disk, path, [file.content()], mode=FILE_MODE)
        except OSError as error:
            raise StorageError(
                f"the client keys cannot be written ({error.strerror or type(error).__name__})",
                code="client_keys_refused",
                where=str(self._path),
                remedy="make room on the disk, or permit writing to the runtime folder",
            ) from None


def _out_of_range(error: ValidationError) -> ConfigurationError:
    """Say which option is at fault, without repeating its value."""
    name = str(error.errors(include_url=False, include_input=False)[0]["loc"][0])
    written = KeyEntry.model_fields[name].alias or name
    return ConfigurationError(
        f"{written} is out of range",
        code="key_invalid",
        where="keys create",
        remedy="see `casework keys create --help`",
    )
