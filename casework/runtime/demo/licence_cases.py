"""Each installed distribution as a case: metadata without the answer, and licence files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import Distribution, distributions
from pathlib import PurePosixPath
from typing import Final

from casework.runner.documents import (
    Document,
    Problem,
    ProblemCode,
    RawFile,
    ReadFile,
    Refusal,
    make_document,
    read_file,
)
from casework.runner.documents.file_walk import fit
from casework.runtime.demo.declared_licence import DeclaredLicence, cut_metadata
from casework.strict_json import sha256_hex

EXCERPT_NAME: Final = "licence_excerpt.txt"
"""Product of a case: the beginning of its first licence file, short enough for a tiny model."""

EXCERPT_CHARACTERS: Final = 600
FILES_MAX: Final = 40
FILE_BYTES_MAX: Final = 256 * 1024

_METADATA_NAMES: Final = ("METADATA", "PKG-INFO")
_LICENCE_NAME: Final = re.compile(r"licen[cs]e|copying|copyright|notice", re.IGNORECASE)
_LOOSE_NAMES: Final = tuple(
    stem + ending
    for stem in ("LICENSE", "LICENCE", "COPYING", "NOTICE")
    for ending in ("", ".txt", ".md", ".rst")
)
"""What is looked for where a distribution lists no files."""


@dataclass(frozen=True, slots=True)
class LicenceCase:
    """One distribution: the document to ask about, and what was taken out of it."""

    document: Document
    declared: DeclaredLicence


def collect_cases(
    found: Iterable[Distribution] | None = None,
) -> Iterator[LicenceCase | Refusal]:
    """Yield a case for each distribution, sorted by name; of two with one name, the first found.

    The same environment always gives the same cases with the same bytes. A distribution that was
    installed from a folder has a digest in its id, since its files may change under one version.

    Args:
        found: The distributions; by default those of the running interpreter.
    """
    read = [_case(distribution) for distribution in (distributions() if found is None else found)]
    chosen: dict[str, LicenceCase | Refusal] = {}
    for key, case in read:
        chosen.setdefault(key, case)
    for key in sorted(chosen):
        yield chosen[key]


def _case(distribution: Distribution) -> tuple[str, LicenceCase | Refusal]:
    """Return the normalised name by which duplicates are known, and the case."""
    metadata_name, metadata = _metadata(distribution)
    cut = cut_metadata(metadata)
    if not cut.name or not cut.version:
        message = "an installed distribution has no readable name or version"
        key = sha256_hex(metadata.encode("utf-8", "replace"))
        return f"~{key}", Refusal(Problem(ProblemCode.UNREADABLE, "distribution", message))
    source = fit(f"{cut.name} {cut.version}")
    raws = [RawFile(metadata_name, cut.rest.encode("utf-8", "replace"), source)]
    problems: list[Problem] = []
    for item in _licence_files(distribution, source):
        if isinstance(item, Problem):
            problems.append(item)
        else:
            raws.append(item)
    files: list[ReadFile] = []
    for raw in raws:
        file = read_file(raw)
        if isinstance(file, Problem):
            problems.append(file)
        else:
            files.append(file)
    case_id = fit(f"{cut.name}-{cut.version}") + _suffix(distribution, raws)
    document = make_document(case_id, files, source=source, problems=problems)
    excerpt = _excerpt(files[1:])
    if excerpt:
        derived = {**document.derived, EXCERPT_NAME: excerpt.encode("utf-8")}
        document = replace(document, derived=derived)
    key = re.sub(r"[-_.]+", "-", cut.name).lower()
    return key, LicenceCase(document, cut.declared)


def _metadata(distribution: Distribution) -> tuple[str, str]:
    for name in _METADATA_NAMES:
        try:
            text = distribution.read_text(name)
        except UnicodeDecodeError:
            continue
        if text:
            return name, text
    return _METADATA_NAMES[0], ""


def _licence_files(distribution: Distribution, source: str) -> Iterator[RawFile | Problem]:
    listed = distribution.files
    if listed is None:
        for name in _LOOSE_NAMES:
            text = distribution.read_text(name)
            if text:
                yield RawFile(name, text.encode("utf-8"), source)
        return
    own = sorted(filter(None, (_name_inside(PurePosixPath(path)) for path in listed)))
    for folder, name in own[:FILES_MAX]:
        content = _bounded(distribution, f"{folder}/{name}")
        if content is None:
            message = "a licence file is missing, or larger than the demonstration reads"
            yield Problem(ProblemCode.UNREADABLE, fit(f"{source}: {name}"), message)
        else:
            yield RawFile(fit(name), content, fit(f"{source}: {name}"))


def _name_inside(path: PurePosixPath) -> tuple[str, str] | None:
    """Return the metadata folder and the name below it, for a file that speaks of a licence."""
    folder, *rest = path.parts
    if not folder.endswith((".dist-info", ".egg-info")) or not rest or ".." in rest:
        return None
    return (folder, "/".join(rest)) if _LICENCE_NAME.search(rest[-1]) else None


def _bounded(distribution: Distribution, path: str) -> bytes | None:
    try:
        with open(str(distribution.locate_file(path)), "rb") as stream:  # noqa: PTH123 - any path
            content = stream.read(FILE_BYTES_MAX + 1)
    except OSError:
        return None
    return content if len(content) <= FILE_BYTES_MAX else None


def _suffix(distribution: Distribution, raws: list[RawFile]) -> str:
    try:
        from_folder = distribution.read_text("direct_url.json")
    except UnicodeDecodeError:
        from_folder = None
    if not from_folder:
        return ""
    return "+" + sha256_hex(b"\0".join(raw.content for raw in raws))[:8]


def _excerpt(licences: list[ReadFile]) -> str:
    """Return the beginning of the first licence; a notice is taken only where there is none."""
    ordered = sorted(licences, key=lambda file: "notice" in file.entry.name.lower())
    for file in ordered:
        if file.entry.coverage.characters:
            return file.text.lstrip()[:EXCERPT_CHARACTERS]
    return ""
