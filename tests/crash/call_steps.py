"""Kept calls that the crash suite interrupts.

A play is ``ROOT SECONDS``: the project, and how much later than the first start it is.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path

from casework.checkpoints.disk import ObservedDisk
from casework.facade.durable_calls import KeptAnswer
from casework.gateway.chat.calls import ChatCall, ChatReply
from casework.gateway.clock import MANUAL_START, Deadline, ManualClock
from casework.gateway.errors import FailureKind, ProviderFailure
from casework.gateway.messages import Credential
from tests.crash.scenario import calls_noted
from tests.crash.zygote import Observer, serve
from tests.support.kept_calls import Kept, NotedChat, chat_request, completion

KEYS = {"answers": 1, "fails": 1, "recovers": 2}
"""Idempotency keys and how many calls each needs when nothing goes wrong."""

EXPECTED = {"answers": "yes", "fails": "http_error", "recovers": "yes"}


class FiledChat(NotedChat):
    """Answers by key, and notes each call in a file that outlives the process.

    Args:
        notes: File with one line for each call that was begun.
        observe: Told ``("call", "before")`` and ``("call", "after")``.
    """

    def __init__(self, notes: Path, observe: Callable[[str, str], None]) -> None:
        super().__init__([])
        self._notes = notes
        self._observe = observe

    async def chat(
        self, call: ChatCall, /, *, credential: Credential | None, deadline: Deadline
    ) -> ChatReply:
        """Note the call, then answer as the key's script says."""
        self._observe("call", "before")
        key = next(key for key in KEYS if key.encode() in call.members["messages"])
        earlier = calls_noted(self._notes).count(key)
        descriptor = os.open(self._notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(descriptor, key.encode() + b"\n")
        os.close(descriptor)
        self._observe("call", "after")
        if key == "fails":
            raise ProviderFailure(FailureKind.HTTP_ERROR, http_status=400)
        if key == "recovers" and earlier == 0:
            raise ProviderFailure(FailureKind.HTTP_5XX, http_status=503)
        return completion()


async def settle(kept: Kept) -> dict[str, str]:
    """Send each key until it is settled, as a patient client does."""
    came_to: dict[str, str] = {}
    for key in KEYS:
        for _ in range(3):
            reply = await kept.answer(chat_request(key), key)
            if isinstance(reply, KeptAnswer):
                came_to[key] = "yes" if b'"yes"' in reply.body else "another"
                break
            came_to[key] = reply.reply.code
            kept.clock.advance(60)
    await kept.calls.aclose()
    return came_to


def calls(words: Sequence[str], observe: Observer) -> int:
    """Play the scenario; 0 if everything ended as expected."""
    root, seconds_later = words
    clock = ManualClock(MANUAL_START + timedelta(seconds=int(seconds_later)))
    kept = Kept(Path(root), clock=clock, disk=ObservedDisk(observe))
    kept.provider = FiledChat(Path(root) / "calls.txt", observe)
    return 0 if asyncio.run(settle(kept)) == EXPECTED else 3


if __name__ == "__main__":
    serve(calls)
