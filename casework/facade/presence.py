"""Whether somebody still waits for a reply; where nobody does, its work is ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from enum import StrEnum
from typing import Any, Final, TypeAlias

Receive: TypeAlias = Callable[[], Coroutine[Any, Any, Any]]

UNWATCHED_SECONDS: Final = 0.1
"""How long a request goes on before anybody looks whether its client has left."""


class Ended(StrEnum):
    """Why the work of a request was ended from outside."""

    CLIENT_LEFT = "client_left"
    SHUTTING_DOWN = "shutting_down"
    CLIENT_STALLED = "client_stalled"
    """The client stays and takes nothing."""


class Presence:
    """Ends the running task when its client leaves, or when somebody says so.

    To be made in the task that does the work, after the whole body was read.

    Args:
        receive: The server's channel; it tells of the client's leave.
    """

    def __init__(self, receive: Receive) -> None:
        task = asyncio.current_task()
        assert task is not None, "a request runs in a task"
        self._task = task
        self._receive = receive
        self._watcher: asyncio.Task[None] | None = None
        self._timer = asyncio.get_running_loop().call_later(UNWATCHED_SECONDS, self._begin)
        self.ended: Ended | None = None

    def end(self, why: Ended) -> None:
        """Cancel the work, once."""
        if self.ended is None:
            self.ended = why
            self._task.cancel()

    def caught(self) -> bool:
        """Tell, in a handler of its cancellation, whether it was ended by :meth:`end`.

        If so, the task goes on as if nothing had cancelled it.
        """
        if self.ended is None:
            return False
        self._task.uncancel()
        return True

    def close(self) -> None:
        """Stop looking."""
        self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()

    def _begin(self) -> None:
        self._watcher = asyncio.get_running_loop().create_task(self._watch())

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.end(Ended.CLIENT_LEFT)
