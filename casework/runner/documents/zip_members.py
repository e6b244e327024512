"""The members of a ZIP file in the place of the files of a folder, read with suspicion."""

from __future__ import annotations

import io
import re
import stat
import struct
import tempfile
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import BinaryIO, Final

from casework.checkpoints.zip_storage import MIB, ZipLimits, check_directory_size
from casework.errors import FormatError
from casework.runner.documents.document import (
    Problem,
    ProblemCode,
    Refusal,
    Skipped,
    SkipReason,
)
from casework.runner.documents.file_walk import WalkLimits, fit, read_all
from casework.runner.documents.ignore_file import (
    IGNORE_FILE,
    IGNORE_FILE_BYTES_MAX,
    IgnoreRules,
)

_ENCRYPTED: Final = 0x1 | 0x40
_UTF8: Final = 0x800
_FILE_KINDS: Final = frozenset({0, stat.S_IFREG})
_METHODS: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_DRIVE: Final = re.compile(r"[A-Za-z]:")
_DAMAGE: Final = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    struct.error,
)
_IN_MEMORY_MAX: Final = 8 * MIB


class Archive:
    """The members of one ZIP file.

    Args:
        stream: The file; it stays open as long as members are read.
        where: The file as the user would name it.
        prefix: Stands before the names of the members in ids.
        limits: How much is unpacked of it.
        walk: Whether hidden names are taken in, and how deep members may lie.
    """

    def __init__(
        self,
        stream: BinaryIO,
        where: str,
        *,
        prefix: str,
        limits: ZipLimits,
        walk: WalkLimits,
    ) -> None:
        self._stream = stream
        self._where = where
        self._prefix = prefix
        self._limits = limits
        self._walk = walk
        self._left = limits.expanded_bytes

    def members(self) -> Iterator[ZipMember | Refusal | Skipped]:
        """Yield each member once: to be read, refused with the reason, or passed over."""
        try:
            check_directory_size(self._stream, self._limits)
            archive = zipfile.ZipFile(self._stream)
        except (*_DAMAGE, OSError):
            yield _refusal(ProblemCode.ARCHIVE_DAMAGED, self._where, "is no ZIP that can be read")
            return
        except FormatError:
            yield self._too_many()
            return
        if len(archive.infolist()) > self._limits.members:
            yield self._too_many()
            return
        names = {
            info: _name_of(info) for info in archive.infolist() if not info.filename.endswith("/")
        }
        rules = self._rules(archive, names)
        if isinstance(rules, Refusal):
            yield rules
            return
        seen: set[str] = set()
        for info in sorted(names, key=lambda info: names[info].split("/")):
            yield self._judged(archive, info, names[info], rules=rules, seen=seen)

    def unpacked(self, member: ZipMember) -> BinaryIO | Problem:
        """Unpack one member to where it can be wound back, never more than is allowed."""
        size = member.info.file_size
        if size > self._left:
            message = f"the archive expands to more than {self._limits.expanded_bytes} bytes"
            return Problem(ProblemCode.TOO_LARGE, member.where, message)
        target: BinaryIO = io.BytesIO()
        if size > _IN_MEMORY_MAX:
            target = tempfile.TemporaryFile()  # noqa: SIM115 - the reader closes it
        left = size
        try:
            with member.archive.open(member.info) as packed:
                while part := packed.read(MIB):
                    left -= len(part)
                    if left < 0:
                        break
                    target.write(part)
        except _DAMAGE:
            left = -1
        except OSError as error:
            target.close()
            message = f"could not be unpacked: {error.strerror}"
            return Problem(ProblemCode.UNREADABLE, member.where, message)
        except BaseException:
            target.close()
            raise
        self._left -= size
        if left:
            target.close()
            message = "the member contradicts the archive"
            return Problem(ProblemCode.ARCHIVE_DAMAGED, member.where, message)
        target.seek(0)
        return target

    def _judged(
        self,
        archive: zipfile.ZipFile,
        info: zipfile.ZipInfo,
        name: str,
        *,
        rules: IgnoreRules,
        seen: set[str],
    ) -> ZipMember | Refusal | Skipped:
        shown = fit(name)
        where = f"{self._where}/{shown}"
        problem = self._problem(info, name, where)
        if problem is not None:
            return Refusal(problem)
        if name == IGNORE_FILE or (not self._walk.hidden and _is_hidden(name)):
            return Skipped(where, SkipReason.HIDDEN)
        if _is_ignored(rules, name):
            return Skipped(where, SkipReason.IGNORED)
        folded = unicodedata.normalize("NFC", name).casefold()
        if folded in seen:
            message = "another member has this name, or one that differs in case alone"
            return _refusal(ProblemCode.MEMBER_DUPLICATE, where, message)
        seen.add(folded)
        return ZipMember(self, archive, info, self._prefix + shown, where, shown != name)

    def _problem(self, info: zipfile.ZipInfo, name: str, where: str) -> Problem | None:
        """Return what is wrong with a member by what the directory of the archive says."""
        kind = stat.S_IFMT(info.external_attr >> 16)
        limits = self._limits
        checks = (
            (not _is_plain(name), ProblemCode.MEMBER_UNSAFE, "the name leads out or is not plain"),
            (name.count("/") >= self._walk.depth_max, ProblemCode.TOO_DEEP, "lies too deep"),
            (kind == stat.S_IFLNK, ProblemCode.LINK_NOT_FOLLOWED, "a link in an archive"),
            (kind not in _FILE_KINDS, ProblemCode.NOT_A_FILE, "is no regular file"),
            (
                bool(info.flag_bits & _ENCRYPTED),
                ProblemCode.MEMBER_ENCRYPTED,
                "is encrypted; unpack it first",
            ),
            (
                info.compress_type not in _METHODS,
                ProblemCode.FORMAT_UNSUPPORTED,
                "is compressed in a way that is not read; unpack it first",
            ),
            (
                info.file_size > limits.member_bytes,
                ProblemCode.TOO_LARGE,
                f"expands to more than {limits.member_bytes} bytes",
            ),
            (
                info.file_size > max(MIB, info.compress_size * limits.ratio),
                ProblemCode.TOO_LARGE,
                f"expands to more than {limits.ratio} times its size",
            ),
        )
        return next((Problem(code, where, say) for is_wrong, code, say in checks if is_wrong), None)

    def _rules(
        self, archive: zipfile.ZipFile, names: dict[zipfile.ZipInfo, str]
    ) -> IgnoreRules | Refusal:
        where = f"{self._where}/{IGNORE_FILE}"
        info = next((info for info, name in names.items() if name == IGNORE_FILE), None)
        if info is None:
            return IgnoreRules()
        problem = self._problem(info, IGNORE_FILE, where)
        stream = problem or self.unpacked(ZipMember(self, archive, info, IGNORE_FILE, where))
        if isinstance(stream, Problem):
            return Refusal(stream)
        with stream:
            content = read_all(stream, where, bytes_max=IGNORE_FILE_BYTES_MAX)
        return IgnoreRules.read(content, where)

    def _too_many(self) -> Refusal:
        message = f"has more than {self._limits.members} members"
        return _refusal(ProblemCode.TOO_MANY, self._where, message)


@dataclass(frozen=True, slots=True)
class ZipMember:
    """A member that is to be read."""

    owner: Archive
    archive: zipfile.ZipFile
    info: zipfile.ZipInfo
    name: str
    where: str
    escaped: bool = field(default=False)

    def open(self) -> BinaryIO | Problem:
        """Unpack the member; see :meth:`Archive.unpacked`."""
        return self.owner.unpacked(self)


def _name_of(info: zipfile.ZipInfo) -> str:
    """Return the name as its bytes are in UTF-8; other bytes stay marked, as in a folder."""
    if info.flag_bits & _UTF8 or info.orig_filename.isascii():
        return info.orig_filename
    return info.orig_filename.encode("cp437").decode("utf-8", "surrogateescape")


def _is_plain(name: str) -> bool:
    if "\\" in name or "\0" in name or _DRIVE.match(name):
        return False
    return not any(part in {"", ".", ".."} for part in name.split("/"))


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in name.split("/"))


def _is_ignored(rules: IgnoreRules, name: str) -> bool:
    folder, slash, _ = name.rpartition("/")
    while slash:
        if rules.ignores(folder, is_folder=True):
            return True
        folder, slash, _ = folder.rpartition("/")
    return rules.ignores(name, is_folder=False)


def _refusal(code: ProblemCode, where: str, message: str) -> Refusal:
    return Refusal(Problem(code, where, message))
