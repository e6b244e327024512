"""Files of client keys for tests."""

from __future__ import annotations

import hashlib
from pathlib import Path

from casework.facade.key_file import FILE_NAME, KeyEntry, KeyFile
from casework.gateway.clock import MANUAL_START


def key_entry(label: str, key: str, **further: object) -> KeyEntry:
    """Return what is kept of a key."""
    return KeyEntry.model_validate(
        {
            "label": label,
            "sha256": hashlib.sha256(key.encode()).hexdigest(),
            "created_at": MANUAL_START,
            **further,
        }
    )


def key_file(folder: Path, *entries: KeyEntry) -> Path:
    """Write a file of client keys and return its path."""
    path = folder / FILE_NAME
    path.write_bytes(KeyFile(keys=entries).content())
    return path
