"""A request's line names the model only once it was found to be one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.facade.serving import facade, provider

SETTINGS = provider("near", "http://127.0.0.1:9/v1") + "[interactive]\nmax_retries = 0\n"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/embeddings"])
async def test_what_may_be_any_text_is_not_kept(tmp_path: Path, path: str) -> None:
    """What a client writes in the model's place may be a key or a prompt."""
    asked = {"messages": [{"role": "user", "content": "x"}], "input": "x"}
    async with facade(SETTINGS, tmp_path) as served:
        await served.post(path, {**asked, "model": "my secret"})
        await served.post(
            path, {**asked, "model": "near/auto"}, {"X-Casework-Deadline-Seconds": "x"}
        )
        await served.post(path, {**asked, "model": "near/auto"})
    assert [None, None, "near/auto"] == [line.asked_model for line in served.lines]
    assert [None, None, "interactive_strict"] == [line.policy for line in served.lines]


async def test_every_call_that_failed_is_told(tmp_path: Path) -> None:
    """The one that ended the round too, with its kind."""
    settings = provider("one", "http://127.0.0.1:9/v1") + SETTINGS
    async with facade(settings, tmp_path) as served:
        await served.chat(model="auto")
    [line] = served.lines
    assert (2, ["one", "near"]) == (line.attempts, [f.provider for f in line.failures])
    assert {"connect_error"} == {f.code for f in line.failures}
