"""What is asked of a chat model for a client who waits, and what it gives back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from casework.gateway.clock import Deadline
from casework.gateway.messages import Credential


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatCall:
    """What one adapter is given for one remote call."""

    model: str
    """As the server knows it."""
    members: Mapping[str, bytes] = field(repr=False)
    """The client's request, by member: each value is JSON, byte for byte as it came. Without
    ``model``, ``stream`` and ``stream_options``, and without what is ours alone."""
    stream: bool = False
    alone: bool = False
    """Whether the call gets a connection that serves no other one: its answer will be recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatReply:
    """What one call brought back, before anybody believes it."""

    body: bytes = field(repr=False)
    """A chat completion as the server wrote it, unpacked."""
    dropped: tuple[str, ...] = ()
    """Members of the request that the server was not sent, or only in other terms."""


class EventStream(Protocol):
    """The events of one streamed call, as the server sends them."""

    dropped: tuple[str, ...]
    """Members of the request that the server was not sent, or only in other terms."""

    def events(self) -> AsyncIterator[list[bytes]]:
        """Yield the data of events in the order of their arrival, in lists of what came at once.

        Ends where the server ends the stream, with or without ``[DONE]``, which is among the
        events. May be called once.

        Raises:
            ProviderFailure: The connection broke, or an event is longer than allowed.
        """

    def close(self) -> None:
        """Close the connection, at once and without waiting; harmless after the end."""


@runtime_checkable
class ChatProvider(Protocol):
    """An adapter that speaks chat itself. One call a method, never a second.

    One that always ends by the deadline, and at once when cancelled, may say so by an attribute
    ``keeps_deadlines = True``; its calls then need no task of their own.
    """

    async def chat(
        self, call: ChatCall, /, *, credential: Credential | None, deadline: Deadline
    ) -> ChatReply:
        """Ask for a whole answer.

        Raises:
            ProviderFailure: The call failed.
        """

    async def open_stream(
        self, call: ChatCall, /, *, credential: Credential | None, deadline: Deadline
    ) -> EventStream:
        """Ask for a stream, and return once the server has accepted; no event was read yet.

        The deadline holds until then. Whoever gets the stream closes it.

        Raises:
            ProviderFailure: The call failed.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingCall:
    """Texts to be turned into vectors by one remote call."""

    model: str
    """As the server knows it."""
    inputs: tuple[bytes, ...] = field(repr=False)
    """Each one JSON: a string, or a list of token numbers."""
    members: Mapping[str, bytes] = field(repr=False)
    """Further members of the request, such as ``dimensions``; without ``model``, ``input`` and
    ``encoding_format``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingReply:
    """What one call brought back, before anybody believes it."""

    body: bytes = field(repr=False)
    """A list of embeddings as the server wrote it, unpacked."""
    dropped: tuple[str, ...] = ()
    """Members of the request that the server was not sent, or only in other terms."""


@runtime_checkable
class EmbeddingProvider(Protocol):
    """An adapter that can embed. One call a method, never a second."""

    async def embed(
        self, call: EmbeddingCall, /, *, credential: Credential | None, deadline: Deadline
    ) -> EmbeddingReply:
        """Ask for the vectors of all texts.

        Raises:
            ProviderFailure: The call failed.
        """


@runtime_checkable
class ListingProvider(Protocol):
    """An adapter whose server can say which models it has."""

    async def models(self, *, credential: Credential | None, deadline: Deadline) -> tuple[str, ...]:
        """Return the names of the models, as the server knows them.

        Raises:
            ProviderFailure: The call failed.
        """
