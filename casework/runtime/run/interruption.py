"""Signals: the first asks to finish what runs, the second to leave at once."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Interruption:
    """How urgently somebody wants this process to stop."""

    def __init__(self) -> None:
        self.stopping = asyncio.Event()
        """Set by the first signal: take no new work, stop waiting, let running rounds end."""
        self.leaving = asyncio.Event()
        """Set by the second signal: leave running calls as a crash would."""

    def press(self) -> None:
        """Count one signal."""
        (self.leaving if self.stopping.is_set() else self.stopping).set()

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take the place of the handlers of SIGINT and SIGTERM while the context lasts.

        To be entered on the main thread, inside the running event loop.
        """
        loop = asyncio.get_running_loop()

        def pressed(_signal: int, _frame: FrameType | None) -> None:
            loop.call_soon_threadsafe(self.press)

        before = {number: signal.signal(number, pressed) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)


def interrupt_on_terminate() -> None:
    """Let SIGTERM end this process as Ctrl-C does, wherever nobody else listens for it."""

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
