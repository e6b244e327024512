"""Run the double by itself, until a signal or the end of its standard input."""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys

from tests.support.fault_upstream.server import MODELS, FaultUpstream


async def main() -> None:
    """Listen, say where, and wait for the order to end."""
    parser = argparse.ArgumentParser(prog="fault_upstream", description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between two events")
    parser.add_argument("--key", default="", help="the only key that is let in")
    parser.add_argument("--model", action="append", help="a model to list; may be repeated")
    given = parser.parse_args()
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    models = tuple(given.model or MODELS)
    async with FaultUpstream(given.port, models, given.key, given.pause) as upstream:
        sys.stdout.write(f"{upstream.base_url}\n")
        sys.stdout.flush()
        await ended.wait()


asyncio.run(main())
