"""Where packages arrive as ZIP files, and where those go that were not taken in."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final

from casework.checkpoints.disk import Disk, put_file
from casework.checkpoints.folder_storage import storage_error
from casework.checkpoints.names import safe_name
from casework.checkpoints.timestamps import write_time
from casework.strict_json import JSON, JSONObject, canonical, parse

INBOX: Final = "inbox"
REJECTED: Final = "rejected"
ARCHIVE: Final = "archive"

NOTE_SCHEMA: Final = "casework-inbox-note/1"

_BLOCK: Final = 1 << 20
_NOTE_BYTES_MAX: Final = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Why a file was set aside."""

    result: str
    """``rejected`` or ``duplicate``."""
    code: str
    message: str
    where: str | None = None
    case_id: str | None = None
    generation: int | None = None

    def to_json(self, name: str, sha256: str, at: datetime) -> JSONObject:
        """Return the note as it is written beside the file."""
        return {
            "schema": NOTE_SCHEMA,
            "file": _printable(name),
            "sha256": sha256,
            "noted_at": write_time(at),
            "result": self.result,
            "code": self.code,
            "message": self.message,
            "where": self.where,
            "case_id": self.case_id,
            "generation": self.generation,
        }


class InboxFolder:
    """The folders ``inbox``, ``rejected`` and ``archive`` below the runtime folder.

    Every step is one rename or one file that appears whole, so that a crash between two of them
    leaves a file where it was or where it goes.

    Args:
        root: The runtime folder.
        now: The clock, for the notes.
        disk: The file system calls.
    """

    def __init__(
        self, root: Path, *, now: Callable[[], datetime], disk: Disk | None = None
    ) -> None:
        self.root = root
        self._now = now
        self._disk = disk or Disk()

    def arrived(self) -> Iterator[Path]:
        """Yield what lies in the inbox, by name; folders and hidden names are passed over."""
        folder = self.root / INBOX
        with suppress(FileNotFoundError):
            for name, is_folder in sorted(self._disk.names(str(folder))):
                if not is_folder and not name.startswith("."):
                    yield folder / name

    def put(self, source: Path) -> Path:
        """Copy a file into the inbox, durable and whole, and return its place.

        Raises:
            OSError: The source cannot be read.
            StorageError: The disk refused.
        """
        name = safe_name(source.stem)[:80].rstrip(".")
        with source.open("rb") as stream:
            sha256 = hashlib.file_digest(stream, "sha256").hexdigest()
            stream.seek(0)
            target = self.root / INBOX / f"{name}-{sha256[:16]}.zip"
            self._write(target, iter(lambda: stream.read(_BLOCK), b""))
        return target

    def remove(self, path: Path) -> None:
        """Remove a file whose content is in a package now; gone already is as good."""
        self._guarded(lambda: self._removed(path), path)

    def set_aside(self, path: Path, note: Note) -> Path:
        """Move a file out of the inbox, its note first, and return where it went.

        The name holds the digest of the file, so that the same file set aside twice is one.
        """
        folder = self.root / (ARCHIVE if note.result == "duplicate" else REJECTED)
        sha256 = _sha256(path)
        target = folder / f"{safe_name(path.stem)[:80].rstrip('.')}-{sha256[:16]}.zip"
        told = canonical(note.to_json(path.name, sha256, self._now()))
        self._write(target.with_suffix(".json"), iter((told,)))
        self._guarded(lambda: self._moved(path, target), path)
        return target

    def forget(self, case_id: str) -> int:
        """Remove what was set aside of a case, as far as notes name it; return how many files."""
        removed = 0
        for folder in (self.root / ARCHIVE, self.root / REJECTED):
            for note in sorted(folder.glob("*.json")):
                if _noted_case(note) == case_id:
                    self.remove(note.with_suffix(".zip"))
                    self.remove(note)
                    removed += 1
        return removed

    def _write(self, target: Path, parts: Iterator[bytes]) -> None:
        self._guarded(lambda: self._written(target, parts), target)

    def _written(self, target: Path, parts: Iterator[bytes]) -> None:
        folder = str(target.parent.absolute())
        with suppress(FileExistsError):
            target.parent.parent.mkdir(parents=True, exist_ok=True)
            self._disk.make_folder(folder)
            self._disk.sync_folder(str(target.parent.parent.absolute()))
        put_file(self._disk, str(target.absolute()), parts)

    def _moved(self, path: Path, target: Path) -> None:
        with suppress(FileNotFoundError):
            self._disk.move(str(path.absolute()), str(target.absolute()))
        self._disk.sync_folder(str(target.parent.absolute()))
        self._disk.sync_folder(str(path.parent.absolute()))

    def _removed(self, path: Path) -> None:
        with suppress(FileNotFoundError):
            self._disk.unlink(str(path.absolute()))
            self._disk.sync_folder(str(path.parent.absolute()))

    def _guarded(self, step: Callable[[], None], path: Path) -> None:
        try:
            step()
        except OSError as error:
            raise storage_error(error, "set aside", path.parent.name) from error


def is_regular(path: Path) -> bool:
    """Tell whether a path is a file of its own, not a link, pipe or device."""
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def age_seconds(path: Path, now: datetime) -> float:
    """Return how long ago a file was changed, as its own time says."""
    try:
        return now.timestamp() - path.lstat().st_mtime
    except OSError:
        return 0.0


def _sha256(path: Path) -> str:
    """Return the digest of a file's bytes, or of its name where it is no file of its own."""
    if is_regular(path):
        try:
            with path.open("rb") as stream:
                return hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError as error:
            raise storage_error(error, "read", INBOX) from error
    return hashlib.sha256(os.fsencode(path.name)).hexdigest()


def _noted_case(note: Path) -> JSON:
    try:
        with note.open("rb") as stream:
            body = parse(stream.read(_NOTE_BYTES_MAX))
    except (OSError, ValueError):
        return None
    return body.get("case_id") if isinstance(body, dict) else None


def _printable(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "backslashreplace")
