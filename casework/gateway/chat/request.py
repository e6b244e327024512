"""A client's chat request: a typed head that is looked at, and a tail that is only passed on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from casework.config.privacy_profile import PrivacyProfile
from casework.gateway.validation import CompiledSchema


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatRequest:
    """One request as a client sent it."""

    model: str
    """As the client wrote it; replies echo it."""
    members: Mapping[str, bytes] = field(repr=False)
    """What may be passed on, by member: each value is JSON, byte for byte as it came. Without
    ``model``, ``stream`` and ``stream_options``, and without what ``withheld`` names."""
    stream: bool = False
    include_usage: bool = False
    """Whether the client wants the usage at the end of a stream."""
    choices: int = 1
    """How many answers were asked for (``n``)."""
    schema: CompiledSchema | None = None
    """What each answer must satisfy, where ``response_format`` is a JSON schema."""
    privacy_profile: PrivacyProfile | None = None
    """Narrows the profile; a member of the body that is ours alone."""
    tokens_max: int | None = None
    """The request's own limit of the answer."""
    body_bytes: int = 0
    """Size of the body as it came."""
    withheld: tuple[str, ...] = ()
    """Members that are never passed on: addresses, credentials, and what is ours alone."""
