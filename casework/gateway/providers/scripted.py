"""A provider that plays a script: for tests, demonstrations and rehearsals of failures."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final, Literal, Self, TypeAlias, assert_never

from pydantic import BaseModel, ConfigDict, Field, Strict, ValidationError

from casework.config.providers import ProviderConfig
from casework.errors import ConfigurationError
from casework.gateway.clock import Clock, Deadline, SystemClock
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.messages import Credential, Finish, ProviderCall, ProviderReply, Usage
from casework.gateway.providers.adapter_file import read_adapter_file
from casework.strict_json import InvalidJSON, parse

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


Step: TypeAlias = Reply | Computed | Fail | Delay | Hang | Held


class ScriptedProvider:
    """Plays one step per call and remembers the calls.

    A call beyond the last step fails as ``unknown``, unless the last step is to be repeated.

    Args:
        steps: What to do, call by call.
        clock: Where delays pass.
        repeat_last: Play the last step for every further call.
    """

    def __init__(
        self, steps: Sequence[Step], *, clock: Clock | None = None, repeat_last: bool = False
    ) -> None:
        self._steps = tuple(steps)
        self._clock = clock or SystemClock()
        self._repeat_last = repeat_last
        self._played = 0
        self.calls: deque[ProviderCall] = deque(maxlen=CALLS_KEPT_MAX)
        """The calls made, oldest first."""
        self.key_labels: deque[str | None] = deque(maxlen=CALLS_KEPT_MAX)
        """Labels of the credentials lent, call by call."""
        self.closed = False

    @classmethod
    def from_config(cls, config: ProviderConfig) -> Self:
        """Read the script that a provider's entry names.

        The file is a JSON object ``{"repeat_last": false, "steps": [...]}``. A step is one of
        ``{"do": "reply", "text": ..., "finish": "stop", "usage": {...}}``,
        ``{"do": "fail", "kind": "http_5xx", "http_status": 503, "retry_after_seconds": 5}`` and
        ``{"do": "hang"}``; ``"delay_seconds"`` in the first two makes them wait before.

        Raises:
            ConfigurationError: The file is missing or no script.
        """
        path, content = read_adapter_file(config, bytes_max=SCRIPT_BYTES_MAX)
        script = _read_script(content, path)
        return cls([step.to_step() for step in script.steps], repeat_last=script.repeat_last)

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
        self.key_labels.append(credential.label if credential else None)
        if deadline.passed:
            raise ProviderFailure(FailureKind.TIMEOUT, sent=False)
        position = self._played
        self._played += 1
        if position >= len(self._steps):
            if not (self._repeat_last and self._steps):
                raise ProviderFailure(FailureKind.UNKNOWN, sent=False)
            position = len(self._steps) - 1
        return await self._play(self._steps[position], call, deadline)

    async def aclose(self) -> None:
        """Note that the provider was let go."""
        self.closed = True

    async def _play(self, step: Step, call: ProviderCall, deadline: Deadline) -> ProviderReply:
        match step:
            case Reply(text, finish, usage):
                return ProviderReply(text=text, finish=finish, usage=usage)
            case Computed(answer):
                return ProviderReply(text=answer(call), finish=Finish.STOP)
            case Fail(kind, http_status, retry_after, sent):
                raise ProviderFailure(
                    kind, http_status=http_status, retry_after_seconds=retry_after, sent=sent
                )
            case Delay(seconds, then):
                if seconds > deadline.remaining():
                    return await self._time_out(deadline)
                await self._clock.sleep(seconds)
                return await self._play(then, call, deadline)
            case Hang():
                return await self._time_out(deadline)
            case Held(until, then):
                await until.wait()
                return await self._play(then, call, deadline)
            case _:
                assert_never(step)

    async def _time_out(self, deadline: Deadline) -> ProviderReply:
        await self._clock.sleep(deadline.remaining())
        raise ProviderFailure(FailureKind.TIMEOUT)


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


class _HangLine(BaseModel):
    model_config = _STRICT

    do: Literal["hang"]

    def to_step(self) -> Step:
        return Hang()


class _Script(BaseModel):
    model_config = _STRICT

    repeat_last: bool = False
    steps: list[Annotated[_ReplyLine | _FailLine | _HangLine, Field(discriminator="do")]]


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
