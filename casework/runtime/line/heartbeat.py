"""A thread that renews claims, because the event loop may be busy for longer than a claim lasts."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event, Thread

from casework.errors import StorageError

_LOG = logging.getLogger(__name__)


class Heartbeat:
    """Calls something now and then until it is stopped.

    Args:
        beat: What is called, in a thread of its own.
        seconds: How often.
    """

    def __init__(self, beat: Callable[[], None], seconds: float) -> None:
        self._beat = beat
        self._seconds = seconds
        self._stopped = Event()
        self._thread = Thread(target=self._run, name="casework-heartbeat", daemon=True)

    def start(self) -> None:
        """Begin to beat."""
        self._thread.start()

    def stop(self) -> None:
        """Beat no more; return when the last beat is over."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            try:
                self._beat()
            except StorageError as error:
                # A beat that is left out costs nothing as long as one in three reaches the index.
                _LOG.warning("claims not renewed", extra={"action": "beat", "code": error.code})
