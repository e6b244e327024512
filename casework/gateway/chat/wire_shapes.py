"""What OpenAI's schemas demand of an answer and of a chunk, and what is looked at in a request.

A body that fits its shape needs nothing but the client's model string. Whatever a shape does not
name is neither read nor touched. One of the doors to the parser.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

import msgspec
from msgspec import Raw, Struct, UnsetType

UNSET: Final = msgspec.UNSET
"""Stands for a member that is not there."""

FinishReason: TypeAlias = Literal["stop", "length", "tool_calls", "content_filter", "function_call"]
Role: TypeAlias = Literal["system", "developer", "user", "assistant", "tool", "function"]
ROLES: Final[tuple[str, ...]] = get_args(Role)
ServiceTier: TypeAlias = Literal["auto", "default", "flex", "scale", "priority"]


class Part(Struct, gc=False):
    """A part of a message's content; which types there are is the server's business."""

    type: str


class RequestMessage(Struct, gc=False):
    """One turn of the conversation that a client sends."""

    role: Role
    content: str | list[Part | str] | UnsetType | None = UNSET


class PromptDetails(Struct, gc=False):
    """A breakdown of the prompt's tokens."""

    audio_tokens: int | UnsetType = UNSET
    cached_tokens: int | UnsetType = UNSET


class CompletionDetails(Struct, gc=False):
    """A breakdown of the answer's tokens."""

    accepted_prediction_tokens: int | UnsetType = UNSET
    audio_tokens: int | UnsetType = UNSET
    reasoning_tokens: int | UnsetType = UNSET
    rejected_prediction_tokens: int | UnsetType = UNSET


class UsageShape(Struct, gc=False):
    """Tokens as the server counted them."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails | UnsetType = UNSET
    completion_tokens_details: CompletionDetails | UnsetType = UNSET


class TopLogprob(Struct, gc=False):
    """One token that might have stood in the place."""

    token: str
    logprob: float
    bytes: list[int] | None


class TokenLogprob(TopLogprob, gc=False):
    """One token, and those that might have stood in its place."""

    top_logprobs: list[TopLogprob]


class Logprobs(Struct, gc=False):
    """How likely each token was."""

    content: list[TokenLogprob] | None
    refusal: list[TokenLogprob] | None


class Function(Struct, gc=False):
    """A function that the model calls."""

    name: str
    arguments: str


class FunctionCall(Struct, gc=False, tag_field="type", tag="function"):
    """A call of a function."""

    id: str
    function: Function


class CustomCall(Struct, gc=False, tag_field="type", tag="custom"):
    """A call of a tool that takes free text."""

    id: str
    custom: Raw


class Audio(Struct, gc=False):
    """A spoken answer."""

    id: str
    expires_at: int
    data: str
    transcript: str


class AnswerMessage(Struct, gc=False):
    """What the model wrote."""

    role: Literal["assistant"]
    content: str | None
    refusal: str | UnsetType | None = UNSET
    """Demanded, and left out by most servers; so is the next."""
    annotations: list[Raw] | UnsetType = UNSET
    tool_calls: list[FunctionCall | CustomCall] | UnsetType = UNSET
    function_call: Function | UnsetType = UNSET
    audio: Audio | UnsetType | None = UNSET
    reasoning_content: Raw | UnsetType = UNSET
    reasoning: Raw | UnsetType = UNSET


class PlacedChoice(Struct, gc=False):
    """A choice, of which only the place of its message is looked at."""

    message: Raw


class PlacedChoices(Struct, gc=False):
    """An answer, of which only the places of its messages are looked at."""

    choices: list[PlacedChoice]


class AnswerChoice(Struct, gc=False):
    """One of the answers asked for."""

    index: int
    finish_reason: FinishReason
    message: AnswerMessage
    logprobs: Logprobs | None


class AnswerShape(Struct, gc=False):
    """A whole answer."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: Raw
    choices: list[AnswerChoice]
    usage: UsageShape | UnsetType = UNSET
    service_tier: ServiceTier | UnsetType = UNSET
    system_fingerprint: str | UnsetType = UNSET
    error: UnsetType | None = UNSET


class FunctionFragment(Struct, gc=False):
    """What a chunk adds to a call of a function."""

    name: Raw | UnsetType = UNSET
    arguments: Raw | UnsetType = UNSET


class CallFragment(Struct, gc=False):
    """What a chunk adds to a tool call."""

    index: int
    id: Raw | UnsetType = UNSET
    type: Raw | UnsetType = UNSET
    function: FunctionFragment | UnsetType = UNSET


class Delta(Struct, gc=False):
    """What a chunk adds."""

    content: str | UnsetType | None = UNSET
    role: Literal["developer", "system", "user", "assistant", "tool"] | UnsetType = UNSET
    refusal: str | UnsetType | None = UNSET
    reasoning_content: Raw | UnsetType = UNSET
    reasoning: Raw | UnsetType = UNSET
    audio: Raw | UnsetType = UNSET
    tool_calls: list[CallFragment] | UnsetType = UNSET
    function_call: Raw | UnsetType = UNSET


class ChunkChoice(Struct, gc=False):
    """What a chunk says of one answer."""

    index: int
    delta: Delta
    finish_reason: FinishReason | None
    logprobs: Logprobs | UnsetType | None = UNSET


class ChunkShape(Struct, gc=False):
    """A chunk of a stream."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: Raw | UnsetType = UNSET
    service_tier: ServiceTier | UnsetType = UNSET
    system_fingerprint: str | UnsetType = UNSET
    error: UnsetType | None = UNSET


read_messages: Final = msgspec.json.Decoder(list[RequestMessage]).decode
read_answer: Final = msgspec.json.Decoder(AnswerShape).decode
read_places: Final = msgspec.json.Decoder(PlacedChoices).decode
read_chunk: Final = msgspec.json.Decoder(ChunkShape).decode
read_usage: Final = msgspec.json.Decoder(UsageShape).decode
read_logprobs: Final = msgspec.json.Decoder(Logprobs).decode
read_audio: Final = msgspec.json.Decoder(Audio).decode
