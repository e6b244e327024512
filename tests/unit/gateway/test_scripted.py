"""The double plays its script step by step and remembers who called."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from casework.config import ProviderConfig
from casework.errors import ConfigurationError
from casework.gateway.clock import Deadline, ManualClock
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.messages import Credential, Finish, Message, ProviderCall, Usage
from casework.gateway.providers.scripted import (
    Computed,
    Delay,
    Fail,
    Hang,
    Held,
    Reply,
    ScriptedProvider,
)

CALL = ProviderCall(
    model="m",
    messages=(Message("user", "u"),),
    output_schema={},
    schema_name="answer",
    parameters={},
    data=None,
)


def ask(provider: ScriptedProvider, clock: ManualClock, seconds: float = 30.0) -> Any:
    """Call the provider once."""
    return provider.complete(CALL, credential=None, deadline=Deadline.after(seconds, clock))


async def failure(provider: ScriptedProvider, clock: ManualClock) -> ProviderFailure:
    """Call the provider once and return how it failed."""
    with pytest.raises(ProviderFailure) as caught:
        await ask(provider, clock)
    return caught.value


async def test_steps_are_played_in_order_and_calls_remembered() -> None:
    """Each call takes the next step, and the calls can be looked at."""
    clock = ManualClock()
    provider = ScriptedProvider(
        [
            Reply("a", Finish.LENGTH, Usage(1)),
            Fail(FailureKind.HTTP_429, 429, 5.0, sent=False),
            Computed(lambda call: call.model),
        ],
        clock=clock,
    )
    deadline = Deadline.after(30, clock)
    first = await provider.complete(CALL, credential=Credential("K#1", "s"), deadline=deadline)
    assert ("a", Finish.LENGTH, Usage(1)) == (first.text, first.finish, first.usage)
    second = await failure(provider, clock)
    assert (FailureKind.HTTP_429, 429, 5.0, False) == (
        second.kind,
        second.http_status,
        second.retry_after_seconds,
        second.sent,
    )
    assert "m" == (await ask(provider, clock)).text
    assert [CALL] * 3 == list(provider.calls)
    assert ["K#1", None, None] == list(provider.key_labels)
    assert 0 == provider.steps_left


async def test_a_call_beyond_the_script_is_a_defect() -> None:
    """A test that expects three calls sees a fourth as unknown."""
    found = await failure(ScriptedProvider([]), ManualClock())
    assert (FailureKind.UNKNOWN, False) == (found.kind, found.sent)


async def test_the_last_step_may_repeat() -> None:
    """A server that is down stays down."""
    clock = ManualClock()
    provider = ScriptedProvider(
        [Reply("once"), Fail(FailureKind.HTTP_5XX, 503)], clock=clock, repeat_last=True
    )
    assert "once" == (await ask(provider, clock)).text
    kinds = {(await failure(provider, clock)).kind for _ in range(3)}
    assert {FailureKind.HTTP_5XX} == kinds


async def test_delays_pass_on_the_clock_up_to_the_deadline() -> None:
    """A delay within the deadline passes; a longer one times out exactly at it."""
    clock = ManualClock()
    provider = ScriptedProvider(
        [Delay(29.0, Reply("in time")), Delay(31.0, Reply("late")), Hang()], clock=clock
    )
    assert "in time" == (await ask(provider, clock)).text
    assert 29.0 == clock.monotonic()
    assert FailureKind.TIMEOUT is (await failure(provider, clock)).kind
    assert 59.0 == clock.monotonic()
    assert FailureKind.TIMEOUT is (await failure(provider, clock)).kind
    assert 89.0 == clock.monotonic()


async def test_a_held_step_waits_for_its_event_and_can_be_cancelled() -> None:
    """Calls in flight can be arranged without any waiting by time."""
    clock = ManualClock()
    gate = asyncio.Event()
    provider = ScriptedProvider([Held(gate, Reply("a")), Held(gate, Reply("b"))], clock=clock)
    first = asyncio.ensure_future(ask(provider, clock))
    second = asyncio.ensure_future(ask(provider, clock))
    await asyncio.sleep(0)
    assert 2 == len(provider.calls)
    second.cancel()
    gate.set()
    assert "a" == (await first).text
    with pytest.raises(asyncio.CancelledError):
        await second


async def test_a_script_comes_from_a_file(tmp_path: Path) -> None:
    """A configuration can name a script."""
    path = tmp_path / "script.json"
    steps = [
        {"do": "reply", "text": "{}", "finish": "length", "usage": {"prompt_tokens": 2}},
        {"do": "fail", "kind": "http_429", "http_status": 429, "retry_after_seconds": 5},
        {"do": "hang"},
    ]
    path.write_text(json.dumps({"repeat_last": True, "steps": steps}), encoding="utf-8")
    config = ProviderConfig(id="s", adapter="scripted", file=path)
    provider = ScriptedProvider.from_config(config)
    clock = ManualClock()
    first = await ask(provider, clock)
    assert ("{}", Finish.LENGTH, Usage(2)) == (first.text, first.finish, first.usage)
    second = await failure(provider, clock)
    assert (FailureKind.HTTP_429, 429, 5.0) == (
        second.kind,
        second.http_status,
        second.retry_after_seconds,
    )
    await provider.aclose()
    assert provider.closed


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        '{"steps": [{"do": "dance"}]}',
        '{"steps": [{"do": "reply"}]}',
        '{"steps": [{"do": "fail", "kind": "canary"}]}',
        '{"steps": [{"do": "fail", "kind": "http_5xx", "http_status": 999}]}',
        '{"steps": [{"do": "reply", "text": "x", "canary": 1}]}',
        '{"steps": [], "steps": []}',
        '{"steps": [{"do": "reply", "text": "x", "usage": {"prompt_tokens": true}}]}',
    ],
)
def test_what_is_no_script_is_refused_on_one_line(tmp_path: Path, content: str) -> None:
    """A faulty script is told with its place and without its words."""
    path = tmp_path / "script.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigurationError) as caught:
        ScriptedProvider.from_config(ProviderConfig(id="s", adapter="scripted", file=path))
    assert str(caught.value).startswith("script.json: ")
    assert "\n" not in str(caught.value)
    assert caught.value.__context__ is None


def test_a_script_that_is_not_there_is_told(tmp_path: Path) -> None:
    """No file named, none there, and one too big are configuration errors."""
    config = ProviderConfig(id="s", adapter="scripted")
    with pytest.raises(ConfigurationError, match="needs a file"):
        ScriptedProvider.from_config(config)
    missing = config.model_copy(update={"file": tmp_path / "none"})
    with pytest.raises(ConfigurationError, match="cannot be read \\(FileNotFoundError\\)"):
        ScriptedProvider.from_config(missing)
    big = tmp_path / "big"
    with big.open("wb") as stream:
        stream.truncate(16 * 1024 * 1024 + 1)
    with pytest.raises(ConfigurationError, match="is larger than"):
        ScriptedProvider.from_config(config.model_copy(update={"file": big}))
