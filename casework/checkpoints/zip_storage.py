"""A package in a ZIP file, read with suspicion and never written."""

from __future__ import annotations

import stat
import struct
import zipfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import BinaryIO, Final, Self

from casework.checkpoints.folder_storage import storage_error
from casework.checkpoints.storage import NotFound, is_safe_path
from casework.errors import FormatError, IntegrityError, StorageError

MIB: Final = 1 << 20

_ENCRYPTED: Final = 0x1 | 0x40
_METHODS: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_DIRECTORY_ENTRY_MAX: Final = 1 << 10
_END: Final = struct.Struct("<4s4H2LH")
_END_MARK: Final = b"PK\x05\x06"
_COMMENT_MAX: Final = 0xFFFF


@dataclass(frozen=True, slots=True)
class ZipLimits:
    """How large a received package may be, counted while it is read."""

    members: int = 200_000
    expanded_bytes: int = 4096 * MIB
    member_bytes: int = 256 * MIB
    """One member is held in memory at a time."""
    ratio: int = 200
    """Most bytes that one stored byte may expand to, asked of members over 1 MiB."""


class ZipStorage:
    """The members of a ZIP as a read-only storage.

    Opening it looks at every member's name and kind and refuses the whole file if one is absolute,
    leads out or through a link, is encrypted, a device, or named like another but for case.

    Args:
        path: The file.
        limits: What may be read from it.
    """

    def __init__(self, path: Path, limits: ZipLimits | None = None) -> None:
        self._limits = limits or ZipLimits()
        self._lock = Lock()
        self._left = self._limits.expanded_bytes
        self._seen: set[str] = set()
        self.path = path
        try:
            with path.open("rb") as file:
                check_directory_size(file, self._limits)
            self._zip = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
            raise FormatError("not a ZIP file that can be read", code="bad_zip") from error
        except OSError as error:
            raise storage_error(error, "read", path.name) from error
        try:
            self._members = _checked_members(self._zip.infolist(), self._limits)
        except BaseException:
            self._zip.close()
            raise
        self._folders = _folders_of(self._members)

    def __enter__(self) -> Self:
        """Return the storage; the file is closed at the end of the context."""
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self._zip.close()

    def create(self, files: Sequence[tuple[str, bytes]]) -> None:
        """Refuse: a sealed package is never written to.

        Raises:
            StorageError: Always.
        """
        raise StorageError("a ZIP is read-only", code="read_only", where=files[0][0])

    def delete(self, path: str) -> None:
        """Refuse: a sealed package is never written to.

        Raises:
            StorageError: Always.
        """
        raise StorageError("a ZIP is read-only", code="read_only", where=path)

    def list(self, folder: str) -> list[str]:
        """Return the names directly in a folder; see :class:`Storage`."""
        return sorted(self._folders.get(folder, ()))

    def read(self, path: str) -> bytes:
        """Return a member's bytes, never more than were announced and allowed.

        Raises:
            NotFound: There is no such member.
            FormatError: It is larger than the limits allow.
            IntegrityError: Its bytes contradict the archive.
        """
        info = self._members.get(path)
        if info is None:
            raise NotFound(path)
        with self._lock:
            if path not in self._seen and info.file_size > self._left:
                raise _too_large("the package expands to too many bytes", path)
            try:
                content = self._read_member(info)
            except (zipfile.BadZipFile, zlib.error, EOFError, struct.error, RuntimeError) as error:
                raise IntegrityError(
                    "the member contradicts the archive", code="zip_member", where=path
                ) from error
            except OSError as error:
                raise storage_error(error, "read", path) from error
            if path not in self._seen:
                self._seen.add(path)
                self._left -= len(content)
        if len(content) != info.file_size:
            raise IntegrityError(
                "the member is not as large as announced", code="zip_member", where=path
            )
        return content

    def _read_member(self, info: zipfile.ZipInfo) -> bytes:
        parts: list[bytes] = []
        size = 0
        with self._zip.open(info) as member:
            while part := member.read(MIB):
                size += len(part)
                if size > self._limits.member_bytes:
                    raise _too_large("a member expands to too many bytes", info.filename)
                parts.append(part)
        return b"".join(parts)


def check_directory_size(file: BinaryIO, limits: ZipLimits) -> None:
    """Refuse a directory so large that merely reading it would exhaust memory.

    Raises:
        FormatError: It is that large; code ``too_large``.
        BadZipFile: There is no directory.
    """
    size = file.seek(0, 2)
    file.seek(max(0, size - _COMMENT_MAX - _END.size))
    tail = file.read()
    place = tail.rfind(_END_MARK)
    if place < 0 or len(tail) - place < _END.size:
        raise zipfile.BadZipFile
    directory_bytes = min(_END.unpack_from(tail, place)[5], size)
    if directory_bytes > limits.members * _DIRECTORY_ENTRY_MAX:
        raise _too_large("the package has too many members", None)


def _checked_members(
    infos: Sequence[zipfile.ZipInfo], limits: ZipLimits
) -> dict[str, zipfile.ZipInfo]:
    if len(infos) > limits.members:
        raise _too_large("the package has too many members", None)
    members: dict[str, zipfile.ZipInfo] = {}
    folded: set[str] = set()
    expanded = 0
    for number, info in enumerate(infos, start=1):
        _check_member(info, number)
        name = info.orig_filename.removesuffix("/")
        if name.casefold() in folded:
            raise _unsafe("two members have one name", "duplicate_member", number)
        folded.add(name.casefold())
        if info.is_dir():
            continue
        expanded += info.file_size
        _check_size(info, limits)
        members[name] = info
    if expanded > limits.expanded_bytes:
        raise _too_large("the package expands to too many bytes", None)
    for name in members:
        above = name
        while above := above.rpartition("/")[0]:
            if above in members:
                raise FormatError("a member is also a folder", code="duplicate_member")
    return members


def _check_member(info: zipfile.ZipInfo, number: int) -> None:
    if not is_safe_path(info.orig_filename.removesuffix("/")):
        raise _unsafe("a member's name leads out or is not plain", "unsafe_member", number)
    if info.flag_bits & _ENCRYPTED:
        raise _unsafe("a member is encrypted", "encrypted_member", number)
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR) or (kind == stat.S_IFDIR) > info.is_dir():
        raise _unsafe("a member is a link or a device", "special_member", number)
    if info.compress_type not in _METHODS:
        raise _unsafe("a member is compressed in a way that is not read", "zip_method", number)


def _check_size(info: zipfile.ZipInfo, limits: ZipLimits) -> None:
    if info.file_size > limits.member_bytes:
        raise _too_large("a member expands to too many bytes", info.filename)
    if info.file_size > max(MIB, info.compress_size * limits.ratio):
        raise _too_large("a member expands too much", info.filename)


def _folders_of(members: dict[str, zipfile.ZipInfo]) -> dict[str, set[str]]:
    folders: dict[str, set[str]] = {}
    for path in members:
        folder, _, name = path.rpartition("/")
        folders.setdefault(folder, set()).add(name)
        while folder:
            folder, _, name = folder.rpartition("/")
            folders.setdefault(folder, set()).add(f"{name}/")
    return folders


def _too_large(what: str, where: str | None) -> FormatError:
    return FormatError(what, code="too_large", where=where, remedy="it was not read further")


def _unsafe(what: str, code: str, number: int) -> FormatError:
    return FormatError(f"{what} (member {number})", code=code, remedy="nothing was written")
