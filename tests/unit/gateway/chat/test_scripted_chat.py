"""The double speaks chat, streams and embeddings too, so that tests need no server."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from casework.config import ProviderConfig
from casework.gateway.chat.calls import (
    ChatCall,
    ChatProvider,
    EmbeddingCall,
    EmbeddingProvider,
    ListingProvider,
)
from casework.gateway.clock import Deadline, ManualClock
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.messages import Credential
from casework.gateway.providers.scripted import (
    Break,
    ChatBody,
    Computed,
    Delay,
    Events,
    Fail,
    Hang,
    Pause,
    Reply,
    ScriptedEvents,
    ScriptedProvider,
    Silence,
    Step,
    Until,
    Vectors,
)

CALL = ChatCall(model="m", members={"messages": b'[{"role":"user","content":"u"}]', "x": b"1"})
EMBED = EmbeddingCall(model="m", inputs=(b'"a"',), members={})
KEY = Credential("K#1", "s")


def play(provider: ScriptedProvider, method: str, call: Any = CALL, seconds: float = 30.0) -> Any:
    """Make one call of any kind."""
    deadline = Deadline.after(seconds, provider._clock)
    return getattr(provider, method)(call, credential=KEY, deadline=deadline)


async def failure(provider: ScriptedProvider, method: str, call: Any = CALL) -> FailureKind:
    """Make one call and return how it failed."""
    with pytest.raises(ProviderFailure) as caught:
        await play(provider, method, call)
    return caught.value.kind


async def batches(stream: Any) -> list[list[bytes]]:
    """Read a stream to its end."""
    return [batch async for batch in stream.events()]


def scripted(*steps: Step) -> ScriptedProvider:
    """Return a double on a clock of its own."""
    return ScriptedProvider(steps, clock=ManualClock())


def test_the_double_satisfies_every_seam() -> None:
    """No bridge stands between it and a round."""
    double = scripted()
    assert isinstance(double, ChatProvider)
    assert isinstance(double, EmbeddingProvider)
    assert isinstance(double, ListingProvider)


async def test_bodies_are_given_as_they_are() -> None:
    """Whatever they hold, for chat and for embeddings; the calls and keys are remembered."""
    double = scripted(ChatBody(b"{oops", ("x",)), Vectors(b"[]", ("y",)))
    reply = await play(double, "chat")
    assert (b"{oops", ("x",)) == (reply.body, reply.dropped)
    vectors = await play(double, "embed", EMBED)
    assert (b"[]", ("y",)) == (vectors.body, vectors.dropped)
    assert ([CALL], [EMBED], []) == (
        list(double.chat_calls),
        list(double.embedding_calls),
        list(double.calls),
    )
    assert ["K#1", "K#1"] == list(double.key_labels)


async def test_a_text_answers_chat_and_streams() -> None:
    """The steps of older scripts serve clients too."""
    double = scripted(Reply("a"), Computed(lambda call: call.messages[0].content))
    reply = await play(double, "chat")
    assert ("a", ("x",)) == (
        json.loads(reply.body)["choices"][0]["message"]["content"],
        reply.dropped,
    )
    stream = await play(double, "open_stream")
    ((role, text, end, done),) = await batches(stream)
    assert ("u", "stop", b"[DONE]", ("x",)) == (
        json.loads(text)["choices"][0]["delta"]["content"],
        json.loads(end)["choices"][0]["finish_reason"],
        done,
        stream.dropped,
    )
    assert json.loads(role)["id"] == json.loads(end)["id"]
    stream.close()


async def test_a_stream_plays_its_pieces() -> None:
    """Events alone or together, pauses on the clock, and an end."""
    double = scripted(Events((b"1", (b"2", b"3"), Pause(5.0), b"4"), ("x",)))
    stream = await play(double, "open_stream")
    assert [[b"1"], [b"2", b"3"], [b"4"]] == await batches(stream)
    assert 5.0 == double._clock.monotonic()
    assert ("x",) == stream.dropped
    assert [False] == [one.closed for one in double.streams]
    stream.close()
    assert [True] == [one.closed for one in double.streams]


@pytest.mark.parametrize("kind", [FailureKind.CONNECT_ERROR, FailureKind.RESPONSE_TOO_LARGE])
async def test_a_stream_breaks_where_it_is_told_to(kind: FailureKind) -> None:
    """What came before was read."""
    stream = ScriptedEvents([b"1", Break(kind)], clock=ManualClock())
    events = stream.events()
    assert [b"1"] == await anext(events)
    with pytest.raises(ProviderFailure) as caught:
        await anext(events)
    assert kind is caught.value.kind


async def test_a_silent_stream_ends_when_it_is_closed() -> None:
    """As a reader of a real one finds out."""
    stream = ScriptedEvents([Silence()], clock=ManualClock())
    waiting = asyncio.ensure_future(anext(stream.events()))
    await asyncio.sleep(0)
    assert not waiting.done()
    stream.close()
    with pytest.raises(ProviderFailure):
        await waiting


async def test_a_stream_waits_until_it_is_let_on() -> None:
    """Chunks can be arranged without any waiting by time."""
    gate = asyncio.Event()
    stream = ScriptedEvents([Until(gate), b"1"], clock=ManualClock())
    waiting = asyncio.ensure_future(anext(stream.events()))
    await asyncio.sleep(0)
    assert not waiting.done()
    gate.set()
    assert [b"1"] == await waiting


@pytest.mark.parametrize(
    ("step", "method"),
    [
        (Vectors(b""), "chat"),
        (Events(()), "chat"),
        (ChatBody(b""), "open_stream"),
        (Reply("a"), "embed"),
        (ChatBody(b""), "embed"),
    ],
)
async def test_a_step_for_another_kind_of_call_is_a_defect(step: Step, method: str) -> None:
    """A test that mixes them up sees unknown."""
    call = EMBED if method == "embed" else CALL
    assert FailureKind.UNKNOWN is await failure(scripted(step), method, call)


@pytest.mark.parametrize("method", ["chat", "open_stream", "embed"])
async def test_failures_and_delays_are_played_for_every_kind_of_call(method: str) -> None:
    """A server that is slow or down is so for everybody."""
    call = EMBED if method == "embed" else CALL
    steps = (Fail(FailureKind.HTTP_429), Hang(), Delay(31.0, Reply("a")))
    double = scripted(*steps)
    assert [FailureKind.HTTP_429, FailureKind.TIMEOUT, FailureKind.TIMEOUT] == [
        await failure(double, method, call) for _ in steps
    ]


async def test_models_are_listed_without_a_step() -> None:
    """Discovery does not disturb the script."""
    double = ScriptedProvider([Reply("a")], models=["m", "org/name:tag"])
    names = await double.models(credential=None, deadline=Deadline.after(1, ManualClock()))
    assert (("m", "org/name:tag"), 1) == (names, double.steps_left)


async def test_a_script_file_may_hold_chat_streams_and_embeddings(tmp_path: Path) -> None:
    """A rehearsal of the facade needs no Python."""
    script = {
        "models": ["m"],
        "steps": [
            {"do": "chat", "body": {"b": 1, "a": []}},
            {
                "do": "stream",
                "events": [{"a": 1}, "[DONE]"],
                "pause_seconds": 0.001,
                "break": True,
            },
            {"do": "embeddings", "body": {"data": []}, "delay_seconds": 0.001},
            {"do": "stream", "events": []},
        ],
    }
    path = tmp_path / "script.json"
    path.write_text(json.dumps(script), encoding="utf-8")
    config = ProviderConfig(id="s", adapter="scripted", model="m", file=path)
    double = ScriptedProvider.from_config(config)
    assert b'{"a":[],"b":1}' == (await play(double, "chat")).body
    events = (await play(double, "open_stream")).events()
    assert [b'{"a":1}'] == await anext(events)
    assert [b"[DONE]"] == await anext(events)
    with pytest.raises(ProviderFailure):
        await anext(events)
    assert b'{"data":[]}' == (await play(double, "embed", EMBED)).body
    assert [] == await batches(await play(double, "open_stream"))
    assert ("m",) == double._models
