"""Showing a run: a live screen on a terminal, plain lines elsewhere, both on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from casework.runtime.cli.run_monitor import Display
from casework.runtime.cli.terminal import Terminal, showable
from casework.runtime.views import phrases
from casework.runtime.views.line_standing import hold_lines, standstill_lines
from casework.runtime.views.status_view import (
    StatusView,
    counts_line,
    status_lines,
    trouble_line,
    usage_line,
)

LINE_SECONDS: Final = 10.0


class Silent:
    """Shows nothing."""

    def show(self, view: StatusView) -> None:
        """Show nothing."""


class PlainLines:
    """Writes one line now and then, without moving the cursor.

    Args:
        write: Writes a line.
        monotonic: Tells the time.
    """

    def __init__(self, write: Callable[[str], None], monotonic: Callable[[], float]) -> None:
        self._write = write
        self._monotonic = monotonic
        self._shown_at: float | None = None
        self._shown: tuple[int, str] | None = None

    def show(self, view: StatusView) -> None:
        """Write a line if ten seconds or one per cent of the work have passed."""
        counts, now = view.counts, self._monotonic()
        percent = 100 * counts.settled // counts.total if counts.total else 100
        # A limit that is reached stops nothing while others still answer.
        holds = standstill_lines(view.line) if counts.running else hold_lines(view.line)
        line = "  ".join((counts_line(counts, view.next_due_at), *holds))
        if self._shown is not None and self._shown_at is not None:
            waited = now - self._shown_at >= LINE_SECONDS
            moved = percent != self._shown[0]
            if line == self._shown[1] or not (waited or moved):
                return
        self._shown_at, self._shown = now, (percent, line)
        session = view.session
        eta = phrases.duration(session.eta_seconds if session else None)
        trouble = trouble_line(session.providers) if session else ""
        parts = (f"{percent}%", line, f"ETA {eta}", usage_line(view.usage), trouble)
        self._write("  ".join(part for part in parts if part))


class LiveScreen:
    """Redraws the status screen in place.

    Args:
        update: Takes the text to be drawn.
    """

    def __init__(self, update: Callable[[str], None]) -> None:
        self._update = update

    def show(self, view: StatusView) -> None:
        """Draw the screen anew."""
        self._update("\n".join(map(showable, status_lines(view))))


@contextmanager
def display(
    terminal: Terminal, monotonic: Callable[[], float], *, lines: bool = False
) -> Iterator[Display]:
    """Return the display that fits the terminal and what the person asked for.

    Args:
        terminal: Where it is shown.
        monotonic: Tells the time.
        lines: Write lines on a terminal too, as a journal wants them.
    """
    if terminal.quiet or not terminal.progress:
        yield Silent()
        return
    if lines or not terminal.interactive:
        yield PlainLines(terminal.note, monotonic)
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(file=sys.stderr, highlight=False, markup=False, emoji=False)
    with Live(console=console, auto_refresh=False, transient=True) as live:
        yield LiveScreen(lambda text: live.update(Text(text), refresh=True))
