"""A provider that plays a script: for tests, demonstrations and rehearsals of failures."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Final, Literal, NoReturn, Self, TypeAlias, assert_never

from pydantic import BaseModel, ConfigDict, Field, JsonValue, Strict, ValidationError

from casework.config.providers import ProviderConfig
from casework.errors import ConfigurationError
from casework.gateway.chat.calls import (
    ChatCall,
    ChatReply,
    EmbeddingCall,
    EmbeddingReply,
    EventStream,
)
from casework.gateway.chat.text_calls import Told, ToldEvents, text_call
from casework.gateway.clock import Clock, Deadline, SystemClock
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.messages import Credential, Finish, ProviderCall, ProviderReply, Usage
from casework.gateway.providers.adapter_file import read_adapter_file
from casework.strict_json import InvalidJSON, canonical, parse

SCRIPT_BYTES_MAX: Final = 16 * 1024 * 1024
CALLS_KEPT_MAX: Final = 10_000


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer with this text."""

    text: str
    finish: Finish = Finish.STOP
    usage: Usage | None = None


@dataclass(frozen=True, slots=True)
class Computed:
    """Answer with the text that a function makes of the call."""

    answer: Callable[[ProviderCall], str]


@dataclass(frozen=True, slots=True)
class Fail:
    """Fail in this way."""

    kind: FailureKind
    http_status: int | None = None
    retry_after_seconds: float | None = None
    sent: bool = True


@dataclass(frozen=True, slots=True)
class Delay:
    """Wait on the clock first; past the deadline the call times out."""

    seconds: float
    then: Step


@dataclass(frozen=True, slots=True)
class Hang:
    """Never answer: wait until the deadline and time out."""


@dataclass(frozen=True, slots=True)
class Held:
    """Wait for an event first, without a look at the clock; cancellation ends the wait."""

    until: asyncio.Event
    then: Step


@dataclass(frozen=True, slots=True)
class ChatBody:
    """Answer chat with this body, whatever it is."""

    body: bytes = field(repr=False)
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Vectors:
    """Answer a call for embeddings with this body, whatever it is."""

    body: bytes = field(repr=False)
    dropped: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait on the clock before the next event of a stream."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Until:
    """Wait for something before the next event of a stream, without a look at the clock."""

    happened: asyncio.Event


@dataclass(frozen=True, slots=True)
class Silence:
    """Send no further event until the stream is closed."""


@dataclass(frozen=True, slots=True)
class Break:
    """Break the stream off."""

    kind: FailureKind = FailureKind.CONNECT_ERROR


StreamPiece: TypeAlias = bytes | tuple[bytes, ...] | Pause | Until | Silence | Break
"""The data of one event, that of several which come at once, or what happens between two."""


@dataclass(frozen=True, slots=True)
class Events:
    """Answer chat with a stream, which ends after the last piece."""

    pieces: tuple[StreamPiece, ...] = field(repr=False)
    dropped: tuple[str, ...] = ()


Answer: TypeAlias = Reply | Computed | ChatBody | Vectors | Events
Step: TypeAlias = Answer | Fail | Delay | Hang | Held


class ScriptedEvents:
    """A stream that plays its pieces.

    Args:
        pieces: What to play.
        dropped: Members of the request that it says it was not sent.
        clock: Where pauses pass.
    """

    def __init__(
        self, pieces: Sequence[StreamPiece], dropped: tuple[str, ...] = (), *, clock: Clock
    ) -> None:
        self._pieces = tuple(pieces)
        self._clock = clock
        self._closed = asyncio.Event()
        self.dropped = dropped

    @property
    def closed(self) -> bool:
        """Tell whether its reader let it go."""
        return self._closed.is_set()

    async def events(self) -> AsyncIterator[list[bytes]]:
        """Yield the events in their order.

        Raises:
            ProviderFailure: The script breaks the stream off, or it was closed in a silence.
        """
        for piece in self._pieces:
            match piece:
                case bytes():
                    yield [piece]
                case tuple():
                    yield list(piece)
                case Pause(seconds):
                    await self._clock.sleep(seconds)
                case Until(happened):
                    await happened.wait()
                case Silence():
                    await self._closed.wait()
                    raise ProviderFailure(FailureKind.CONNECT_ERROR)
                case Break(kind):
                    raise ProviderFailure(kind)
                case _:
                    assert_never(piece)

    def close(self) -> None:
        """Note that the stream was let go."""
        self._closed.set()


class ScriptedProvider:
    """Plays one step per call and remembers the calls.

    A text answers chat too, as a whole or as a stream. A call beyond the last step fails as
    ``unknown``, unless the last step is to be repeated, and so does one that meets a step for
    another kind of call.

    Args:
        steps: What to do, call by call.
        clock: Where delays pass.
        repeat_last: Play the last step for every further call.
        models: Names of the models that it says it has; listing them plays no step.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        *,
        clock: Clock | None = None,
        repeat_last: bool = False,
        models: Sequence[str] = (),
    ) -> None:
        self._steps = tuple(steps)
        self._clock = clock or SystemClock()
        self._repeat_last = repeat_last
        self._models = tuple(models)
        self._played = 0
        self.calls: deque[ProviderCall] = deque(maxlen=CALLS_KEPT_MAX)
        """The calls made for a text, oldest first."""
        self.chat_calls: deque[ChatCall] = deque(maxlen=CALLS_KEPT_MAX)
        """The calls of chat, streamed or not."""
        self.embedding_calls: deque[EmbeddingCall] = deque(maxlen=CALLS_KEPT_MAX)
        """The calls for embeddings."""
        self.streams: deque[ScriptedEvents] = deque(maxlen=CALLS_KEPT_MAX)
        """The streams opened by steps that are one."""
        self.key_labels: deque[str | None] = deque(maxlen=CALLS_KEPT_MAX)
        """Labels of the credentials lent, call by call."""
        self.closed = False

    @classmethod
    def from_config(cls, config: ProviderConfig) -> Self:
        """Read the script that a provider's entry names.

        The file is a JSON object ``{"repeat_last": false, "models": [], "steps": [...]}``. A step
        is one of
        ``{"do": "reply", "text": ..., "finish": "stop", "usage": {...}}``,
        ``{"do": "chat", "body": {...}}``, ``{"do": "embeddings", "body": {...}}``,
        ``{"do": "stream", "events": [{...}, "[DONE]"], "pause_seconds": 0.1, "break": true}``,
        ``{"do": "fail", "kind": "http_5xx", "http_status": 503, "retry_after_seconds": 5}`` and
        ``{"do": "hang"}``; ``"delay_seconds"`` in all but the last makes them wait before. The
        pause of a stream lies before each of its events but the first.

        Raises:
            ConfigurationError: The file is missing or no script.
        """
        path, content = read_adapter_file(config, bytes_max=SCRIPT_BYTES_MAX)
        script = _read_script(content, path)
        return cls(
            [step.to_step() for step in script.steps],
            repeat_last=script.repeat_last,
            models=script.models,
        )

    @property
    def steps_left(self) -> int:
        """Return how many steps were not played yet."""
        return max(len(self._steps) - self._played, 0)

    async def complete(
        self, call: ProviderCall, *, credential: Credential | None, deadline: Deadline
    ) -> ProviderReply:
        """Play the next step.

        Raises:
            ProviderFailure: The step says so, no step is left, or the deadline has passed
                already, which plays no step.
        """
        self.calls.append(call)
        answer = await self._next_answer(credential, deadline)
        return _text(answer, call)

    async def chat(
        self, call: ChatCall, /, *, credential: Credential | None, deadline: Deadline
    ) -> ChatReply:
        """Play the next step.

        Raises:
            ProviderFailure: As for a text, or the request holds what a text cannot answer.
        """
        self.chat_calls.append(call)
        answer = await self._next_answer(credential, deadline)
        if isinstance(answer, ChatBody):
            return ChatReply(body=answer.body, dropped=answer.dropped)
        wanted = text_call(call)
        body = self._told(call).body(_text(answer, wanted.call))
        return ChatReply(body=body, dropped=wanted.dropped)

    async def open_stream(
        self, call: ChatCall, /, *, credential: Credential | None, deadline: Deadline
    ) -> EventStream:
        """Play the next step.

        Raises:
            ProviderFailure: As for a text, or the request holds what a text cannot answer.
        """
        self.chat_calls.append(call)
        answer = await self._next_answer(credential, deadline)
        if isinstance(answer, Events):
            stream = ScriptedEvents(answer.pieces, answer.dropped, clock=self._clock)
            self.streams.append(stream)
            return stream
        wanted = text_call(call)
        events = self._told(call).events(_text(answer, wanted.call))
        return ToldEvents(events, wanted.dropped)

    async def embed(
        self, call: EmbeddingCall, /, *, credential: Credential | None, deadline: Deadline
    ) -> EmbeddingReply:
        """Play the next step.

        Raises:
            ProviderFailure: The step says so, or is for another kind of call.
        """
        self.embedding_calls.append(call)
        answer = await self._next_answer(credential, deadline)
        if not isinstance(answer, Vectors):
            raise ProviderFailure(FailureKind.UNKNOWN, sent=False)
        return EmbeddingReply(body=answer.body, dropped=answer.dropped)

    async def models(self, *, credential: Credential | None, deadline: Deadline) -> tuple[str, ...]:
        """Return the names that it was given."""
        del credential, deadline
        return self._models

    async def aclose(self) -> None:
        """Note that the provider was let go."""
        self.closed = True

    async def _next_answer(self, credential: Credential | None, deadline: Deadline) -> Answer:
        self.key_labels.append(credential.label if credential else None)
        if deadline.passed:
            raise ProviderFailure(FailureKind.TIMEOUT, sent=False)
        position = self._played
        self._played += 1
        if position >= len(self._steps):
            if not (self._repeat_last and self._steps):
                raise ProviderFailure(FailureKind.UNKNOWN, sent=False)
            position = len(self._steps) - 1
        return await self._play(self._steps[position], deadline)

    async def _play(self, step: Step, deadline: Deadline) -> Answer:
        match step:
            case Reply() | Computed() | ChatBody() | Vectors() | Events():
                return step
            case Fail(kind, http_status, retry_after, sent):
                raise ProviderFailure(
                    kind, http_status=http_status, retry_after_seconds=retry_after, sent=sent
                )
            case Delay(seconds, then):
                if seconds > deadline.remaining():
                    return await self._time_out(deadline)
                await self._clock.sleep(seconds)
                return await self._play(then, deadline)
            case Hang():
                return await self._time_out(deadline)
            case Held(until, then):
                await until.wait()
                return await self._play(then, deadline)
            case _:
                assert_never(step)

    async def _time_out(self, deadline: Deadline) -> NoReturn:
        await self._clock.sleep(deadline.remaining())
        raise ProviderFailure(FailureKind.TIMEOUT)

    def _told(self, call: ChatCall) -> Told:
        created = int(self._clock.now().timestamp())
        return Told(id=f"chatcmpl-{self._played}", created=created, model=call.model)


def _text(answer: Answer, call: ProviderCall) -> ProviderReply:
    match answer:
        case Reply(text, finish, usage):
            return ProviderReply(text=text, finish=finish, usage=usage)
        case Computed(compute):
            return ProviderReply(text=compute(call), finish=Finish.STOP)
        case ChatBody() | Vectors() | Events():
            raise ProviderFailure(FailureKind.UNKNOWN, sent=False)
        case _:
            assert_never(answer)


_STRICT: Final = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)
_Count: TypeAlias = Annotated[int, Strict(), Field(ge=0)] | None
_Wait: TypeAlias = Annotated[float, Field(ge=0, le=86_400, allow_inf_nan=False)]


class _UsageLine(BaseModel):
    model_config = _STRICT

    prompt_tokens: _Count = None
    completion_tokens: _Count = None
    total_tokens: _Count = None


class _ReplyLine(BaseModel):
    model_config = _STRICT

    do: Literal["reply"]
    text: str
    finish: Finish = Finish.STOP
    usage: _UsageLine | None = None
    delay_seconds: _Wait = 0.0

    def to_step(self) -> Step:
        usage = Usage(**self.usage.model_dump()) if self.usage else None
        return _after(self.delay_seconds, Reply(self.text, self.finish, usage))


class _FailLine(BaseModel):
    model_config = _STRICT

    do: Literal["fail"]
    kind: FailureKind
    http_status: Annotated[int, Strict(), Field(ge=100, le=599)] | None = None
    retry_after_seconds: _Wait | None = None
    delay_seconds: _Wait = 0.0

    def to_step(self) -> Step:
        step = Fail(self.kind, self.http_status, self.retry_after_seconds)
        return _after(self.delay_seconds, step)


class _ChatLine(BaseModel):
    model_config = _STRICT

    do: Literal["chat"]
    body: JsonValue
    delay_seconds: _Wait = 0.0

    def to_step(self) -> Step:
        return _after(self.delay_seconds, ChatBody(canonical(self.body)))


class _EmbeddingsLine(BaseModel):
    model_config = _STRICT

    do: Literal["embeddings"]
    body: JsonValue
    delay_seconds: _Wait = 0.0

    def to_step(self) -> Step:
        return _after(self.delay_seconds, Vectors(canonical(self.body)))


class _StreamLine(BaseModel):
    model_config = ConfigDict(**_STRICT, populate_by_name=True)

    do: Literal["stream"]
    events: list[JsonValue]
    pause_seconds: _Wait = 0.0
    breaks: bool = Field(default=False, alias="break")
    delay_seconds: _Wait = 0.0

    def to_step(self) -> Step:
        pieces: list[StreamPiece] = []
        for event in self.events:
            if pieces and self.pause_seconds:
                pieces.append(Pause(self.pause_seconds))
            pieces.append(event.encode() if isinstance(event, str) else canonical(event))
        if self.breaks:
            pieces.append(Break())
        return _after(self.delay_seconds, Events(tuple(pieces)))


class _HangLine(BaseModel):
    model_config = _STRICT

    do: Literal["hang"]

    def to_step(self) -> Step:
        return Hang()


_Line: TypeAlias = _ReplyLine | _ChatLine | _EmbeddingsLine | _StreamLine | _FailLine | _HangLine


class _Script(BaseModel):
    model_config = _STRICT

    repeat_last: bool = False
    models: list[str] = []
    steps: list[Annotated[_Line, Field(discriminator="do")]]


def _after(seconds: float, step: Step) -> Step:
    return Delay(seconds, step) if seconds else step


def _read_script(content: bytes, path: Path) -> _Script:
    try:
        return _Script.model_validate(parse(content))
    except InvalidJSON as error:
        problem = f"is {error}"
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        problem = f"is no script: {first['type']} at {'/'.join(str(p) for p in first['loc'])}"
    raise ConfigurationError(problem, where=path.name, remedy="see the adapter's description")
