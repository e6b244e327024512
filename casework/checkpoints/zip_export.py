"""Sealing a package: the same generation gives the same bytes, everywhere and always."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from casework.checkpoints.disk import Disk, Draft
from casework.checkpoints.folder_storage import storage_error
from casework.checkpoints.names import commit_path
from casework.checkpoints.package_files import read_checked
from casework.checkpoints.package_reader import PackageReader
from casework.checkpoints.records import FileEntry
from casework.errors import IntegrityError, PackageNotFound

if TYPE_CHECKING:
    from typing_extensions import Buffer

_EARLIEST: Final = (1980, 1, 1, 0, 0, 0)
"""The first moment that ZIP can express; a file's own time is nobody's business."""

_REGULAR_FILE: Final = 0o100644 << 16
_MADE_ON_UNIX: Final = 3


def sealed_members(reader: PackageReader, generation: int) -> Iterator[tuple[str, bytes]]:
    """Yield the files of a generation in the order in which they are sealed, each checked.

    Raises:
        IntegrityError: A committed file or record is missing or damaged.
        PackageNotFound: The case was forgotten.
    """
    entries: dict[str, FileEntry | int] = {}
    for record, _ in reader.records(1, generation):
        if record.forgotten is not None:
            raise PackageNotFound(
                "the case was forgotten; there is nothing to seal", code="case_forgotten"
            )
        entries[commit_path(record.generation)] = record.generation
        entries.update((entry.path, entry) for entry in record.files)
    for path in sorted(entries):
        match entries[path]:
            case FileEntry() as entry:
                yield path, read_checked(reader, entry)
            case int(number):
                content = reader.record_bytes(number)
                if content is None:
                    raise IntegrityError("a commit is missing", where=path)
                yield path, content


def write_sealed(members: Iterator[tuple[str, bytes]], write: Callable[[bytes], object]) -> None:
    """Write members to a ZIP whose bytes depend on nothing else, front to back.

    They are stored, not compressed: compressors of different versions write different bytes.
    """
    with zipfile.ZipFile(_Sink(write), "w", zipfile.ZIP_STORED) as archive:
        for path, content in members:
            info = zipfile.ZipInfo(path, _EARLIEST)
            info.create_system = _MADE_ON_UNIX
            info.external_attr = _REGULAR_FILE
            archive.writestr(info, content)


def export_package(reader: PackageReader, generation: int, target: Path, *, disk: Disk) -> None:
    """Write a generation's ZIP, durable and whole, in the place of whatever had the name.

    Raises:
        IntegrityError: The package is damaged; nothing was written.
        StorageError: The disk refused; an older file of the name still stands.
    """
    folder = str(target.parent.absolute())
    draft: Draft | None = None
    try:
        draft = disk.begin(folder, named=True)
        write_sealed(sealed_members(reader, generation), partial(disk.write, draft))
        disk.sync(draft)
        disk.replace(draft, str(target.absolute()))
        disk.sync_folder(folder)
    except OSError as error:
        raise storage_error(error, "export", target.name) from error
    finally:
        if draft is not None:
            with suppress(OSError):
                disk.discard(draft)


class _Sink(io.RawIOBase):
    """What ``zipfile`` writes to: it cannot go back, so the bytes come in one order only."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def write(self, content: Buffer, /) -> int:
        part = bytes(content)
        self._write(part)
        return len(part)
