"""What a person ordered of the line: to pause, and which operations not to begin.

Small files beside the packages, one for the pause and one for each ``cancel``. They are written
durably and are no cache: whoever deletes ``runtime/line/`` lifts the orders.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from typing import Final

from casework.checkpoints.disk import Disk, put_file
from casework.checkpoints.timestamps import read_time, write_time
from casework.errors import StorageError
from casework.runtime.line.work import WorkKey
from casework.strict_json import JSON, InvalidJSON, JSONObject, canonical, parse

FOLDER: Final = "line"
PAUSE_FILE: Final = "paused.json"
CANCEL_SCHEMA: Final = "line-cancel/1"
PAUSE_SCHEMA: Final = "line-pause/1"
REASON_CHARACTERS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class Paused:
    """The line is paused by a person."""

    at: datetime | None
    """None where the file does not tell."""
    reason: str


class LineOrders:
    """The orders of one project.

    Args:
        root: The runtime folder; None keeps no orders, for a store without a folder.
        disk: The file system calls.
    """

    def __init__(self, root: Path | None, disk: Disk | None = None) -> None:
        self._folder = None if root is None else root / FOLDER
        self._disk = disk or Disk()
        self._seen: frozenset[tuple[str, int]] = frozenset()
        self._cancelled: frozenset[WorkKey] = frozenset()

    def pause(self, *, at: datetime, reason: str) -> None:
        """Pause the line of all processes.

        Raises:
            StorageError: The disk refused; nothing is paused.
        """
        body: JSONObject = {"schema": PAUSE_SCHEMA, "at": write_time(at), "reason": reason}
        self._write(PAUSE_FILE, body)

    def resume(self) -> bool:
        """Let the line go on; tell whether it was paused."""
        if self._folder is None:
            return False
        try:
            (self._folder / PAUSE_FILE).unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _refused() from error
        return True

    def paused(self) -> Paused | None:
        """Return the pause, if there is one. A file that cannot be read pauses too."""
        if self._folder is None:
            return None
        path = self._folder / PAUSE_FILE
        try:
            body = _read(path)
        except FileNotFoundError:
            return None
        at, reason = body.get("at"), body.get("reason")
        with suppress(ValueError):
            return Paused(read_time(str(at)), str(reason or ""))
        return Paused(None, "")

    def cancel(self, operations: Iterable[WorkKey], *, at: datetime) -> None:
        """Cancel operations: none of them is begun until it is lifted.

        Raises:
            StorageError: The disk refused; nothing is cancelled.
        """
        pairs: list[JSON] = [list(operation) for operation in operations]
        body: JSONObject = {
            "schema": CANCEL_SCHEMA,
            "at": write_time(at),
            "operations": pairs,
        }
        self._write(f"cancelled-{at:%Y%m%dT%H%M%S}-{token_hex(4)}.json", body)

    def lift(self, operations: Iterable[WorkKey] | None = None) -> int:
        """Lift the cancellation of operations, or of all; return of how many.

        Raises:
            StorageError: The disk refused; what was not lifted stays.
        """
        chosen = None if operations is None else frozenset(operations)
        lifted = 0
        for path in self._files():
            found = _operations(path)
            left = [] if chosen is None else [o for o in found if o not in chosen]
            if found and len(left) == len(found):
                continue
            lifted += len(found) - len(left)
            if left:
                pairs: list[JSON] = [list(operation) for operation in left]
                self._write(path.name, {**_read(path), "operations": pairs})
            else:
                with suppress(FileNotFoundError):
                    path.unlink()
        return lifted

    def cancelled(self) -> frozenset[WorkKey]:
        """Return what is cancelled; the files are read again only when others are there."""
        seen = self._listed()
        if seen != self._seen:
            self._cancelled = frozenset(o for path in self._files() for o in _operations(path))
            self._seen = seen
        return self._cancelled

    def _listed(self) -> frozenset[tuple[str, int]]:
        """Return name and inode of what lies there; a file that took another's place has its own.

        The folder's time would not do: it moves on in steps that are longer than a write.
        """
        if self._folder is None:
            return frozenset()
        try:
            with os.scandir(self._folder) as entries:
                return frozenset((entry.name, entry.inode()) for entry in entries)
        except OSError:
            return frozenset()

    def _files(self) -> list[Path]:
        return [] if self._folder is None else sorted(self._folder.glob("cancelled-*.json"))

    def _write(self, name: str, body: JSONObject) -> None:
        """Put a file in place durably and at once."""
        if self._folder is None:
            raise _refused()
        folder = str(self._folder.absolute())
        try:
            if not self._folder.is_dir():
                self._folder.mkdir(parents=True, exist_ok=True)
                self._disk.sync_folder(str(self._folder.parent.absolute()))
            put_file(self._disk, f"{folder}/{name}", [canonical(body)])
        except OSError as error:
            raise _refused() from error


def _read(path: Path) -> JSONObject:
    """Return a file's object; an empty one where it holds none."""
    try:
        body = parse(path.read_bytes())
    except FileNotFoundError:
        raise
    except (OSError, InvalidJSON):
        return {}
    return body if isinstance(body, dict) else {}


def _operations(path: Path) -> list[WorkKey]:
    with suppress(FileNotFoundError):
        pairs = _read(path).get("operations")
        if isinstance(pairs, list):
            return [
                (str(pair[0]), str(pair[1]))
                for pair in pairs
                if isinstance(pair, list) and len(pair) == 2  # noqa: PLR2004 - a pair
            ]
    return []


def _refused() -> StorageError:
    return StorageError(
        "the order could not be written",
        code="order_refused",
        where=FOLDER,
        remedy="make room on the disk, or permit writing to the runtime folder",
    )
