"""The oracle: is the history that a package tells possible? No configuration, no network.

It accepts a folder or a ZIP, reads one file at a time and never writes. Whatever a crash may leave
behind is a note; everything else that is not as the commits say is an error.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from casework.checkpoints.disk import TEMPORARY_PREFIX
from casework.checkpoints.findings import Finding, Severity, VerifyReport
from casework.checkpoints.folder_storage import FolderStorage
from casework.checkpoints.names import PACKAGE_FILE
from casework.checkpoints.package_reader import PackageReader
from casework.checkpoints.storage import Storage
from casework.checkpoints.verification import Verification
from casework.checkpoints.zip_export import sealed_members, write_sealed
from casework.checkpoints.zip_storage import ZipLimits, ZipStorage
from casework.errors import CheckpointError, PackageNotFound

_BEFORE_THE_FIRST_COMMIT: Final = frozenset({PACKAGE_FILE, "original", "case", "commits"})


def verify(path: Path, *, limits: ZipLimits | None = None) -> VerifyReport:
    """Judge the package in a folder or a ZIP.

    Args:
        path: The package's folder or file.
        limits: What may be read from a ZIP.

    Raises:
        PackageNotFound: There is nothing at the path.
    """
    if path.is_dir():
        report = verify_storage(FolderStorage(path))
        drafts = Severity.ERROR if report.forgotten else Severity.NOTE
        return replace(report, findings=(*report.findings, *_strange_entries(path, drafts)))
    if not path.is_file():
        raise PackageNotFound("there is no folder or file of this name", where=path.name)
    try:
        with ZipStorage(path, limits) as storage:
            report = verify_storage(storage)
            if report.ok and not _is_sealed(storage, report.generation):
                note = Finding(
                    "not_sealed",
                    path.name,
                    "the archive is not byte for byte what an export writes",
                    Severity.NOTE,
                )
                report = replace(report, findings=(*report.findings, note))
            return report
    except CheckpointError as error:
        return VerifyReport((Finding(error.code, error.where or path.name, error.message),))


def never_begun(path: Path) -> VerifyReport | None:
    """Return the judgement of a folder that holds only what precedes a first commit, else None.

    That is how a crash in an import leaves it. No case was ever seen there, so among the packages
    of a project it is a leftover; whoever names it as a package is told that it is none.
    """
    names = _names_in(path)
    if not names <= _BEFORE_THE_FIRST_COMMIT or any((path / name).is_symlink() for name in names):
        return None
    if "commits" in names and _names_in(path / "commits"):
        return None
    detail = "the creation was cut off before the first commit; import the case again"
    return VerifyReport((Finding("leftover", "commits", detail, Severity.NOTE),))


def _names_in(folder: Path) -> set[str]:
    return {e.name for e in folder.iterdir() if not e.name.startswith(TEMPORARY_PREFIX)}


def verify_storage(storage: Storage, folder: str = "") -> VerifyReport:
    """Judge the package below a folder of a storage."""
    return Verification(PackageReader(storage, folder)).report()


def _strange_entries(path: Path, drafts: Severity) -> Iterator[Finding]:
    """Find what a storage does not list, or lists under another kind: drafts, links, pipes.

    Args:
        path: The package's folder.
        drafts: How much a draft matters; it may hold text of a case that was forgotten.
    """
    for folder, folders, names in os.walk(path):
        for name in (*folders, *names):
            place = Path(folder, name)
            inner = place.relative_to(path).as_posix()
            inner = inner.encode("utf-8", "backslashreplace").decode("utf-8")
            if name.startswith(TEMPORARY_PREFIX):
                yield Finding("leftover_draft", inner, "a crash left this draft", drafts)
            elif place.is_symlink() or not (place.is_file() or place.is_dir()):
                yield Finding("special_file", inner, "a link or device stands in the package")


def _is_sealed(storage: ZipStorage, generation: int) -> bool:
    """Tell whether a ZIP is byte for byte what an export of its generation writes."""
    with storage.path.open("rb") as file:
        comparison = _Comparison(file.read)
        try:
            write_sealed(sealed_members(PackageReader(storage), generation), comparison.take)
        except CheckpointError:
            return False
        return comparison.equal and not file.read(1)


class _Comparison:
    """Compares bytes as they come with those that a file holds at the same place."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self._read = read
        self.equal = True

    def take(self, part: bytes) -> None:
        self.equal = self.equal and self._read(len(part)) == part
