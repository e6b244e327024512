"""A connection without a network, fed by hand."""

from __future__ import annotations

import asyncio
import socket
from typing import Any


class Wire(asyncio.Transport):
    """The other half of a connection that a test feeds by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.ours, self.theirs = socket.socketpair()
        self.written = b""
        self.closed = False
        self.reading = True

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Return the socket that is asked whether it has anything."""
        return self.ours if name == "socket" else default

    def write(self, data: Any) -> None:
        """Remember what was written."""
        self.written += data

    def get_write_buffer_size(self) -> int:
        """Tell that everything has left."""
        return 0

    def pause_reading(self) -> None:
        """Remember that nothing is to come."""
        self.reading = False

    def resume_reading(self) -> None:
        """Remember that more may come."""
        self.reading = True

    def abort(self) -> None:
        """Remember the end."""
        self.closed = True

    def close_sockets(self) -> None:
        """Let go of what the test has used."""
        self.ours.close()
        self.theirs.close()

    def is_closing(self) -> bool:
        """Tell of the end."""
        return self.closed
