"""A streamed answer: opened when something sound has come, relayed until it ends or breaks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable
from contextlib import AsyncExitStack
from typing import Final

from casework.errors import StreamInterrupted
from casework.gateway.chat.calls import ChatCall, ChatProvider, EventStream
from casework.gateway.chat.chunks import ChunkWriter
from casework.gateway.chat.request import ChatRequest
from casework.gateway.clock import Clock, Deadline
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.messages import Credential, Usage

_logger = logging.getLogger(__name__)

HELD_BYTES_MAX: Final = 256 * 1024
"""Most that is held back of a stream that has not said anything yet."""

_BROKEN: Final = frozenset({FailureKind.CONNECT_ERROR, FailureKind.TIMEOUT})
"""What takes nothing away from an answer that has ended already."""


async def opened_stream(
    provider: ChatProvider,
    call: ChatCall,
    *,
    credential: Credential | None,
    deadline: Deadline,
    request: ChatRequest,
    idle_seconds: float,
    clock: Clock,
) -> ChatStream:
    """Ask for a stream, and return it once its first sound chunk has come.

    A chunk is sound where it adds something that a client can see. What comes before, such as the
    role, is held back and sent with it.

    Args:
        provider: Asks the server.
        call: What it is asked.
        credential: With which key.
        deadline: When the first sound chunk must have come, at the latest.
        request: What the client asked for.
        idle_seconds: Longest silence between two chunks, afterwards.
        clock: The time.

    Raises:
        ProviderFailure: There is no such chunk. The connection is closed.
    """
    created = int(clock.now().timestamp())
    writer = ChunkWriter(request.model, include_usage=request.include_usage, created=created)
    upstream = await provider.open_stream(call, credential=credential, deadline=deadline)
    stream = ChatStream(upstream, writer, choices=request.choices, idle_seconds=idle_seconds)
    try:
        async with asyncio.timeout(deadline.remaining()):
            await stream.begin()
        late = deadline.passed
    except TimeoutError:
        late = True
    except BaseException:
        stream.close()
        raise
    if late:
        stream.close()
        raise ProviderFailure(FailureKind.TIMEOUT)
    return stream


class ChatStream:
    """A stream whose first sound chunk has come.

    Whoever has it closes it: ``close`` at once, ``aclose`` with the slot that it holds.

    Args:
        upstream: The server's events.
        writer: Turns them into the client's.
        choices: How many answers were asked for.
        idle_seconds: Longest silence between two chunks.
    """

    def __init__(
        self, upstream: EventStream, writer: ChunkWriter, *, choices: int, idle_seconds: float
    ) -> None:
        self._upstream = upstream
        self._batches = upstream.events()
        self._writer = writer
        self._choices = choices
        self._silence = _Silence(idle_seconds)
        self._held: list[bytes] = []
        self._rest: list[bytes] = []
        self._slot: AsyncExitStack | None = None
        self.finished = False
        """Whether the stream ended as it should."""

    @property
    def usage(self) -> Usage | None:
        """Return the tokens that the server counted, as far as it has told."""
        return self._writer.usage

    @property
    def dropped(self) -> tuple[str, ...]:
        """Return the members of the request that the server was not sent as they stand."""
        return self._upstream.dropped

    @property
    def chunks(self) -> int:
        """Return how many of the server's events were read."""
        return self._writer.chunks

    def hold(self, slot: AsyncExitStack) -> None:
        """Keep the provider's slot until the stream is closed."""
        self._slot = slot.pop_all()

    def close(self) -> None:
        """Close the connection to the server, at once."""
        self._silence.end()
        self._upstream.close()

    async def aclose(self) -> None:
        """Close the connection to the server and free the provider's slot."""
        self.close()
        slot, self._slot = self._slot, None
        if slot is not None:
            await slot.aclose()

    async def begin(self) -> None:
        """Read until the first sound chunk.

        Raises:
            ProviderFailure: The stream fails before, or ends without one (``empty_response``).
        """
        size = 0
        async for batch in self._batches:
            for position, data in enumerate(batch):
                piece = self._writer.take(data)
                if piece:
                    self._held.append(piece)
                    size += len(piece)
                if self._writer.sound:
                    self._rest = batch[position + 1 :]
                    return
                if size > HELD_BYTES_MAX:
                    raise ProviderFailure(FailureKind.RESPONSE_TOO_LARGE)
                if self._writer.done:
                    break
            if self._writer.done:
                break
        if not (self._writer.finished and self._writer.ended_early):
            raise ProviderFailure(FailureKind.EMPTY_RESPONSE)

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the client's events, as bytes ready to be sent, in pieces of what came at once.

        To be called once. The last piece ends in ``[DONE]``.

        Raises:
            StreamInterrupted: The stream broke; its code is the kind of failure. What came before
                has been yielded, and no end was.
        """
        batch: list[bytes] | None = self._rest
        parts, self._held = self._held, []
        failure: ProviderFailure | None = None
        try:
            while batch is not None:
                failure = self._translated(batch, parts)
                if self._writer.done or failure is not None:
                    break
                piece = b"".join(parts)
                if piece:
                    yield piece
                parts = []
                try:
                    batch = await self._silence.broken_by(anext(self._batches, None))
                except ProviderFailure as error:
                    failure = error
                    break
                except Exception as error:  # noqa: BLE001 - an adapter may be anybody's
                    failure = _defect(error)
                    break
            failure = self._judged(failure)
            if failure is None:
                parts.append(self._writer.ending())
                self.finished = True
            piece = b"".join(parts)
            if piece:
                yield piece
        finally:
            self.close()
        if failure is not None:
            raise StreamInterrupted("the stream broke", code=failure.kind.value, remedy="ask again")

    def _translated(self, batch: list[bytes], parts: list[bytes]) -> ProviderFailure | None:
        """Translate events up to the end or to the first that is none."""
        take = self._writer.take
        try:
            for data in batch:
                parts.append(take(data))
                if self._writer.done:
                    break
        except ProviderFailure as failure:
            return failure
        return None

    def _judged(self, failure: ProviderFailure | None) -> ProviderFailure | None:
        """Return what a stream failed of in the end, if it did.

        An answer that has ended is whole, whatever becomes of the connection; one that has not is
        broken off, also where the server closes the connection in good order.
        """
        if failure is None:
            ended = self._writer.done or self._writer.finished
            return None if ended else ProviderFailure(FailureKind.MALFORMED_RESPONSE)
        if failure.kind in _BROKEN and self._writer.finished >= self._choices:
            return None
        return failure


def _defect(error: Exception) -> ProviderFailure:
    _logger.error(
        "adapter defect", extra={"action": "adapter_defect", "exception": type(error).__name__}
    )
    return ProviderFailure(FailureKind.UNKNOWN)


class _Silence:
    """Ends a wait that lasts too long; one timer for a whole stream, which moves lazily."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._since: float | None = None
        self._task: asyncio.Task[object] | None = None
        self._fired = False

    async def broken_by(self, waiting: Awaitable[list[bytes] | None]) -> list[bytes] | None:
        """Wait for the next batch; None at the end.

        Raises:
            ProviderFailure: It did not come in time.
        """
        task = self._task = asyncio.current_task()
        assert task is not None, "a stream is read in a task"
        cancelling = task.cancelling()
        self._since = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_later(self._seconds, self._look)
        try:
            return await waiting
        except asyncio.CancelledError:
            if not self._fired or task.uncancel() > cancelling:
                raise
        finally:
            self._since = None
        raise ProviderFailure(FailureKind.TIMEOUT)

    def end(self) -> None:
        """Watch no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = None
        if self._since is None:
            return
        left = self._since + self._seconds - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
        elif self._task is not None:
            self._fired = True
            self._task.cancel()
