"""Finding packages: by case id, by folder, by ZIP, or all of a project."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path

from casework.checkpoints.names import PACKAGE_FILE
from casework.errors import PackageNotFound
from casework.runtime.project import Project
from casework.runtime.workspace import existing_store


def package_at(target: str, project: Project) -> Path:
    """Return the folder or ZIP that a person means: a package's place, or a case id.

    Raises:
        PackageNotFound: It is neither.
        ConfigurationError: It can only be a case id, and there are no cases here.
    """
    path = Path(target)
    if _is_package(path):
        return path
    if not project.runtime.is_dir() and path.exists():
        raise PackageNotFound(
            "is neither a package's folder nor a ZIP", where=target, remedy="name the package"
        )
    folder = existing_store(project).package_folder(target)
    if not folder.is_dir():
        raise PackageNotFound(
            "there is no such case, package folder or ZIP",
            where=target,
            remedy="case ids are shown by `casework inbox list` and `casework export`",
        )
    return folder


def all_packages(project: Project) -> Iterator[Path]:
    """Yield the folder of every package of a project, damaged ones too.

    Raises:
        ConfigurationError: There are no cases here.
    """
    existing_store(project)
    for spread in sorted((project.runtime / "cases").glob("*")):
        for folder in sorted(spread.glob("*")):
            if folder.is_dir():
                yield folder


def _is_package(path: Path) -> bool:
    try:
        if path.is_dir():
            return (path / PACKAGE_FILE).is_file() or (path / "commits").is_dir()
        return path.suffix.lower() == ".zip" or (path.is_file() and zipfile.is_zipfile(path))
    except (OSError, ValueError):
        return False
