"""What a distribution's metadata declares about its licence, cut out and kept apart."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from casework.strict_json import JSON, JSONObject, text_or_none

_HEADER: Final = re.compile(r"([A-Za-z][A-Za-z0-9-]*):[ \t]*(.*)")
_LICENCE_CLASSIFIER: Final = re.compile(r"License\s*::", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DeclaredLicence:
    """The three places in which metadata may name a licence."""

    expression: str | None = None
    """``License-Expression``, an SPDX expression."""
    licence: str | None = None
    """``License``, free text, sometimes a whole licence."""
    classifiers: tuple[str, ...] = ()
    """Those that begin with ``License ::``."""

    def to_json(self) -> JSONObject:
        """Return the declaration as it stands in the answer key."""
        return {
            "expression": self.expression,
            "license": self.licence,
            "classifiers": list(self.classifiers),
        }

    @classmethod
    def from_json(cls, value: JSON) -> DeclaredLicence:
        """Read a declaration from the answer key; what is odd counts as not declared."""
        if not isinstance(value, dict):
            return cls()
        classifiers = value.get("classifiers")
        return cls(
            text_or_none(value.get("expression")),
            text_or_none(value.get("license")),
            tuple(c for c in classifiers if isinstance(c, str))
            if isinstance(classifiers, list)
            else (),
        )


@dataclass(frozen=True, slots=True)
class CutMetadata:
    """Metadata without its declaration, and the declaration."""

    name: str | None
    version: str | None
    rest: str
    """Every other line, in order, as it was."""
    declared: DeclaredLicence


def cut_metadata(metadata: str) -> CutMetadata:
    """Take every header that declares the licence out of a METADATA or PKG-INFO text.

    Names of licence files stay, and so does the description, which may speak of the licence: it is
    what a reader of the project sees.
    """
    lines = metadata.splitlines(keepends=True)
    end = next((n for n, line in enumerate(lines) if not line.strip("\r\n")), len(lines))
    rest: list[str] = []
    values: dict[str, list[str]] = {}
    for header in _unfolded(lines[:end]):
        name, value = _name_and_value(header)
        values.setdefault(name, []).append(value)
        if not _declares(name, value):
            rest.extend(header)
    licences = [value for value in values.get("license", []) if value.strip()]
    classifiers = [v for v in values.get("classifier", []) if _declares("classifier", v)]
    declared = DeclaredLicence(
        _first(values, "license-expression"), "\n".join(licences) or None, tuple(classifiers)
    )
    body = "".join(lines[end:])
    return CutMetadata(
        _first(values, "name"), _first(values, "version"), "".join(rest) + body, declared
    )


def _unfolded(lines: list[str]) -> list[list[str]]:
    """Group header lines with the lines that continue them."""
    headers: list[list[str]] = []
    for line in lines:
        if headers and line.startswith((" ", "\t")):
            headers[-1].append(line)
        else:
            headers.append([line])
    return headers


def _name_and_value(header: list[str]) -> tuple[str, str]:
    found = _HEADER.match(header[0])
    if found is None:
        return "", ""
    return found[1].lower(), "".join([found[2], "\n", *header[1:]]).strip()


def _declares(name: str, value: str) -> bool:
    if name == "classifier":
        return _LICENCE_CLASSIFIER.match(value) is not None
    return name in {"license", "license-expression"}


def _first(values: dict[str, list[str]], name: str) -> str | None:
    return next((value for value in values.get(name, []) if value), None)
