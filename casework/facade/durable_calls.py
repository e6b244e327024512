"""Calls that are kept: what is asked of whoever records them, and the headers that ask for it.

A call with an ``Idempotency-Key`` is asked once, whatever happens to the client, the connection or
this process; the same call with the same key gets the same reply again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from casework.errors import InvalidRequest
from casework.facade.errors import ErrorReply
from casework.gateway.chat.answers import ChatAnswer
from casework.gateway.chat.request import ChatRequest
from casework.gateway.outcomes import Answered, RoundErred, RoundUnavailable
from casework.gateway.scope import Scope

KEY_HEADER: Final = b"idempotency-key"
CASE_HEADER: Final = b"x-casework-case"
OPERATION_HEADER: Final = b"x-casework-operation"

CHARACTERS_MAX: Final = 255
"""Longest key, case or operation that a client may name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DurableKey:
    """Under which name a call is kept."""

    client: str
    """The label of the client's key, so that the keys of two clients never meet."""
    idempotency_key: str
    case_id: str | None = None
    """The case that the call belongs to; None makes it a case of its own."""
    operation: str | None = None
    """What the call is named in its case; None names it like its key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAnswer:
    """The call has an answer, and it is recorded."""

    body: bytes = field(repr=False)
    """The reply to the client, the same bytes each time; the client's model is echoed."""
    provider: str
    """Who answered, now or when the call was made."""
    model: str
    """As the server knows it."""
    dropped: tuple[str, ...] = ()
    """Members of the request that the server was not sent, or only in other terms."""
    walked: Answered[ChatAnswer] | None = None
    """The round that was walked now; None where the answer was recorded before, so that nobody
    was asked and nothing is to be paid."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptRefusal:
    """The client gets no answer, and is told why."""

    reply: ErrorReply
    walked: RoundErred | RoundUnavailable | None = None
    """The round that was walked now, where one was."""


KeptReply: TypeAlias = KeptAnswer | KeptRefusal


class DurableCalls(Protocol):
    """Makes calls and keeps what they came to."""

    async def answer(self, request: ChatRequest, *, scope: Scope, key: DurableKey) -> KeptReply:
        """Return what is recorded under the key, or make the call and record what it came to.

        Whatever the disk, the store or the round says becomes a refusal. If the caller is cancelled
        during the call, nothing is recorded, and the same key makes the call again.

        Args:
            request: What is asked; never a stream.
            scope: What it may reach, and its deadline, in which the disk has its share.
            key: Under which name it is kept.

        Raises:
            CaseworkError: The request cannot be asked as it stands; nothing was called or written.
        """


def durable_key(headers: Mapping[bytes, bytes], *, client: str, stream: bool) -> DurableKey | None:
    """Return under which name a call is to be kept; None for a call that is not.

    Args:
        headers: Of the request, names in lower case.
        client: The label of the client's key.
        stream: Whether a stream is asked for.

    Raises:
        InvalidRequest: A header cannot be read, or asks for what is not done.
    """
    key = headers.get(KEY_HEADER)
    if key is None:
        for header in (CASE_HEADER, OPERATION_HEADER):
            if header in headers:
                raise _invalid(header, "the header says nothing by itself", "send Idempotency-Key")
        return None
    if stream:
        raise InvalidRequest(
            "a stream cannot be kept: it reaches the client before its end is known",
            code="idempotency_stream",
            where=KEY_HEADER.decode(),
            remedy='send "stream": false with the key, or the stream without it',
        )
    return DurableKey(
        client=client,
        idempotency_key=_named(KEY_HEADER, key),
        case_id=_optional(headers, CASE_HEADER),
        operation=_optional(headers, OPERATION_HEADER),
    )


def _optional(headers: Mapping[bytes, bytes], header: bytes) -> str | None:
    value = headers.get(header)
    return None if value is None else _named(header, value)


def _named(header: bytes, value: bytes) -> str:
    """Read a name: some characters of UTF-8, none of which is invisible."""
    try:
        text = value.decode("utf-8").strip()
    except UnicodeDecodeError:
        text = None
    # Raised out here, where an error that holds the value is no longer at hand.
    if text is None:
        raise _invalid(header, "the header is not UTF-8", "write it in ASCII")
    if not text or len(text) > CHARACTERS_MAX or not text.isprintable():
        raise _invalid(
            header,
            "the header holds no name that can be kept",
            f"send 1 to {CHARACTERS_MAX} printable characters",
        )
    return text


def _invalid(header: bytes, message: str, remedy: str) -> InvalidRequest:
    return InvalidRequest(message, code="invalid_header", where=header.decode(), remedy=remedy)
