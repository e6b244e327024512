"""Recordings answer the requests they were made of, and no others."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from casework.config import ProviderConfig
from casework.errors import ConfigurationError
from casework.gateway.clock import Deadline, ManualClock
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.messages import Finish, Message, ProviderCall, ProviderReply, Usage
from casework.gateway.providers.replay import ReplayProvider, recording, recording_name
from casework.gateway.request_hash import request_hash

CALL = ProviderCall(
    model="m",
    messages=(Message("user", "u"),),
    output_schema={},
    schema_name="answer",
    parameters={},
    data=None,
)
OTHER = replace(CALL, messages=(Message("user", "other"),))
REPLIES = {
    CALL.messages: ProviderReply(
        text='{"a": "\u2028\u2029\x85 b"}', finish=Finish.STOP, usage=Usage(1, None, 2)
    ),
    OTHER.messages: ProviderReply(text="", finish=Finish.REFUSED),
}


def entry(path: Path | None) -> ProviderConfig:
    """Return a provider's entry."""
    return ProviderConfig(id="r", adapter="replay", file=path)


async def ask(provider: ReplayProvider, call: ProviderCall) -> ProviderReply:
    """Call the provider once."""
    deadline = Deadline.after(30, ManualClock())
    return await provider.complete(call, credential=None, deadline=deadline)


@pytest.fixture(params=["lines", "lines with odd ends", "folder"])
def recorded(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return two recordings, in each of the forms that can be read."""
    lines = [recording(call, REPLIES[call.messages]) for call in (CALL, OTHER)]
    if request.param == "folder":
        for call, line in zip((CALL, OTHER), lines, strict=True):
            (tmp_path / recording_name(call)).write_bytes(line)
        return tmp_path
    path = tmp_path / "recorded.jsonl"
    content = b"".join(lines)
    if request.param != "lines":
        content = b"\n" + b"\r\n".join(line.strip() for line in [*lines, lines[0]])
    path.write_bytes(content)
    return path


async def test_what_was_recorded_is_answered(recorded: Path) -> None:
    """Text, reason and usage come back as they were, line separators inside texts too."""
    provider = ReplayProvider.from_config(entry(recorded))
    for call in (CALL, OTHER, replace(CALL, model="another")):
        assert REPLIES[call.messages] == await ask(provider, call)
    await provider.aclose()


async def test_a_miss_is_an_error(recorded: Path) -> None:
    """A request that differs in anything was not recorded."""
    provider = ReplayProvider.from_config(entry(recorded))
    with pytest.raises(ProviderFailure) as caught:
        await ask(provider, replace(CALL, parameters={"temperature": 0}))
    assert FailureKind.REPLAY_MISS is caught.value.kind


@pytest.mark.parametrize(
    "line",
    [
        "x",
        "[]",
        "{}",
        '{"request_hash": "short", "text": "x"}',
        json.dumps({"request_hash": "0" * 64}),
        json.dumps({"request_hash": "0" * 64, "text": 1}),
        json.dumps({"request_hash": "0" * 64, "text": "x", "finish": "canary"}),
        json.dumps({"request_hash": "0" * 64, "text": "x", "usage": {"prompt_tokens": True}}),
        json.dumps({"request_hash": "0" * 64, "text": "x", "usage": {"canary": 1}}),
        json.dumps({"request_hash": "0" * 64, "text": "x", "canary": 1}),
        json.dumps({"request_hash": request_hash(CALL), "text": "another answer"}),
    ],
)
def test_a_damaged_line_is_told_by_its_number(tmp_path: Path, line: str) -> None:
    """Recordings load whole or not at all."""
    path = tmp_path / "recorded.jsonl"
    path.write_bytes(recording(CALL, REPLIES[CALL.messages]) + b"\n" + line.encode())
    with pytest.raises(ConfigurationError) as caught:
        ReplayProvider.from_config(entry(path))
    assert str(caught.value).startswith("recorded.jsonl:3: ")
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"{}", recording(OTHER, REPLIES[OTHER.messages])])
async def test_a_damaged_file_of_a_folder_is_malformed(tmp_path: Path, content: bytes) -> None:
    """A recording under a wrong name or without its form is no answer."""
    (tmp_path / recording_name(CALL)).write_bytes(content)
    with pytest.raises(ProviderFailure) as caught:
        await ask(ReplayProvider.from_config(entry(tmp_path)), CALL)
    assert FailureKind.MALFORMED_RESPONSE is caught.value.kind


@pytest.mark.parametrize("name", [None, "none"])
def test_missing_recordings_are_told(tmp_path: Path, name: str | None) -> None:
    """No file named and no file there are configuration errors."""
    with pytest.raises(ConfigurationError):
        ReplayProvider.from_config(entry(tmp_path / name if name else None))
