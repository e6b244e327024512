"""The readable text of a mail: its headers, the text somebody wrote, and what was attached.

The standard library takes a mail apart and never refuses one; what its parts say about themselves
is read here, because half of all odd mails are odd in exactly that.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.message import Message
from email.parser import BytesParser
from email.policy import compat32
from typing import Final

from casework.runner.documents.decoding import Undecodable, decode
from casework.runner.documents.document import ProblemCode
from casework.runner.documents.html_text import html_to_text
from casework.runner.documents.mail_headers import (
    decoded_text,
    header_text,
    parameter,
    structured_header,
)

HEADERS: Final = ("From", "To", "Cc", "Subject", "Date", "Message-ID")
NESTED_MAX: Final = 100
"""Most parts with parts of their own; the time to take a mail apart grows with their number."""

ATTACHMENTS_LISTED_MAX: Final = 1000

_TEXTS: Final = frozenset({"text/plain", "text/html", "text/markdown", "text/enriched"})
_NESTS: Final = re.compile(
    rb"^content-type:\s*(?:multipart|message)/", re.IGNORECASE | re.MULTILINE
)
_QUOTED_FROM: Final = re.compile(rb"^>(?=>*From )", re.MULTILINE)
_FIRST_LINE: Final = re.compile(rb"From [^\n]*\n?")


@dataclass(slots=True)
class MailText:
    """A mail as models read it, and what was noticed."""

    text: str = ""
    encoding: str = "us-ascii"
    """How the first text part was decoded."""
    findings: list[tuple[ProblemCode, str]] = field(default_factory=list)
    surrogates_replaced: int = 0

    def note(self, code: ProblemCode, message: str) -> None:
        """Take up a remark, once."""
        if (code, message) not in self.findings:
            self.findings.append((code, message))


def read_mail(
    content: bytes, *, in_mailbox: bool, encoding: str | None = None
) -> MailText | Undecodable:
    """Read one mail; broken parts are read as far as they can be, and remarked on.

    Args:
        content: The mail as it was found.
        in_mailbox: It is from a mailbox: begins with the mailbox's own line, and lines of the mail
            that look like one are quoted by ``>``.
        encoding: How texts are decoded that name no character set; None lets their bytes decide.
    """
    if in_mailbox:
        first = _FIRST_LINE.match(content)
        content = _QUOTED_FROM.sub(b"", content[first.end() if first else 0 :])
    mail = MailText()
    if len(_NESTS.findall(content)) > NESTED_MAX:
        mail.note(ProblemCode.MAIL_DAMAGED, "has too many parts inside of parts to be taken apart")
        head, _, body = content.replace(b"\r\n", b"\n").partition(b"\n\n")
        content = _NESTS.sub(b"x-was: ", head) + b"\n\n" + body
    message = BytesParser(policy=compat32).parsebytes(content)
    headers = list(_headers(message, mail))
    if not message.keys() and isinstance(refused := decode(content), Undecodable) and content:
        return refused
    parts = _Parts(mail, message, encoding)
    texts = parts.texts(message)
    pieces = ["".join(headers), *texts, parts.listed()]
    mail.text = "\n".join(_ended(piece) for piece in pieces if piece.strip())
    return mail


@dataclass(slots=True)
class _Parts:
    mail: MailText
    root: Message
    encoding: str | None
    _attachments: list[str] = field(default_factory=list)
    _first: bool = True

    def texts(self, part: Message) -> list[str]:
        """Return the texts of a part in order, and list what is no text."""
        kind, parameters = structured_header(_raw(part, "Content-Type") or "text/plain")
        inner = part.get_payload() if part.is_multipart() else None
        if isinstance(inner, list) and kind.startswith("multipart/"):
            children = [child for child in inner if isinstance(child, Message)]
            if kind == "multipart/alternative":
                return self._best(children)
            return [text for child in children for text in self.texts(child)]
        if kind.startswith("multipart/"):
            self.mail.note(ProblemCode.MAIL_DAMAGED, "the borders of its parts cannot be found")
            kind = "text/plain"
        name = self._name(part, parameters)
        disposition, _ = structured_header(_raw(part, "Content-Disposition") or "")
        is_text = kind in _TEXTS or "/" not in kind
        if not is_text or disposition == "attachment" or (name and part is not self.root):
            self._attach(name, kind, part)
            return []
        text = self._decoded(part, parameters)
        return [html_to_text(text) if kind == "text/html" else text]

    def listed(self) -> str:
        """Return the list of attachments, or nothing."""
        if not self._attachments:
            return ""
        shown = self._attachments[:ATTACHMENTS_LISTED_MAX]
        more = len(self._attachments) - len(shown)
        rest = [f"- and {more} more"] if more else []
        return "\n".join(["Attachments:", *shown, *rest])

    def _best(self, children: list[Message]) -> list[str]:
        """Return the plain version of a text where there is one that is not empty."""
        versions = [(_kind(child), self.texts(child)) for child in children]
        full = [version for version in versions if "".join(version[1]).strip()]
        plain = [version for version in full if version[0] == "text/plain"]
        return next((texts for _, texts in (*plain, *full)), [])

    def _attach(self, name: str | None, kind: str, part: Message) -> None:
        size = sum(len(_payload(leaf)) for leaf in part.walk() if not leaf.is_multipart())
        shown = f'"{name}"' if name else "without a name"
        self._attachments.append(f"- {shown} ({kind}, {size} bytes)")

    def _name(self, part: Message, parameters: dict[str, str]) -> str | None:
        _, of_disposition = structured_header(_raw(part, "Content-Disposition") or "")
        return parameter(of_disposition, "filename") or parameter(parameters, "name")

    def _decoded(self, part: Message, parameters: dict[str, str]) -> str:
        charset = parameters.get("charset")
        damaged = _raw(part, "Content-Type") if charset is not None else None
        found = decoded_text(_payload(part), charset, damaged, encoding=self.encoding)
        for code, message in found.findings:
            self.mail.note(code, message)
        if self._first:
            self.mail.encoding = found.encoding
            self._first = False
        self.mail.surrogates_replaced += found.surrogates_replaced
        return found.text.replace("\r\n", "\n")


def _headers(message: Message, mail: MailText) -> Iterator[str]:
    for wanted in HEADERS:
        for name, raw in message.raw_items():
            if name.lower() == wanted.lower():
                found = header_text(str(raw))
                for code, remark in found.findings:
                    mail.note(code, remark)
                yield f"{wanted}: {found.text}\n"


def _raw(part: Message, wanted: str) -> str | None:
    for name, raw in part.raw_items():
        if name.lower() == wanted.lower():
            return str(raw)
    return None


def _kind(part: Message) -> str:
    return structured_header(_raw(part, "Content-Type") or "text/plain")[0]


def _payload(part: Message) -> bytes:
    # The library looks for a character set even where it is asked for bytes, and trips over some.
    del part["Content-Type"]
    content = part.get_payload(decode=True)
    return content if isinstance(content, bytes) else b""


def _ended(text: str) -> str:
    return text if text.endswith("\n") else f"{text}\n"
