"""A client's request for vectors: a typed head that is looked at, and a tail that is passed on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from casework.config.privacy_profile import PrivacyProfile
from casework.errors import InvalidRequest
from casework.gateway.chat.json_members import Members, is_list, is_null, is_text, items_of, text_of
from casework.gateway.chat.refusals import missing, out_of_range, wrong_type
from casework.gateway.chat.request_head import (
    WITHHELD_TOLD_MAX,
    model_of,
    privacy_profile_of,
    top_of,
)
from casework.gateway.chat.withheld import is_withheld, shown
from casework.gateway.embeddings.vectors import tokens_in

INPUTS_MAX: Final = 2048
"""Most texts in one request."""

Encoding: TypeAlias = Literal["float", "base64"]
"""How the client wants its vectors written."""

_READ_HERE: Final = frozenset({"model", "input", "encoding_format"})
"""Members that each call says anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingRequest:
    """One request as a client sent it."""

    model: str
    """As the client wrote it; replies echo it."""
    inputs: tuple[bytes, ...] = field(repr=False)
    """Each one JSON, byte for byte as it came: all of them texts, or all of them lists of token
    numbers."""
    members: Mapping[str, bytes] = field(repr=False)
    """What else may be passed on, by member: each value is JSON, byte for byte as it came.
    Without ``model``, ``input`` and ``encoding_format``, and without what ``withheld`` names."""
    encoding: Encoding = "float"
    privacy_profile: PrivacyProfile | None = None
    """Narrows the profile; a member of the body that is ours alone."""
    body_bytes: int = 0
    """Size of the body as it came."""
    withheld: tuple[str, ...] = ()
    """Members that are never passed on: addresses, credentials, and what is ours alone."""

    @property
    def of_tokens(self) -> bool:
        """Tell whether the inputs are lists of token numbers."""
        return self.inputs[0].startswith(b"[")


def read_embedding_request(body: bytes) -> EmbeddingRequest:
    """Read a client's request; of a member that stands twice the last counts.

    Raises:
        InvalidRequest: The body is no such request. ``where`` names the member, ``code`` the kind
            of mistake; neither holds a value.
    """
    top = top_of(body)
    members: dict[str, bytes] = {}
    withheld: list[str] = []
    for name, value in top.items():
        if name in _READ_HERE:
            continue
        if is_withheld(name):
            withheld.append(shown(name))
        else:
            members[name] = bytes(value)
    return EmbeddingRequest(
        model=model_of(top),
        inputs=_inputs(top),
        members=members,
        encoding=_encoding(top),
        privacy_profile=privacy_profile_of(top, body),
        body_bytes=len(body),
        withheld=tuple(withheld[:WITHHELD_TOLD_MAX]),
    )


def _encoding(top: Members) -> Encoding:
    value = top.get("encoding_format")
    if value is None or is_null(value):
        return "float"
    if not is_text(value):
        raise wrong_type("encoding_format", "a string or null")
    match text_of(value):
        case "float":
            return "float"
        case "base64":
            return "base64"
        case _:
            raise out_of_range("encoding_format", "use float or base64")


def _inputs(top: Members) -> tuple[bytes, ...]:
    value = top.get("input")
    if value is None:
        raise missing("input")
    if is_text(value):
        return (_text(bytes(value), "input"),)
    if not is_list(value):
        raise wrong_type("input", "a string, a list of strings, tokens, or a list of tokens each")
    items = [bytes(item) for item in items_of(value)]
    if not items:
        raise _empty("input", "empty_array")
    if not items[0].startswith((b'"', b"[")):
        return (_tokens(bytes(value), "input"),)
    if len(items) > INPUTS_MAX:
        raise InvalidRequest(
            "the list is too long",
            code="array_above_max_length",
            where="input",
            remedy=f"send at most {INPUTS_MAX} texts at once",
        )
    read = _text if items[0].startswith(b'"') else _tokens
    return tuple(read(item, f"input[{position}]") for position, item in enumerate(items))


def _text(value: bytes, where: str) -> bytes:
    if not value.startswith(b'"'):
        raise wrong_type(where, "a string, as the first one is")
    if value == b'""':
        raise _empty(where, "empty_string")
    return value


def _tokens(value: bytes, where: str) -> bytes:
    count = tokens_in(value)
    if count is None:
        raise wrong_type(where, "a list of token numbers")
    if not count:
        raise _empty(where, "empty_array")
    return value


def _empty(where: str, code: str) -> InvalidRequest:
    return InvalidRequest(
        "there is nothing to embed", code=code, where=where, remedy="send a text that is not empty"
    )
