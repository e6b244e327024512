"""A batcher between callers and a server, both of whom do only what a test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from zlib import crc32

from casework.config.privacy_profile import ProviderClass
from casework.config.serving import EmbeddingsConfig
from casework.gateway.clock import MANUAL_START, Deadline, ManualClock
from casework.gateway.embeddings.answers import EmbeddingAnswer
from casework.gateway.embeddings.batcher import EmbeddingBatcher
from casework.gateway.embeddings.request import EmbeddingRequest
from casework.gateway.embeddings.vectors import Vector
from casework.gateway.messages import Usage
from casework.gateway.outcomes import Answered, Served, Walked
from casework.gateway.scope import UNBOUNDED, Scope

Reply = asyncio.Task[Walked[EmbeddingAnswer]]


def vector_of(text: bytes) -> Vector:
    """Return the vector that the server makes of a text."""
    return Vector(crc32(text).to_bytes(4, "little"))


def tokens_of(texts: Sequence[bytes]) -> int:
    """Return how many tokens the server counts."""
    return sum(map(len, texts)) * 3 // 7


def answered(texts: Sequence[bytes]) -> Answered[EmbeddingAnswer]:
    """Return the round of a server that answers."""
    usage = Usage(tokens_of(texts), None, tokens_of(texts))
    served = Served(
        provider="p",
        model="m",
        provider_class=ProviderClass.LOCAL,
        key_label=None,
        started_at=MANUAL_START,
        elapsed_ms=1,
        sent=True,
        request_bytes=sum(map(len, texts)),
        usage=usage,
        cost=None,
    )
    return Answered(
        started_at=MANUAL_START,
        elapsed_ms=1,
        attempts=(),
        served=served,
        answer=EmbeddingAnswer(vectors=tuple(map(vector_of, texts)), usage=usage),
    )


@dataclass(slots=True, eq=False)
class Alarm:
    """Something that happens when the clock is moved."""

    at: float
    act: Callable[[], None]
    off: bool = False

    def cancel(self) -> None:
        """Call it off."""
        self.off = True


@dataclass(slots=True, eq=False)
class Call:
    """One call that the server got."""

    request: EmbeddingRequest
    scope: Scope
    deadline: Deadline
    end: asyncio.Future[Walked[EmbeddingAnswer]]
    cancelled: bool = False

    @property
    def texts(self) -> tuple[bytes, ...]:
        """Return what it was asked."""
        return self.request.inputs

    def answer(self) -> None:
        """Let the server answer."""
        if not self.end.done():
            self.end.set_result(answered(self.texts))


@dataclass(slots=True, eq=False)
class Bench:
    """Callers come by ``come``; the server answers at once, or when told where it ``holds``."""

    items_max: int = 4
    window_seconds: float = 0.1
    holds: bool = False
    clock: ManualClock = field(default_factory=ManualClock)
    alarms: list[Alarm] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    batcher: EmbeddingBatcher = field(init=False)

    def __post_init__(self) -> None:
        config = EmbeddingsConfig(max_items=self.items_max, window_seconds=self.window_seconds)
        self.batcher = EmbeddingBatcher(self._ask, config, later=self._later)

    async def come(
        self,
        *texts: str,
        client: str | None = None,
        scope: Scope = UNBOUNDED,
        seconds: float = 30,
        **fields: object,
    ) -> Reply:
        """Let a caller come, and return its task once it waits."""
        inputs = tuple(
            text.encode() if text.startswith("[") else f'"{text}"'.encode() for text in texts
        )
        request = EmbeddingRequest(**{"model": "m", "inputs": inputs, "members": {}, **fields})  # type: ignore[arg-type]
        caller = self.batcher.embed(
            request, scope, client=client, deadline=Deadline.after(seconds, self.clock)
        )
        task = asyncio.get_running_loop().create_task(caller)
        await settle()
        return task

    async def let_pass(self, seconds: float) -> None:
        """Move the clock, from alarm to alarm."""
        end = self.clock.monotonic() + seconds
        while due := [alarm for alarm in self.alarms if not alarm.off and alarm.at <= end]:
            alarm = min(due, key=lambda one: one.at)
            self.clock.advance(max(alarm.at - self.clock.monotonic(), 0.0))
            alarm.off = True
            alarm.act()
            await settle()
        self.clock.advance(end - self.clock.monotonic())

    @property
    def asked(self) -> list[tuple[str, ...]]:
        """Return the texts of each call, in order."""
        return [tuple(text.decode().strip('"') for text in call.texts) for call in self.calls]

    def is_empty(self) -> bool:
        """Tell whether nothing is left of anybody: no batch, text, alarm, call or task."""
        return (
            not self.batcher._waiting
            and self.batcher._inputs_waiting == 0
            and all(alarm.off for alarm in self.alarms)
            and all(call.end.done() for call in self.calls)
            and len(asyncio.all_tasks()) == 1
        )

    def _later(self, seconds: float, act: Callable[[], None]) -> Alarm:
        alarm = Alarm(self.clock.monotonic() + seconds, act)
        self.alarms.append(alarm)
        return alarm

    async def _ask(
        self, request: EmbeddingRequest, scope: Scope, /, *, deadline: Deadline
    ) -> Walked[EmbeddingAnswer]:
        call = Call(request, scope, deadline, asyncio.get_running_loop().create_future())
        self.calls.append(call)
        if not self.holds:
            call.answer()
        try:
            return await call.end
        except asyncio.CancelledError:
            call.cancelled = True
            raise


async def settle() -> None:
    """Let everybody go as far as they can without time."""
    for _ in range(8):
        await asyncio.sleep(0)


def vectors(reply: Reply) -> tuple[Vector, ...]:
    """Return the vectors that a caller got."""
    outcome = reply.result()
    assert isinstance(outcome, Answered)
    return outcome.answer.vectors


def tokens(reply: Reply) -> int:
    """Return the tokens that a caller was told."""
    outcome = reply.result()
    assert isinstance(outcome, Answered)
    assert outcome.answer.usage is not None
    assert outcome.answer.usage.prompt_tokens is not None
    return outcome.answer.usage.prompt_tokens
