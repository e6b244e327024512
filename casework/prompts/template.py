"""The text files that prompts are made of: roles, and three named slots that are filled once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from importlib import resources
from pathlib import Path
from typing import Final, get_args

from casework.errors import InvalidRequest
from casework.gateway.messages import Role
from casework.strict_json import sha256_hex

BUILT_IN: Final = ("structured_json_v1", "case_interpretation_v1")
"""Names of the templates that come with Casework; a changed text gets a new name."""

TEMPLATE_BYTES_MAX: Final = 256 * 1024

_ROLES: Final[tuple[Role, ...]] = get_args(Role)
_ROLE_LINE: Final = re.compile(r"^--- (\w+) ---[ \t]*$", re.MULTILINE)
_SLOT: Final = re.compile(r"\{\{([a-z_]+)\}\}")


class Slot(StrEnum):
    """A place in a template, written ``{{name}}``."""

    TASK = "task"
    """What is wanted, in the words of the person who asks. Exactly once."""
    SCHEMA = "schema"
    """The JSON Schema of the answer, as canonical JSON. At most once."""
    DATA = "data"
    """The untrusted data with the two lines that enclose it. Exactly once, on a line of its own."""


_SLOTS: Final = {slot.value: slot for slot in Slot}


@dataclass(frozen=True, slots=True)
class Section:
    """One message of the prompt: text and slots in the order in which they stand."""

    role: Role
    pieces: tuple[str | Slot, ...]


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A template that was read and found sound."""

    version: str
    """The name that is recorded as the prompt's version."""
    sha256: str
    """Digest of the file's bytes, so that an edit under the same name is noticed."""
    sections: tuple[Section, ...]

    @classmethod
    def built_in(cls, name: str) -> PromptTemplate:
        """Read one of the templates that come with Casework.

        Raises:
            InvalidRequest: There is none of that name; code ``template_unknown``.
        """
        if name not in BUILT_IN:
            raise InvalidRequest(
                "there is no built-in prompt template of that name",
                code="template_unknown",
                remedy=f"use one of {', '.join(BUILT_IN)}, or the path of a file",
            )
        content = resources.files("casework.prompts").joinpath("templates", f"{name}.txt")
        return cls.parse(content.read_bytes(), version=name)

    @classmethod
    def read(cls, path: Path) -> PromptTemplate:
        """Read a template of the user's own; the file's stem becomes the version.

        Raises:
            InvalidRequest: The file cannot be read (code ``template_unreadable``) or is no sound
                template (code ``template_invalid``).
        """
        if path.exists() and not path.is_file():
            raise InvalidRequest(
                "the prompt template is no regular file",
                code="template_unreadable",
                where=str(path),
            )
        try:
            content = path.read_bytes()
        except OSError as error:
            raise InvalidRequest(
                f"the prompt template cannot be read: {error.strerror}",
                code="template_unreadable",
                where=str(path),
            ) from None
        return cls.parse(content, version=path.stem, where=str(path))

    @classmethod
    def parse(
        cls, content: bytes, *, version: str, where: str = "prompt template"
    ) -> PromptTemplate:
        """Split the bytes of a template file into messages and slots.

        A line ``--- system ---`` (or ``user``, ``assistant``) begins a message; a file without
        such a line is one user message. Braces that name no slot are text.

        Raises:
            InvalidRequest: A rule of :class:`Slot` or of the role lines is broken; code
                ``template_invalid``.
        """
        text = _decoded(content, where)
        sections = tuple(
            Section(_role(name, line, where), _pieces(body, line, where))
            for name, body, line in _split(text, where)
        )
        _demand_slots(sections, where)
        return cls(version, sha256_hex(content), sections)


def _decoded(content: bytes, where: str) -> str:
    if len(content) > TEMPLATE_BYTES_MAX:
        raise _invalid(f"a prompt template has at most {TEMPLATE_BYTES_MAX} bytes", where)
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise _invalid("a prompt template must be UTF-8", where) from None


def _split(text: str, where: str) -> list[tuple[str, str, int]]:
    """Return role name, trimmed body and line number of each message."""
    marks = list(_ROLE_LINE.finditer(text))
    if not marks:
        return [("user", text.strip("\n"), 1)]
    if text[: marks[0].start()].strip():
        raise _invalid("text stands before the first role line", f"{where}:1")
    ends = [mark.start() for mark in marks[1:]] + [len(text)]
    return [
        (mark[1], text[mark.end() : end].strip("\n"), text.count("\n", 0, mark.start()) + 1)
        for mark, end in zip(marks, ends, strict=True)
    ]


def _role(name: str, line: int, where: str) -> Role:
    for role in _ROLES:
        if role == name:
            return role
    raise _invalid(f"a role line names one of {', '.join(_ROLES)}", f"{where}:{line}")


def _pieces(body: str, line: int, where: str) -> tuple[str | Slot, ...]:
    if not body.strip():
        raise _invalid("a message has no text", f"{where}:{line}")
    parts = _SLOT.split(body)
    pieces: list[str | Slot] = []
    for index, part in enumerate(parts):
        if index % 2 == 0:
            pieces.append(part)
        elif part in _SLOTS:
            pieces.append(_SLOTS[part])
        else:
            names = ", ".join(f"{{{{{slot}}}}}" for slot in Slot)
            raise _invalid(f"an unknown slot; the slots are {names}", f"{where}:{line}")
    return tuple(piece for piece in pieces if piece)


def _demand_slots(sections: tuple[Section, ...], where: str) -> None:
    slots = [piece for section in sections for piece in section.pieces if isinstance(piece, Slot)]
    for slot in (Slot.TASK, Slot.DATA):
        if slots.count(slot) != 1:
            raise _invalid(f"the slot {{{{{slot}}}}} must stand exactly once", where)
    if slots.count(Slot.SCHEMA) > 1:
        raise _invalid("the slot {{schema}} may stand only once", where)
    if sections[-1].role != "user":
        raise _invalid("the last message must be the user's", where)
    for section in sections:
        if Slot.DATA in section.pieces:
            _demand_own_line(section, where)


def _demand_own_line(section: Section, where: str) -> None:
    """Untrusted text belongs into a user message, and its fences onto lines of their own."""
    at = section.pieces.index(Slot.DATA)
    before = section.pieces[at - 1] if at else "\n"
    after = section.pieces[at + 1] if at + 1 < len(section.pieces) else "\n"
    alone = str(before).endswith("\n") and str(after).startswith("\n")
    if section.role != "user" or not alone:
        raise _invalid("{{data}} must stand on a line of its own in a user message", where)


def _invalid(what: str, where: str) -> InvalidRequest:
    return InvalidRequest(what, code="template_invalid", where=where)
