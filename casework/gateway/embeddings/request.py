"""A client's request for vectors: a typed head that is looked at, and a tail that is passed on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from casework.config.privacy_profile import PrivacyProfile
from casework.errors import InvalidRequest

INPUTS_MAX: Final = 2048
"""Most texts in one request."""

WITHHELD: Final = frozenset({"api_key", "api_base", "base_url", "privacy_profile"})

Encoding: TypeAlias = Literal["float", "base64"]
"""How the client wants its vectors written."""

_READ_HERE: Final = frozenset({"model", "input", "encoding_format"})
_Members: TypeAlias = dict[str, msgspec.Raw]
_MEMBERS: Final = msgspec.json.Decoder(_Members)
_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw])
_TEXT: Final = msgspec.json.Decoder(str | None)
_TOKENS: Final = msgspec.json.Decoder(list[Annotated[int, msgspec.Meta(ge=0)]])


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
    """Read the body of a client's request; a text is kept as the bytes that it came in.

    Raises:
        InvalidRequest: It is no such request; ``where`` names the member, and no value is told.
    """
    members = _members_of(body)
    return EmbeddingRequest(
        model=_model(members),
        inputs=_inputs(members),
        encoding=_encoding(members),
        privacy_profile=_privacy_profile(members),
        members={
            name: bytes(value)
            for name, value in members.items()
            if name not in _READ_HERE and name not in WITHHELD
        },
        body_bytes=len(body),
        withheld=tuple(sorted(WITHHELD & members.keys())),
    )


def _members_of(body: bytes) -> _Members:
    try:
        body.decode("utf-8")
        return _MEMBERS.decode(body)
    except msgspec.ValidationError:
        raise InvalidRequest("the body is no JSON object", code="invalid_type") from None
    except (ValueError, RecursionError):
        raise InvalidRequest("the body is no JSON", code="invalid_json") from None


def _text(members: _Members, name: str) -> str | None:
    """Return a member that is a text; None where it is absent or null."""
    try:
        return _TEXT.decode(members.get(name, b"null"))
    except ValueError:
        raise _refused(name, "is no text", code="invalid_type") from None


def _model(members: _Members) -> str:
    model = _text(members, "model")
    if not model:
        raise _refused("model", "is missing", code="missing_required_parameter")
    return model


def _encoding(members: _Members) -> Encoding:
    match _text(members, "encoding_format"):
        case None | "float":
            return "float"
        case "base64":
            return "base64"
        case _:
            raise _refused("encoding_format", 'is neither "float" nor "base64"')


def _privacy_profile(members: _Members) -> PrivacyProfile | None:
    name = _text(members, "privacy_profile")
    try:
        return None if name is None else PrivacyProfile(name)
    except ValueError:
        raise _refused("privacy_profile", "is none of the profiles") from None


def _inputs(members: _Members) -> tuple[bytes, ...]:
    written = members.get("input")
    if written is None:
        raise _refused("input", "is missing", code="missing_required_parameter")
    raw = bytes(written)
    if not raw.startswith(b"["):
        _check_text(raw, "input")
        return (raw,)
    items = [bytes(item) for item in _LIST.decode(raw)]
    if not items:
        raise _refused("input", "is empty", code="empty_array")
    if not items[0].startswith((b'"', b"[")):
        _check_tokens(raw, "input")
        return (raw,)
    if len(items) > INPUTS_MAX:
        raise _refused("input", f"has more than {INPUTS_MAX} texts", code="array_above_max_length")
    check = _check_text if items[0].startswith(b'"') else _check_tokens
    for index, item in enumerate(items):
        check(item, f"input[{index}]")
    return tuple(items)


def _check_text(raw: bytes, where: str) -> None:
    if not raw.startswith(b'"'):
        raise _refused(where, "is no text", code="invalid_type")
    if raw == b'""':
        raise _refused(where, "is empty", code="empty_string")


def _check_tokens(raw: bytes, where: str) -> None:
    try:
        tokens = _TOKENS.decode(raw)
    except ValueError:
        raise _refused(where, "is no list of token numbers", code="invalid_type") from None
    if not tokens:
        raise _refused(where, "is empty", code="empty_array")


def _refused(where: str, what: str, *, code: str = "invalid_value") -> InvalidRequest:
    return InvalidRequest(f"it {what}", code=code, where=where)
