"""A stream is relayed until it ends or breaks, and opened only when something has come."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from casework.errors import StreamInterrupted
from casework.gateway.chat.calls import ChatCall, ChatReply, EventStream
from casework.gateway.chat.request import ChatRequest
from casework.gateway.chat.streams import HELD_BYTES_MAX, ChatStream, opened_stream
from casework.gateway.clock import Deadline, ManualClock
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.messages import Credential, Usage
from tests.support.openai_schemas import CHUNK, violations

Step = bytes | list[bytes] | Exception | asyncio.Event
BROKE = ProviderFailure(FailureKind.CONNECT_ERROR)
DONE = b"[DONE]"
USAGE = {"prompt_tokens": 3, "completion_tokens": 0, "total_tokens": 3}


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:
    """Write one chunk as a server does."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    head = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 7, "model": "theirs"}
    return json.dumps({**head, "choices": choices, **more}).encode()


ROLE = chunk({"role": "assistant", "content": ""})
HELLO = chunk({"content": "Hello"})
STOP = chunk({}, "stop")


@dataclass
class Upstream:
    """A stream that plays steps."""

    steps: Sequence[Step]
    dropped: tuple[str, ...] = ("seed",)
    closed: bool = False
    read: list[bytes] = field(default_factory=list)

    async def events(self) -> AsyncIterator[list[bytes]]:
        for step in self.steps:
            if isinstance(step, Exception):
                raise step
            if isinstance(step, asyncio.Event):
                await step.wait()
                continue
            batch = step if isinstance(step, list) else [step]
            self.read += batch
            yield batch

    def close(self) -> None:
        self.closed = True

    async def open_stream(
        self, call: ChatCall, /, *, credential: Credential | None, deadline: Deadline
    ) -> EventStream:
        return self

    async def chat(
        self, call: ChatCall, /, *, credential: Credential | None, deadline: Deadline
    ) -> ChatReply:
        raise AssertionError


async def opened(
    upstream: Upstream,
    *,
    include_usage: bool = False,
    choices: int = 1,
    seconds: float = 30.0,
    idle_seconds: float = 30.0,
) -> ChatStream:
    """Open a stream for a client that calls the model ours."""
    clock = ManualClock()
    return await opened_stream(
        upstream,
        ChatCall(model="theirs", members={}, stream=True),
        credential=None,
        deadline=Deadline.after(seconds, clock),
        request=ChatRequest(
            model="ours", members={}, stream=True, include_usage=include_usage, choices=choices
        ),
        idle_seconds=idle_seconds,
        clock=clock,
    )


async def refused(upstream: Upstream, seconds: float = 30.0) -> FailureKind:
    """Return why a stream is not opened; its connection is closed then."""
    with pytest.raises(ProviderFailure) as caught:
        await opened(upstream, seconds=seconds)
    assert upstream.closed
    return caught.value.kind


async def told(stream: ChatStream) -> list[Any]:
    """Return the events that the client gets, each one valid by OpenAI's schema."""
    whole = b"".join([piece async for piece in stream.pieces()])
    return events_in(whole)


def events_in(whole: bytes) -> list[Any]:
    """Return the events in bytes of a stream."""
    assert whole.endswith(b"\n\n")
    events: list[Any] = []
    for event in whole[:-2].split(b"\n\n"):
        assert event.startswith(b"data: ")
        data = event.removeprefix(b"data: ")
        assert b"\n" not in data
        events.append("[DONE]" if data == DONE else json.loads(data))
    assert [] == [v for e in events if e != "[DONE]" for v in violations(e, CHUNK)]
    return events


async def broken(stream: ChatStream) -> tuple[bytes, str]:
    """Return what the client got before its stream broke, and the code of why."""
    pieces: list[bytes] = []

    async def read() -> None:
        async for piece in stream.pieces():
            pieces.append(piece)  # noqa: PERF401 - what came before the break is wanted

    with pytest.raises(StreamInterrupted) as caught:
        await read()
    return b"".join(pieces), caught.value.code


async def test_a_whole_stream_is_relayed_under_the_clients_name_of_the_model() -> None:
    """Role, text, end and the final mark come in their order, and nothing else."""
    upstream = Upstream([ROLE, [HELLO, HELLO], STOP, DONE])
    stream = await opened(upstream)
    events = await told(stream)
    assert ["", "Hello", "Hello", None, "[DONE]"] == [
        e if e == "[DONE]" else e["choices"][0]["delta"].get("content") for e in events
    ]
    assert {"ours"} == {e["model"] for e in events[:-1]}
    assert (True, True, 4, ("seed",)) == (
        stream.finished,
        upstream.closed,
        stream.chunks,
        stream.dropped,
    )


async def test_nothing_is_read_beyond_the_first_sound_chunk_before_the_client_is_there() -> None:
    """The role is held back; the stream opens with the first word."""
    upstream = Upstream([ROLE, HELLO, STOP, DONE])
    stream = await opened(upstream)
    assert [ROLE, HELLO] == upstream.read
    first = await anext(stream.pieces().__aiter__())
    assert ["", "Hello"] == [e["choices"][0]["delta"]["content"] for e in events_in(first)]


@pytest.mark.parametrize(
    ("steps", "kind"),
    [
        ([BROKE], FailureKind.CONNECT_ERROR),
        ([ROLE, BROKE], FailureKind.CONNECT_ERROR),
        ([], FailureKind.EMPTY_RESPONSE),
        ([DONE], FailureKind.EMPTY_RESPONSE),
        ([ROLE, STOP, DONE], FailureKind.EMPTY_RESPONSE),
        ([b"{oops"], FailureKind.MALFORMED_RESPONSE),
        ([ROLE, b"[1]"], FailureKind.MALFORMED_RESPONSE),
        ([b'"text"'], FailureKind.MALFORMED_RESPONSE),
        ([b'{"choices":[],"error":{"code":429}}'], FailureKind.HTTP_429),
        ([ROLE, b'{"choices":[],"error":"no"}'], FailureKind.MALFORMED_RESPONSE),
        ([ROLE, chunk({"content": ""}, "error")], FailureKind.HTTP_5XX),
        ([ROLE, chunk({}, "stop", usage=USAGE), DONE], FailureKind.EMPTY_RESPONSE),
    ],
)
async def test_a_stream_that_fails_before_its_first_sound_chunk_is_none(
    steps: list[Step], kind: FailureKind
) -> None:
    """The round goes on to the next target, and the connection is closed."""
    assert kind is await refused(Upstream(steps))


async def test_silence_before_the_first_sound_chunk_lasts_no_longer_than_the_deadline() -> None:
    """A server that accepts and says nothing has timed out."""
    assert FailureKind.TIMEOUT is await refused(Upstream([ROLE, asyncio.Event()]), seconds=0.01)


async def test_a_first_chunk_after_the_deadline_is_none() -> None:
    """Where the clock says that it came too late, it did."""
    clock = ManualClock()
    upstream = Upstream([HELLO, STOP, DONE])
    deadline = Deadline.after(1.0, clock)
    clock.advance(1.0)
    request = ChatRequest(model="ours", members={}, stream=True)
    with pytest.raises(ProviderFailure) as caught:
        await opened_stream(
            upstream,
            ChatCall(model="theirs", members={}, stream=True),
            credential=None,
            deadline=deadline,
            request=request,
            idle_seconds=30.0,
            clock=clock,
        )
    assert (FailureKind.TIMEOUT, True) == (caught.value.kind, upstream.closed)


async def test_what_is_held_back_has_a_limit() -> None:
    """A server that sends chunks without a word for ever is given up."""
    role = chunk({"role": "assistant"}, padding="x" * 1000)
    steps = [role] * (HELD_BYTES_MAX // 1000 + 1)
    assert FailureKind.RESPONSE_TOO_LARGE is await refused(Upstream(steps))


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ([BROKE], "connect_error"),
        ([b"{oops"], "malformed_response"),
        ([b'{"error":{"type":"server_error"}}'], "http_5xx"),
        ([], "malformed_response"),
        ([chunk({"content": "a"}), BROKE], "connect_error"),
        ([STOP, b'{"error":{"code":"rate_limit_exceeded"}}'], "http_429"),
    ],
)
@pytest.mark.parametrize("at_once", [False, True])
async def test_a_stream_that_breaks_after_its_first_sound_chunk_says_so_and_invents_no_end(
    steps: list[Step], code: str, *, at_once: bool
) -> None:
    """What came is passed on; then the reader is told why, also where all came at once."""
    begun = [ROLE, HELLO]
    if at_once:
        batch = [*begun, *(s for s in steps if isinstance(s, bytes))]
        upstream = Upstream([batch, *(s for s in steps if not isinstance(s, bytes))])
    else:
        upstream = Upstream([*begun, *steps])
    stream = await opened(upstream)
    got, found = await broken(stream)
    assert code == found
    assert b"Hello" in got
    assert b"[DONE]" not in got
    assert upstream.closed
    assert not stream.finished


async def test_an_adapter_that_raises_what_it_should_not_breaks_the_stream(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The reader is told of a defect, and the log by which exception."""
    upstream = Upstream([HELLO, ZeroDivisionError("canary")])
    _, code = await broken(await opened(upstream))
    assert ("unknown", True) == (code, upstream.closed)
    assert ["adapter_defect"] == [getattr(record, "action", "") for record in caplog.records]
    assert "canary" not in caplog.text


async def test_silence_between_two_chunks_has_a_limit() -> None:
    """After the first chunk a silent server is left after the idle limit."""
    upstream = Upstream([HELLO, asyncio.Event()])
    got, code = await broken(await opened(upstream, idle_seconds=0.01))
    assert (True, "timeout", True) == (b"Hello" in got, code, upstream.closed)


async def test_a_client_that_takes_nothing_is_no_silence_of_the_server() -> None:
    """The idle limit runs only while the server is waited for."""
    upstream = Upstream([HELLO, HELLO, STOP, DONE])
    stream = await opened(upstream, idle_seconds=0.0)
    got = b""
    async for piece in stream.pieces():
        stream._silence._look()
        got += piece
    assert got.endswith(b"data: [DONE]\n\n")


async def test_a_cancelled_reader_is_cancelled_and_not_timed_out() -> None:
    """Leaving while the server is silent ends the wait and closes the connection."""
    upstream = Upstream([HELLO, asyncio.Event()])
    stream = await opened(upstream)
    reader = asyncio.ensure_future(told(stream))
    for _ in range(5):
        await asyncio.sleep(0)
    reader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reader
    assert upstream.closed


@pytest.mark.parametrize("last", [[DONE], [], [BROKE]])
async def test_an_answer_that_has_ended_is_whole_whatever_becomes_of_the_connection(
    last: list[Step],
) -> None:
    """Every choice has its reason for ending: the mark may be missing, the connection broken."""
    stream = await opened(Upstream([HELLO, STOP, *last]))
    events = await told(stream)
    assert "[DONE]" == events[-1]
    assert "stop" == events[-2]["choices"][0]["finish_reason"]


async def test_an_answer_whose_second_choice_is_missing_has_not_ended() -> None:
    """Two were asked for and one ended before the connection broke."""
    stream = await opened(Upstream([HELLO, STOP, BROKE]), choices=2)
    _, code = await broken(stream)
    assert "connect_error" == code


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize(
    "steps",
    [
        [STOP, chunk(None, usage=USAGE)],
        [chunk({}, "stop", usage=USAGE)],
        [STOP, chunk({}, None, usage=USAGE)],
        [chunk({"content": "a"}, usage=USAGE), STOP, chunk(None, usage=USAGE)],
        [chunk({"content": "a"}, usage=None), STOP, chunk(None, usage=USAGE)],
    ],
)
async def test_usage_is_told_once_and_last_to_whom_it_was_promised(
    steps: list[Step], *, asked: bool
) -> None:
    """Wherever the server puts it, it is recorded, and never sent to a client that did not ask."""
    stream = await opened(Upstream([HELLO, *steps, DONE]), include_usage=asked)
    events = await told(stream)
    assert Usage(3, 0, 3) == stream.usage
    usages = [e["usage"] for e in events[:-1] if e.get("usage") is not None]
    assert ([USAGE] if asked else []) == usages
    if asked:
        assert ([], USAGE) == (events[-2]["choices"], events[-2]["usage"])
    else:
        assert not any("usage" in e for e in events[:-1])


async def test_an_unknown_usage_is_left_out() -> None:
    """A server that never told it leaves nothing to tell."""
    stream = await opened(Upstream([HELLO, STOP, DONE]), include_usage=True)
    events = await told(stream)
    assert stream.usage is None
    assert not any(e.get("usage") for e in events[:-1])


async def test_tokens_used_up_without_a_word_are_an_answer() -> None:
    """A model that thought until its limit has used tokens: the client is told of its limit."""
    used = {**USAGE, "completion_tokens": 5}
    stream = await opened(Upstream([ROLE, chunk({}, "length", usage=used), DONE]))
    events = await told(stream)
    assert ["length"] == [f for e in events[:-1] if (f := e["choices"][0]["finish_reason"])]


EVENTS = [
    ROLE,
    HELLO,
    chunk({"tool_calls": [{"index": 1, "id": "a", "function": {"name": "f", "arguments": ""}}]}),
    chunk({"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]}),
    chunk({}, "tool_calls"),
    chunk(None, usage=USAGE),
]


@given(
    sizes=st.lists(st.integers(0, 4), min_size=2 * len(EVENTS)),
    last=st.sampled_from([DONE, BROKE, b"{oops"]),
)
def test_what_comes_at_once_makes_no_difference(sizes: list[int], last: bytes | Exception) -> None:
    """However the server's writes are cut into reads, the client gets the same bytes and end."""

    async def read(steps: list[Step]) -> tuple[bytes, str, Usage | None]:
        stream = await opened(Upstream(steps), include_usage=True)
        got, code = b"", ""
        try:
            async for piece in stream.pieces():
                assert piece
                got += piece
        except StreamInterrupted as error:
            code = error.code
        return got, code, stream.usage

    rest, batches = [*EVENTS, *([last] if isinstance(last, bytes) else [])], []
    for size in sizes:
        batches.append(rest[:size])
        rest = rest[size:]
    batches.append(rest)
    broken_off = [last] if isinstance(last, Exception) else []
    alone = asyncio.run(read([*EVENTS, last]))
    assert alone == asyncio.run(read([*batches, *broken_off]))


async def test_the_slot_is_held_until_the_stream_is_closed() -> None:
    """Whoever closes the stream frees the provider's slot, once."""
    freed: list[str] = []
    upstream = Upstream([HELLO, STOP, DONE])
    stream = await opened(upstream)
    async with AsyncExitStack() as slot:
        slot.callback(freed.append, "slot")
        stream.hold(slot)
    assert [] == freed
    await stream.aclose()
    await stream.aclose()
    assert (["slot"], True) == (freed, upstream.closed)
