"""What is asked of a model and what it gave back, as plain records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Literal, TypeAlias

from casework.config.privacy_profile import PrivacyProfile
from casework.strict_json import JSON, JSONObject

Role: TypeAlias = Literal["system", "user", "assistant"]


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of a conversation."""

    role: Role
    content: str

    def to_json(self) -> JSONObject:
        """Return the message as it is stored and sent."""
        return {"role": self.role, "content": self.content}


def bytes_of(messages: Iterable[Message]) -> int:
    """Return the size of the messages' content in UTF-8."""
    return sum(len(message.content.encode("utf-8")) for message in messages)


@dataclass(frozen=True, slots=True)
class DataSpan:
    """Where the document stands inside the messages: ``messages[message].content[start:end]``."""

    message: int
    start: int
    end: int

    def to_json(self) -> JSONObject:
        """Return the span as it is stored."""
        return {"message": self.message, "start": self.start, "end": self.end}


class OnInvalidOutput(StrEnum):
    """What a round does after an answer that cannot be used. Nothing is ever repaired."""

    ERROR = "error"
    """End in a controlled error."""
    REASK = "reask"
    """Ask the same target once more, and say which rule the answer broke."""
    NEXT_PROVIDER = "next_provider"
    """Go on to the next target."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestLimits:
    """How often and how long a request is tried; None leaves what is configured."""

    rounds_max: int | None = None
    retry_delay_seconds: float | None = None
    timeout_seconds: float | None = None
    """Longest time for one call, whichever target is asked."""
    on_invalid_output: OnInvalidOutput = OnInvalidOutput.ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class LLMRequest:
    """One request, the same for whichever target answers it.

    It names no provider, no model and no address, and has no field for a credential.
    """

    messages: tuple[Message, ...]
    output_schema: JSONObject
    """JSON Schema (draft 2020-12, local references only) that the answer must satisfy."""
    schema_name: str = "answer"
    prompt_version: str
    """Name of the template, like ``structured_json_v1``."""
    prompt_sha256: str
    """Digest of the template file's bytes."""
    parameters: Mapping[str, JSON] = field(default_factory=dict)
    """Sampling parameters; the names allowed stand in ``PARAMETERS``."""
    privacy_profile: PrivacyProfile | None = None
    """Narrows the configured profile; None leaves it."""
    data: DataSpan | None = None
    limits: RequestLimits = field(default_factory=RequestLimits)
    """Not sent to anybody; part of the configuration that a round is planned under."""


PARAMETERS = frozenset(
    {
        "temperature",
        "top_p",
        "max_tokens",
        "seed",
        "stop",
        "presence_penalty",
        "frequency_penalty",
        "reasoning_effort",
    }
)


@dataclass(frozen=True, slots=True)
class Credential:
    """A key lent to one call; only its label is ever shown."""

    label: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderCall:
    """What one adapter is given for one remote call."""

    model: str
    messages: tuple[Message, ...]
    output_schema: JSONObject
    schema_name: str
    parameters: Mapping[str, JSON]
    data: DataSpan | None


class Finish(StrEnum):
    """Why the model stopped writing."""

    STOP = "stop"
    LENGTH = "length"
    """The token limit cut the answer off."""
    REFUSED = "refused"
    """A content filter or the model itself declined."""
    UNKNOWN = "unknown"
    """The server did not say."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens counted by the server; None where it did not say, never 0 instead."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None

    def to_json(self) -> JSONObject:
        """Return the counts as they are stored."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.total_tokens,
        }


@dataclass(frozen=True, slots=True)
class Cost:
    """Money, exact, in one currency; costs of different currencies are never added."""

    amount: Decimal
    currency: str

    def to_json(self) -> JSONObject:
        """Return the cost as it is stored: the amount as a decimal string."""
        return {"amount": format(self.amount, "f"), "currency": self.currency}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderReply:
    """What one remote call brought back, before anybody believes it."""

    text: str
    finish: Finish
    usage: Usage | None = None
