"""Finding the files of a folder, in an order that does not depend on the disk."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

from casework.runner.documents.document import (
    Problem,
    ProblemCode,
    Refusal,
    Skipped,
    SkipReason,
)
from casework.runner.documents.ignore_file import (
    IGNORE_FILE,
    IGNORE_FILE_BYTES_MAX,
    IgnoreRules,
)

_UNFIT: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
"""Controls, line separators, and what stands for bytes of a name that are not UTF-8."""

_BYTES_FROM: Final = 0xDC80
_BYTES_TO: Final = 0xDCFF
"""Python carries the bytes 80 to FF of an undecodable name as these code points."""

_LATIN_MAX: Final = 0xFF


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A file that is to be read."""

    path: str
    """Where it lies, with no link on the last step."""
    name: str
    """Relative path with ``/``, fit to be an id."""
    where: str
    """The file as the user would name it."""
    escaped: bool
    """Whether the name had to be changed to be fit."""

    def open(self) -> BinaryIO | Problem:
        """Open the file for reading; see :func:`open_file`."""
        return open_file(self.path, self.where)


@dataclass(frozen=True, slots=True)
class WalkLimits:
    """How far a walk goes."""

    hidden: bool = False
    """Take in names that begin with a dot."""
    depth_max: int = 128
    files_max: int = 1_000_000


WalkItem: TypeAlias = FoundFile | Refusal | Skipped


def walk(root: Path, limits: WalkLimits | None = None) -> Iterator[WalkItem]:
    """Yield the files below a folder, sorted by name, folder by folder.

    Links to files inside the folder are read as files of their own; links to folders, and links
    that leave the folder, are refused, so no walk goes round in circles or out of the tree.
    """
    limits = limits or WalkLimits()
    top = os.path.realpath(root)
    rules = _read_rules(top, fit(str(root)))
    if isinstance(rules, Refusal):
        yield rules
        return
    found = 0
    for item in _Walk(top, fit(str(root)), rules, limits).items():
        found += isinstance(item, FoundFile)
        if found > limits.files_max:
            message = f"more than {limits.files_max} files; the rest was not looked at"
            yield _refusal(ProblemCode.TOO_MANY, fit(str(root)), message)
            return
        yield item


def fit(name: str) -> str:
    r"""Return a name in which controls and undecodable bytes are written as ``\xNN``."""
    return _UNFIT.sub(_escape, name) if _UNFIT.search(name) else name


def open_file(path: str, where: str) -> BinaryIO | Problem:
    """Open a regular file for reading; never waits for a pipe and never opens a device."""
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        if not stat.S_ISREG(Path(path).stat().st_mode):
            return Problem(ProblemCode.NOT_A_FILE, where, "is no regular file")
        descriptor = os.open(path, flags | getattr(os, "O_CLOEXEC", 0))
    except FileNotFoundError:
        return Problem(ProblemCode.NOT_FOUND, where, "there is no such file")
    except (OSError, ValueError) as error:
        return Problem(ProblemCode.UNREADABLE, where, f"cannot be read: {_reason(error)}")
    return os.fdopen(descriptor, "rb")


def read_bounded(path: str, where: str, *, bytes_max: int) -> bytes | Problem:
    """Read a whole file, unless it is larger than allowed."""
    stream = open_file(path, where)
    if isinstance(stream, Problem):
        return stream
    with stream:
        return read_all(stream, where, bytes_max=bytes_max)


def read_all(stream: BinaryIO, where: str, *, bytes_max: int) -> bytes | Problem:
    """Read an open file to its end, unless it is larger than allowed."""
    try:
        content = stream.read(bytes_max + 1)
    except OSError as error:
        return Problem(ProblemCode.UNREADABLE, where, f"cannot be read: {_reason(error)}")
    if len(content) > bytes_max:
        return Problem(ProblemCode.TOO_LARGE, where, f"has more than {bytes_max} bytes")
    return content


@dataclass(frozen=True, slots=True)
class _Walk:
    top: str
    shown: str
    rules: IgnoreRules
    limits: WalkLimits
    _pending: list[tuple[str, os.DirEntry[str]]] = field(default_factory=list)
    """Relative path and entry, the next one last."""

    def items(self) -> Iterator[WalkItem]:
        yield from self._enter(self.top, "")
        while self._pending:
            relative, entry = self._pending.pop()
            is_folder = _is_folder(entry)
            skipped = self._skipped(relative, is_folder=is_folder)
            if skipped is not None:
                yield skipped
            elif is_folder:
                yield from self._enter(entry.path, relative)
            else:
                yield self._file(entry, relative)

    def _enter(self, folder: str, relative: str) -> Iterator[WalkItem]:
        """Put the entries of a folder on the stack; yield only what went wrong."""
        if relative.count("/") >= self.limits.depth_max:
            yield _refusal(ProblemCode.TOO_DEEP, self._where(relative), "lies too deep")
            return
        try:
            with os.scandir(folder) as entries:
                ordered = sorted(entries, key=lambda entry: entry.name, reverse=True)
        except OSError as error:
            message = f"the folder cannot be read: {_reason(error)}"
            yield _refusal(ProblemCode.UNREADABLE, self._where(relative), message)
            return
        prefix = f"{relative}/" if relative else ""
        self._pending.extend((prefix + entry.name, entry) for entry in ordered)

    def _skipped(self, relative: str, *, is_folder: bool) -> Skipped | None:
        name = relative.rpartition("/")[2]
        if name == IGNORE_FILE or (name.startswith(".") and not self.limits.hidden):
            return Skipped(self._where(relative), SkipReason.HIDDEN)
        if self.rules.ignores(relative, is_folder=is_folder):
            return Skipped(self._where(relative), SkipReason.IGNORED)
        return None

    def _file(self, entry: os.DirEntry[str], relative: str) -> WalkItem:
        where = self._where(relative)
        path = entry.path
        if entry.is_symlink():
            path = os.path.realpath(path)
            if os.path.isdir(path):  # noqa: PTH112 - a plain path is at hand
                message = "a link to a folder is not followed"
                return _refusal(ProblemCode.LINK_NOT_FOLLOWED, where, message)
            if not _is_inside(path, self.top):
                message = "a link that leaves the folder is not followed"
                return _refusal(ProblemCode.LINK_NOT_FOLLOWED, where, message)
        name = fit(relative)
        return FoundFile(path, name, where, name != relative)

    def _where(self, relative: str) -> str:
        return fit(f"{self.shown.rstrip('/')}/{relative}" if relative else self.shown)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Tell whether an entry is a folder; one that cannot be looked at fails when it is opened."""
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _is_inside(path: str, top: str) -> bool:
    try:
        return os.path.commonpath([top, path]) == top
    except ValueError:  # another drive
        return False


def _read_rules(top: str, shown: str) -> IgnoreRules | Refusal:
    path = os.path.join(top, IGNORE_FILE)  # noqa: PTH118 - a plain path is at hand
    if not os.path.lexists(path):
        return IgnoreRules()
    where = f"{shown.rstrip('/')}/{IGNORE_FILE}"
    return IgnoreRules.read(read_bounded(path, where, bytes_max=IGNORE_FILE_BYTES_MAX), where)


def _refusal(code: ProblemCode, where: str, message: str) -> Refusal:
    return Refusal(Problem(code, where, message))


def _reason(error: Exception) -> str:
    words = error.strerror if isinstance(error, OSError) else None
    return words or type(error).__name__


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if _BYTES_FROM <= code <= _BYTES_TO:
        code -= _BYTES_FROM - 0x80
    return f"\\u{code:04x}" if code > _LATIN_MAX else f"\\x{code:02x}"
