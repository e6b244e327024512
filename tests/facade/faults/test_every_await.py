"""Whatever ends a request, wherever it waits: every count returns to where it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import pytest

from casework.facade.endpoint import CLIENT_LEFT_STATUS
from casework.gateway.errors import FailureKind
from casework.gateway.providers.scripted import (
    ChatBody,
    Delay,
    Events,
    Fail,
    Pause,
    Silence,
    Step,
    Vectors,
)
from tests.facade.faults.interruptions import (
    CUTS,
    Asking,
    Cut,
    Interruption,
    Scene,
    cancelled,
    client_left,
    free_to_probe,
    play,
    play_over_http,
    stalled,
)
from tests.facade.faults.stage import CHAT, EMBEDDINGS
from tests.facade.serving import HELLO
from tests.simulation.virtual_loop import VirtualClock
from tests.support.kept_calls import COMPLETION

AWAITS_MAX: Final = 300
"""No request waits as often as that."""
USAGE: Final = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


def chunk(finish: str | None = None, **delta: str) -> bytes:
    """Return the data of one event."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return json.dumps({"id": "c-1", "object": "x", "model": "echo", "choices": [choice]}).encode()


DOWN: Final = Delay(0.1, Fail(FailureKind.HTTP_5XX, 503))
WHOLE: Final = Delay(0.5, ChatBody(COMPLETION.encode()))
VECTORS: Final = Delay(
    0.5,
    Vectors(json.dumps({"data": [{"index": 0, "embedding": [1.0]}], "usage": USAGE}).encode()),
)
STREAM: Final = Delay(
    3.0,
    Events(
        (
            *(chunk(role="assistant"), Pause(0.2), chunk(content="a"), Pause(3.0)),
            *(chunk(content="b"), Pause(0.2), chunk("stop"), b"[DONE]"),
        )
    ),
)
SILENT: Final = Events((chunk(content="a"), Silence()))


def asks(path: str, body: Mapping[str, object], **headers: str) -> Asking:
    """Return a request that is made of a scene."""
    named = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return lambda scene: scene.ask(path, body, named)


ROUTES: Final[Mapping[str, tuple[tuple[Step, ...], tuple[Step, ...], Asking]]] = {
    "a whole answer": ((DOWN, DOWN, DOWN), (WHOLE,), asks(CHAT, HELLO)),
    "a stream": ((DOWN, DOWN, DOWN), (STREAM,), asks(CHAT, {**HELLO, "stream": True})),
    "a stream that falls silent": ((SILENT,), (), asks(CHAT, {**HELLO, "stream": True})),
    "vectors": ((DOWN, DOWN, DOWN), (VECTORS,), asks(EMBEDDINGS, {"model": "auto", "input": "a"})),
    "a kept answer": ((DOWN, DOWN, DOWN), (WHOLE,), asks(CHAT, HELLO, idempotency_key="k-1")),
    "nobody answers": ((DOWN, DOWN, DOWN), (DOWN,), asks(CHAT, HELLO)),
}


def scene_of(route: str, folder: Path) -> Callable[[VirtualClock], Scene]:
    """Return what makes the service that a request meets."""
    near, far, _ = ROUTES[route]

    def made(clock: VirtualClock) -> Scene:
        return Scene({"near": near, "far": far}, clock, folder, kept="kept" in route)

    return made


def assert_sound(played: Scene, cut: Cut) -> None:
    """Demand that a reply is whole where somebody is there for it, and never two things at once."""
    body, line = played.body, played.lines[0]
    if b"[DONE]" in body:
        assert b'"stop"' in body
        assert b'"error"' not in body
    if line.code == "shutting_down":
        assert played.whole
        assert (1, line.status) == (body.count(b'"shutting_down"'), played.status)
    if line.status == CLIENT_LEFT_STATUS:
        assert cut in {client_left, stalled}
        assert line.code == ("client_left" if cut is client_left else "client_stalled")
    elif cut is not cancelled:
        assert played.whole


@pytest.mark.parametrize("cut", CUTS.values(), ids=list(CUTS))
@pytest.mark.parametrize("route", list(ROUTES))
def test_cut_short_at_every_await_nothing_is_left_behind(
    tmp_path: Path, route: str, cut: Cut
) -> None:
    """Places, probes, streams and tasks are free again, and the reply is none or a sound one."""
    asking = ROUTES[route][-1]
    for at in range(1, AWAITS_MAX):
        (folder := tmp_path / str(at)).mkdir()
        played = play(scene_of(route, folder), asking, Interruption(cut=cut, at=at))
        assert free_to_probe(played, "far") or route == "nobody answers", at
        assert_sound(played, cut)
        if played.awaits < at:
            break
    assert 10 < at < AWAITS_MAX
    assert played.whole


@pytest.mark.parametrize("route", list(ROUTES))
def test_a_connection_that_breaks_at_any_piece_leaves_nothing_behind(
    tmp_path: Path, route: str
) -> None:
    """A server that cannot send, for whatever reason, is no reason to keep a place."""
    asking = ROUTES[route][-1]
    for at in range(AWAITS_MAX):
        (folder := tmp_path / str(at)).mkdir()
        played = play(scene_of(route, folder), asking, Interruption(send_breaks_at=at))
        assert free_to_probe(played, "far") or route == "nobody answers", at
        if played.whole:
            break
    assert 1 < at < AWAITS_MAX


def test_nothing_is_left_behind_by_what_nobody_disturbs(tmp_path: Path) -> None:
    """Each request comes to the end that it is made for."""
    ends = {}
    for number, route in enumerate(ROUTES):
        (folder := tmp_path / str(number)).mkdir()
        played = play(scene_of(route, folder), ROUTES[route][-1])
        assert played.whole
        ends[route] = played.lines[0].status, played.lines[0].code, played.lines[0].attempts
    assert {
        "a whole answer": (200, None, 4),
        "a stream": (200, None, 4),
        "a stream that falls silent": (200, "timeout", 1),
        "vectors": (200, None, 4),
        "a kept answer": (200, None, 4),
        "nobody answers": (502, "http_5xx", 4),
    } == ends


@pytest.mark.parametrize("cut", CUTS.values(), ids=list(CUTS))
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("faults", ["503,503,503", "hang=3", "reset,close,429", "wait=1"])
def test_cut_short_over_http_no_socket_is_left(
    tmp_path: Path, faults: str, cut: Cut, *, stream: bool
) -> None:
    """Upstream no reply is under way, and after the end of the gateway no connection is open."""
    asking = asks(CHAT, {**HELLO, "stream": stream})
    for at in range(1, AWAITS_MAX):
        (folder := tmp_path / str(at)).mkdir()
        played = play_over_http(folder, faults, asking, Interruption(cut=cut, at=at))
        assert_sound(played, cut)
        if played.awaits < at:
            break
    assert 10 < at < AWAITS_MAX
