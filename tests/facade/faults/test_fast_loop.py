"""What depends on how a loop reads, writes and closes, once more on the loop of the product."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from casework.runtime.http.server import run_on_fast_loop
from tests.facade.faults import (
    test_broken_streams as broken_streams,
)
from tests.facade.faults import (
    test_failover as failover,
)
from tests.facade.faults import (
    test_leaving_clients as leaving_clients,
)
from tests.facade.faults import (
    test_odd_requests as odd_requests,
)
from tests.facade.faults import (
    test_shutting_down as shutting_down,
)
from tests.facade.faults import (
    test_silence as silence,
)
from tests.facade.faults import (
    test_stream_framing as stream_framing,
)

Scene: TypeAlias = Callable[[Path], Awaitable[None]]

LEFT: Final = leaving_clients.test_the_call_is_closed_and_the_log_says_why
STALE: Final = failover.test_a_connection_gone_stale_costs_neither_an_error_nor_a_call

SCENES: Final[tuple[Scene, ...]] = (
    silence.test_a_client_that_takes_nothing_is_hung_up_on,
    silence.test_a_client_that_is_slow_gets_everything,
    silence.test_a_reply_that_begins_with_a_comment_can_still_fail_over,
    shutting_down.test_an_open_stream_gets_one_error_event_and_its_end,
    shutting_down.test_new_requests_are_refused_meanwhile,
    stream_framing.test_the_framing_of_a_server_is_its_own_affair,
    odd_requests.test_an_absurd_head_is_not_kept,
    odd_requests.test_trailers_without_end_are_not_kept,
    odd_requests.test_garbage_behind_a_request_does_not_get_into_its_reply,
    odd_requests.test_a_client_that_waits_for_permission_is_refused_for_good,
    *(
        partial(odd_requests.test_a_body_too_long_is_refused_while_it_is_still_sent, chunked=one)
        for one in (True, False)
    ),
    *(
        partial(odd_requests.test_a_client_that_sent_ahead_is_missed_too, together=one)
        for one in (True, False)
    ),
    *(
        partial(LEFT, fault=fault, stream=stream, read=read)
        for fault, stream, read in leaving_clients.PLACES.values()
    ),
    *(
        partial(
            broken_streams.test_what_breaks_after_it_began_is_told_once_and_asked_of_nobody_else,
            fault=fault,
            code=code,
        )
        for fault, code in broken_streams.AFTER.items()
        if fault in {"reset=3", "close=3", "hang=3"}
    ),
    partial(STALE, what="stream"),
)


@pytest.mark.parametrize("scene", SCENES)
def test_it_holds_on_the_fast_loop(tmp_path: Path, scene: Scene) -> None:
    """The same, down to the last byte and call."""
    assert run_on_fast_loop(lambda: scene(tmp_path)) is None
